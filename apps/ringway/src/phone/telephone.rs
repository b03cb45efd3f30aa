//! The front end of [`Phone`] on Linux: a worker thread for it, a media thread for each call.
//!
//! Its owner gives it commands and [waits](Telephone::wait) for events on one thread, which also carries out the
//! phone's actions.

use crate::failure::Failure;
use crate::password;
use crate::phone::audio::Audio;
use crate::phone::known_phones::KnownPhones;
use crate::phone::line::Line;
use crate::phone::outcome::MediaOutcome;
use crate::phone::settings::{Listening, MediaSettings, Settings};
use ringway_agent::{Config, Listener};
use ringway_audio::Ringer;
use ringway_dns::{Resolver, Servers};
use ringway_dtls::{DtlsTransport, Identity};
use ringway_linux::media::Priority;
use ringway_linux::{ActionSink, Bound, Clock, Hosts, Listen, Runtime};
use ringway_media::MediaSession;
use ringway_media::dtls::DtlsIdentity;
use ringway_media::session::{PortRow, SessionConfig};
use ringway_phone::{
    Action, Call, CallNumber, IncomingPolicy, Phone, PhoneCommand, PhoneConfig, PhoneEvent, PhoneLimits,
    StunServer, TransferPolicy,
};
use ringway_resolve::Usable;
use ringway_sansio::{Context, Seed, Transport};
use ringway_srtp::SrtpSettings;
use ringway_tls::{HandshakeLimits, Observer, Role, TlsFiles, TlsLayers};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Treatment of calls, which differs between the programs that are phones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    /// Time that a call may ring.
    pub(crate) ring: Duration,
    pub(crate) incoming: IncomingPolicy,
    pub(crate) transfers: TransferPolicy,
    /// Calls at once.
    pub(crate) calls_max: usize,
}

/// A running phone.
pub(crate) struct Telephone {
    runtime: Runtime<Phone>,
    actions: Receiver<(Instant, Action)>,
    /// Events that nobody has taken yet.
    events: VecDeque<(Instant, PhoneEvent)>,
    lines: Vec<(CallNumber, Line)>,
    lines_opened: u32,
    /// Figures of media that are closed.
    media: Vec<(CallNumber, Result<MediaOutcome, Failure>)>,
    ringer: Option<Ringer>,
    settings: Settings,
    known: Option<KnownPhones>,
    clock: Clock,
}

impl Telephone {
    /// Binds its listeners, and registers where its account says so.
    pub(crate) fn start(
        settings: Settings,
        behaviour: Behaviour,
        known: Option<KnownPhones>,
    ) -> Result<Self, Failure> {
        let clock = Clock::new();
        let bound = bind(settings.bind, settings.listening)?;
        let hosts = Arc::new(Hosts::default());
        let config = phone_config(&settings, behaviour, known.as_ref(), bound.addresses())?;
        let seed = Seed::from_bytes(password::bytes()?);
        let phone =
            Phone::new(config, &seed, clock.now()).map_err(|error| Failure::usage(error.to_string()))?;
        let (actions_to, actions) = channel();
        let resolver = start_resolver(&bound, settings.bind.is_ipv4(), Arc::clone(&hosts))?;
        let mut runtime_config = ringway_linux::Config { clock, ..ringway_linux::Config::default() };
        runtime_config.streams.connect = connect_limit(settings.transport, runtime_config.streams.connect);
        match settings.listening {
            Listening::Plain => {}
            Listening::With(Transport::Dtls) => {
                runtime_config.associations = Some(Arc::new(dtls_associations(&settings.tls, hosts)?));
            }
            Listening::With(_) | Listening::TlsOnly => {
                // Without a certificate nobody can connect to the listener. Its address is the Contact, so the phone's own
                // connection has it.
                let is_closed = settings.tls.certificate.is_none();
                runtime_config.dials_from_listener = is_closed.then_some(Transport::Tls);
                runtime_config.layers = Arc::new(tls_layers(&settings.tls, hosts)?);
            }
        }
        let runtime =
            Runtime::start(bound, runtime_config, vec![phone], Arc::new(Sink { actions_to, resolver }))
                .map_err(|error| Failure::failed(error.to_string()))?;
        let telephone = Self {
            runtime,
            actions,
            events: VecDeque::new(),
            lines: Vec::new(),
            lines_opened: 0,
            media: Vec::new(),
            ringer: None,
            settings,
            known,
            clock,
        };
        telephone.with_phone(|phone, cx| phone.start(cx))?;
        Ok(telephone)
    }

    /// Addresses that it listens at.
    pub(crate) fn listeners(&self) -> &[Listen] {
        self.runtime.listeners()
    }

    /// Addresses of RTP, and the priorities of their threads.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (SocketAddr, Priority)> {
        self.lines.iter().map(|(_, line)| (line.rtp_address(), line.priority()))
    }

    /// Gives a command to the phone.
    pub(crate) fn command(&self, command: PhoneCommand) -> Result<(), Failure> {
        self.with_phone(move |phone, cx| phone.command(cx, command))
    }

    /// Calls a URI.
    pub(crate) fn call(&self, to: &str) -> Result<CallNumber, Failure> {
        let to = to.to_owned();
        let call = self.with_phone(move |phone, cx| {
            let newest = |phone: &Phone| phone.calls().last().map(Call::number);
            let before = newest(phone);
            phone.command(cx, PhoneCommand::Call { to });
            newest(phone).filter(|call| Some(*call) != before)
        })?;
        call.ok_or_else(|| Failure::failed("cannot call: there are too many calls"))
    }

    /// Sends OPTIONS to a URI.
    pub(crate) fn query_options(&self, to: &str) -> Result<(), Failure> {
        let to = to.to_owned();
        let sent = self.with_phone(move |phone, cx| phone.query_options(cx, &to))?;
        sent.map_err(|error| Failure::failed(format!("cannot ask: {error}")))
    }

    /// The URI that is called for one that a user gave.
    pub(crate) fn target(&self, uri: &str) -> String {
        self.settings.target(uri)
    }

    /// Figures of a call's media, once they are closed.
    pub(crate) fn take_media(&mut self, call: CallNumber) -> Option<Result<MediaOutcome, Failure>> {
        let place = self.media.iter().position(|(of, _)| *of == call)?;
        Some(self.media.swap_remove(place).1)
    }

    /// The next event; `None`: there was none for that long.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Result<Option<(Instant, PhoneEvent)>, Failure> {
        let end = Instant::now() + at_most;
        loop {
            while let Ok((at, action)) = self.actions.try_recv() {
                self.carry_out(at, action)?;
            }
            self.poll_lines()?;
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.runtime.has_failed() {
                return Err(Failure::failed("the phone's worker thread ended unexpectedly; start it again"));
            }
            let left = end.saturating_duration_since(Instant::now());
            let step = if self.lines.is_empty() { POLL_EVERY_IDLE } else { POLL_EVERY };
            match self.actions.recv_timeout(left.min(step)) {
                Ok((at, action)) => self.carry_out(at, action)?,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }

    /// Ends calls and the registration, waits a moment for the responses, and returns the events of it.
    pub(crate) fn shut_down(mut self) -> Vec<PhoneEvent> {
        // Without a worker there is nobody to end them.
        let _ = self.command(PhoneCommand::Quit);
        self.lines.clear();
        self.runtime.stop(GRACE, Phone::is_done);
        let last = self.actions.try_iter().filter_map(|(_, action)| {
            let Action::Event(event) = action else { return None };
            Some(event)
        });
        self.events.drain(..).map(|(_, event)| event).chain(last).collect()
    }

    fn carry_out(&mut self, at: Instant, action: Action) -> Result<(), Failure> {
        match action {
            Action::Event(event) => self.events.push_back((at, event)),
            Action::OpenMedia { call, session } => {
                let opened = self.open_line(call, *session).map_err(|failure| failure.lines().join("; "));
                self.with_phone(move |phone, cx| phone.on_media_opened(cx, call, opened))?;
            }
            Action::Media { call, command } => {
                if let Some((_, line)) = self.lines.iter_mut().find(|(of, _)| *of == call) {
                    line.command(command);
                }
            }
            Action::CloseMedia { call } => self.close_line(call)?,
            Action::StartRinging => self.ringer = self.audio().and_then(|audio| audio.ring().ok()),
            Action::StopRinging => self.ringer = None,
            Action::Retain(retained) => {
                let stored = self.known.as_mut().map(|known| known.remember(retained));
                self.complain(stored);
            }
            Action::Forget(zid) => {
                let stored = self.known.as_mut().map(|known| known.forget(&zid));
                self.complain(stored);
            }
            // The sink has passed it on.
            Action::Resolve { .. } => {}
        }
        Ok(())
    }

    fn open_line(&mut self, call: CallNumber, session: MediaSession) -> Result<SocketAddr, Failure> {
        let audio = self.audio();
        let Settings { media, advertised, .. } = &self.settings;
        self.lines_opened += 1;
        let place = (*advertised, self.lines_opened);
        let line = Line::open(session, media, audio.as_ref(), place, self.clock)?;
        let rtp = line.rtp_address();
        self.lines.push((call, line));
        Ok(rtp)
    }

    fn close_line(&mut self, call: CallNumber) -> Result<(), Failure> {
        let place = self.lines.iter().position(|(of, _)| *of == call);
        let closed = place.map(|place| self.lines.swap_remove(place).1.close());
        let (events, media) = closed.unzip();
        self.media.extend(media.map(|media| (call, media)));
        self.with_phone(move |phone, cx| {
            for event in events.unwrap_or_default() {
                phone.on_media(cx, call, event);
            }
            phone.on_media_closed(cx, call);
        })
    }

    /// Passes events of the media on to the phone.
    fn poll_lines(&mut self) -> Result<(), Failure> {
        let mut polled = Vec::new();
        for (call, line) in &mut self.lines {
            while let Some((what, is_working)) = line.poll_card() {
                self.events.push_back((Instant::now(), PhoneEvent::Sound { what, is_working }));
            }
            polled.extend(std::iter::from_fn(|| line.poll()).map(|event| (*call, event)));
        }
        if polled.is_empty() {
            return Ok(());
        }
        self.with_phone(move |phone, cx| {
            for (call, event) in polled {
                phone.on_media(cx, call, event);
            }
        })
    }

    /// The sound server and its devices; without one a call has no sound of ours, which an event says.
    fn audio(&mut self) -> Option<Audio> {
        let Settings { media, devices, .. } = &self.settings;
        let found = match (&media.audio, devices) {
            (Some(audio), _) => return Some(audio.clone()),
            (None, devices) => Audio::find(devices.as_ref()?),
        };
        let report = |failure: Failure| {
            let what = failure.lines().join("; ");
            self.events.push_back((Instant::now(), PhoneEvent::Sound { what, is_working: false }));
        };
        found.map_err(report).ok()
    }

    /// Reports a file of retained secrets that cannot be written; that ends no call.
    fn complain(&mut self, stored: Option<Result<(), String>>) {
        if let Some(Err(what)) = stored {
            self.events.push_back((Instant::now(), PhoneEvent::Refused { what }));
        }
    }

    fn with_phone<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Phone, &mut Context<'_, Action>) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        self.runtime.shards().call(0, f).ok_or_else(gone)
    }
}

/// Passes actions from the worker on to the thread that has the telephone.
struct Sink {
    actions_to: Sender<(Instant, Action)>,
    resolver: Resolver,
}

impl ActionSink<Action> for Sink {
    fn act(&self, _worker: usize, shard: u16, actions: std::vec::Drain<'_, Action>) -> u64 {
        for action in actions {
            if let Action::Resolve { query, target } = action {
                self.resolver.ask(shard, query, target);
            } else {
                // It fails while the phone is being ended.
                let _ = self.actions_to.send((Instant::now(), action));
            }
        }
        0
    }

    fn stored_through(&self) -> u64 {
        0
    }
}

fn phone_config(
    settings: &Settings,
    behaviour: Behaviour,
    known: Option<&KnownPhones>,
    listening: &[Listen],
) -> Result<PhoneConfig, Failure> {
    let listener = |listen: &Listen| Listener {
        transport: listen.transport,
        address: SocketAddr::new(settings.advertised, listen.address.port()),
    };
    let mut agent = Config::new(vec![settings.account.clone()], listening.iter().map(listener).collect());
    agent.ring = behaviour.ring;
    agent.caller_auth.clone_from(&settings.caller_auth);
    agent.large_requests = settings.large_requests;
    agent.trace = settings.trace;
    let media = &settings.media;
    Ok(PhoneConfig {
        srtp: media.srtp,
        suites: media.suites.clone(),
        allows_downgrade: media.may_downgrade,
        codecs: media.codecs.clone(),
        stun: settings.stun.map(|server| StunServer { host: server.ip().to_string(), port: server.port() }),
        zrtp: known.map(KnownPhones::settings),
        session: SessionConfig {
            port_row: PortRow::of(media.port_row),
            dtls: dtls_identity(media)?,
            srtp: SrtpSettings { window_packets: media.replay_window.into(), ..SrtpSettings::default() },
            ..SessionConfig::default()
        },
        incoming: behaviour.incoming,
        transfers: behaviour.transfers,
        limits: PhoneLimits { calls_max: behaviour.calls_max, ..PhoneLimits::default() },
        ..PhoneConfig::new(agent)
    })
}

/// The certificate of this run of the program, if a call may need it. With suites that DTLS has no profiles for, calls do
/// without it.
fn dtls_identity(media: &MediaSettings) -> Result<Option<Arc<dyn DtlsIdentity>>, Failure> {
    let suites = match media.suites.as_slice() {
        [] => Identity::SUITES.to_vec(),
        chosen => chosen.iter().copied().filter(|suite| Identity::SUITES.contains(suite)).collect(),
    };
    if !media.srtp.uses_dtls() || suites.is_empty() {
        return Ok(None);
    }
    match Identity::new(&suites) {
        Ok(identity) => Ok(Some(Arc::new(identity))),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

/// Checks that a phone can listen at `address`.
pub(crate) fn check_address(address: SocketAddr) -> Result<(), Failure> {
    bind(address, Listening::Plain).map(drop)
}

/// One address by UDP and TCP, at the same port where that is free; for TLS or DTLS also at a free port. Connections to it are
/// refused without a certificate, associations always. With TLS only, the address is that of TLS.
fn bind(address: SocketAddr, listening: Listening) -> Result<Bound, Failure> {
    let failed = |error: ringway_linux::BindError| Failure::failed(error.to_string());
    let listen = |transport, address| Listen { transport, address };
    let all = |address: SocketAddr| {
        let mut all = vec![listen(Transport::Udp, address), listen(Transport::Tcp, address)];
        if let Listening::With(secure) = listening {
            all.push(listen(secure, SocketAddr::new(address.ip(), 0)));
        }
        all
    };
    if listening == Listening::TlsOnly {
        return Bound::bind(&[listen(Transport::Tls, address)], 1).map_err(failed);
    }
    if address.port() != 0 {
        return Bound::bind(&all(address), 1).map_err(failed);
    }
    for _ in 0..PORT_TRIES {
        let free = Bound::bind(&[listen(Transport::Udp, address)], 1).map_err(failed)?;
        let Some(taken) = free.addresses().first().map(|listen| listen.address) else { break };
        drop(free);
        if let Ok(bound) = Bound::bind(&all(taken), 1) {
            return Ok(bound);
        }
    }
    Bound::bind(&all(address), 1).map_err(failed)
}

/// Layers of the phone's connections. A failed handshake is reported on standard error: the request that needs the
/// connection fails as well, without its reason.
fn tls_layers(files: &TlsFiles, hosts: Arc<Hosts>) -> Result<TlsLayers, Failure> {
    let material = files.load().map_err(|error| Failure::usage(format!("TLS: {error}")))?;
    TlsLayers::start(material, hosts, HandshakeLimits::default(), Arc::new(HandshakeReport("TLS")))
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))
}

/// The phone's associations with servers.
fn dtls_associations(files: &TlsFiles, hosts: Arc<Hosts>) -> Result<DtlsTransport, Failure> {
    let material = files.load().map_err(|error| Failure::usage(format!("DTLS: {error}")))?;
    DtlsTransport::client(
        material,
        Box::new(move |host| hosts.name_of(host)),
        Arc::new(HandshakeReport("DTLS")),
    )
    .map_err(|error| Failure::failed(error.to_string()))
}

/// Reports failed handshakes on standard error.
struct HandshakeReport(&'static str);

impl Observer for HandshakeReport {
    fn failed(&self, remote: SocketAddr, _role: Role, reason: &str) {
        eprintln!("ringway: {} with {remote} failed: {reason}", self.0);
    }
}

fn start_resolver(bound: &Bound, is_ipv4: bool, hosts: Arc<Hosts>) -> Result<Resolver, Failure> {
    let inboxes = bound.inboxes();
    let transports = [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Dtls];
    let usable =
        transports.into_iter().fold(Usable::default(), |usable, transport| usable.with(transport, is_ipv4));
    let answer = move |shard, event| {
        inboxes.deliver(shard, event);
    };
    Resolver::start(&Servers::OfSystem, hosts, usable, answer)
        .map_err(|error| Failure::failed(error.to_string()))
}

/// Time limit of a connection. With UDP as the transport, TCP is for what does not fit a datagram, and the call waits
/// until UDP is used instead.
fn connect_limit(transport: Transport, default: Duration) -> Duration {
    match transport {
        Transport::Udp => CONNECT_BEFORE_UDP,
        Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss | Transport::Dtls => default,
    }
}

fn gone() -> Failure {
    Failure::failed("the phone's worker thread is gone; start it again")
}

/// A lost SYN is retransmitted after 1 s (RFC 6298); the rest is a round trip.
const CONNECT_BEFORE_UDP: Duration = Duration::from_millis(1500);

/// Polling interval of the media.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Interval of the check that the worker still runs.
const POLL_EVERY_IDLE: Duration = Duration::from_millis(500);

/// Time for the responses to the last BYE and the last REGISTER.
const GRACE: Duration = Duration::from_secs(2);

/// Free UDP ports that are tried for TCP too.
const PORT_TRIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_beside_udp_are_given_up_early() {
        let default = ringway_linux::Config::default().streams.connect;
        let early = connect_limit(Transport::Udp, default);
        assert!(early <= Duration::from_secs(2) && early > Duration::from_secs(1), "{early:?}");
        for transport in [Transport::Tcp, Transport::Tls, Transport::Dtls] {
            assert_eq!(connect_limit(transport, default), default);
        }
    }
}

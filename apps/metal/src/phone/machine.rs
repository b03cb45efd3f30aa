//! The phone as a machine: from the first DHCP packet to an account that can be called, and what its keys do.

use super::Headset;
use super::call::{Call, Phase};
use super::pages::Pages;
use super::settings::{Answer, PhoneSettings, Srtp};
use super::signalling::{STUN_QUERY, Signalling};
use super::source::Source;
use super::stream::Stream;
use crate::consoles::Consoles;
use crate::machine::guessable_seed;
use crate::network::{fixed_lease, lease_in_words};
use crate::{Hardware, Memory};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use ringway_agent::{
    Account, AccountId, Action, Config, FirstHop, LargeRequests, Listener, Secret, ServerAddress, Trace,
    UserAgent,
};
use ringway_ethernet::{Card, Change, Lease, PacedStation, Port, Station, Worked};
use ringway_media::stun;
use ringway_media::tone::Ringing;
use ringway_phone::{NetworkFacts, PhoneEvent};
use ringway_sansio::{Entropy, Instant, Transport};
use ringway_settings::HostPort;
use ringway_ui::phone::{PasswordPlace, Registration, SPARE_ROW};
use ringway_ui::{Key, Level};

/// A phone on one network card.
pub struct PhoneMachine<C> {
    pub(super) station: PacedStation<C, Signalling, Stream>,
    pub(super) hardware: Hardware,
    pub(super) settings: PhoneSettings,
    /// What the other side hears.
    pub(super) source: Source,
    /// Loudspeaker and microphone; in a call they are its stream's.
    pub(super) headset: Option<Headset>,
    is_registered: bool,
    pub(super) call: Option<Call>,
    /// Number of calls so far.
    pub(super) calls: u64,
    pub(super) pages: Pages,
    pub(super) consoles: Consoles,
    /// Our address-of-record.
    pub(super) own: String,
    pub(super) started: Instant,
    pub(super) leased_at: Instant,
    /// Why it cannot be used.
    pub(super) halted: Option<String>,
    pub(super) entropy: Entropy,
    /// The STUN server; `None`: there is none, or it is being looked up.
    stun: Option<SocketAddr>,
}

impl<C: Card> PhoneMachine<C> {
    /// A phone that starts at `now`. What is wrong with the command line it says on its screen.
    pub fn new(card: C, command_line: &str, mut hardware: Hardware, now: Instant) -> Self {
        let seed = hardware.seed.unwrap_or_else(|| guessable_seed(&card, now));
        let (settings, wrong) = match PhoneSettings::read(command_line, hardware.words) {
            Ok(settings) => (settings, Vec::new()),
            Err(wrong) => (PhoneSettings::default(), wrong),
        };
        let headset = hardware.sound.take().map(Headset::new);
        // Nobody listens to a room unless somebody in it answers, or the words say so.
        let by_default = match headset {
            Some(_) if settings.answer == Answer::Ask => Source::Microphone,
            Some(_) | None => Source::voice(),
        };
        let source = settings.source.clone().unwrap_or(by_default);
        let mut machine = Self {
            station: PacedStation::new(Station::new(card, &seed.part(1), now)),
            hardware,
            source,
            headset,
            is_registered: false,
            call: None,
            calls: 0,
            pages: Pages::new(&settings, now),
            consoles: Consoles::new(now, SPARE_ROW),
            own: settings.account.clone().unwrap_or_default(),
            started: now,
            leased_at: now,
            halted: None,
            entropy: Entropy::new(&seed.part(2)),
            stun: None,
            settings,
        };
        for word in &wrong {
            machine.log(now, Level::Error, &word.to_string());
        }
        match wrong.first() {
            Some(word) => machine.stay_halted(now, word.to_string()),
            None => machine.begin(now),
        }
        machine
    }

    /// The task Receive: one frame from the card to the reply. It sends the sound that is due first.
    pub fn receive(&mut self, now: Instant) -> Worked {
        self.station.receive(now)
    }

    /// The task Main: everything that is not about one frame. To be called when [`PhoneMachine::receive`] has begun
    /// something, and at least every millisecond.
    pub fn run(&mut self, now: Instant, _memory: Memory) {
        self.station.run(now);
        while let Some(change) = self.station.station_mut().take_change() {
            self.on_change(now, change);
        }
        let actions: Vec<Action> = self.station.station_mut().take_actions().collect();
        for action in actions {
            match action {
                Action::Resolve { query, host } => self.station.station_mut().resolve(now, query, &host),
                Action::Event(event) => self.on_agent(now, event),
            }
        }
        while let Some(heard) = self.station.poll_report(now) {
            self.on_heard(now, heard);
        }
        self.mind_stun(now);
        self.mind_mapping(now);
        if let (Some(Call { phase: Phase::RingsHere, .. }), Some(headset)) = (&self.call, &mut self.headset) {
            headset.ring(Ringing::Here);
        }
    }

    /// Sends what the last frames made.
    pub fn flush(&mut self) {
        self.station.flush();
    }

    /// The card.
    pub fn card(&self) -> &C {
        self.station.station().card()
    }

    /// True once it can call and be called.
    pub fn is_ready(&self) -> bool {
        self.station.station().node().is_some()
    }

    /// A byte came from the serial line.
    pub fn on_serial_byte(&mut self, now: Instant, byte: u8) {
        if let Some(key) = self.consoles.on_serial_byte(now, byte, self.pages.takes_text()) {
            self.on_key(now, key);
        }
    }

    /// A byte came from the keyboard controller (scan code set 1).
    pub fn on_scan_code(&mut self, now: Instant, byte: u8) {
        if let Some(key) = self.consoles.on_scan_code(byte) {
            self.on_key(now, key);
        }
    }

    /// Draws what is due, and tells each word of VGA's text memory that changed: its place and its value. Right before a
    /// beat it does nothing: the screen can wait, and sound cannot.
    pub fn draw(&mut self, now: Instant, put: impl FnMut(usize, u16)) {
        if self.station.next_beat().is_some_and(|beat| beat.since(now) < DRAWING) {
            return;
        }
        if let Some(key) = self.consoles.idle(now, self.pages.takes_text()) {
            self.on_key(now, key);
        }
        if self.draw_page(now) {
            self.consoles.draw(put);
        }
    }

    /// Writes what the serial line is to say next into `room`, and gives how many bytes; 0: nothing now. To be called with
    /// as much room as the line has.
    pub fn serial_output(&mut self, room: &mut [u8]) -> usize {
        self.consoles.serial_output(room)
    }

    pub(super) fn log(&mut self, now: Instant, level: Level, text: &str) {
        self.pages.on_log(now, level, text);
        self.consoles.log.say(now, level, text);
    }

    pub(super) fn on_registered(&mut self, now: Instant, expires_s: u32) {
        if !self.is_registered {
            self.say(now, &format!("account: {} is registered for {expires_s} s", self.own));
        }
        self.is_registered = true;
        self.pages.on_phone(now, PhoneEvent::Registered { expires_s });
    }

    pub(super) fn on_not_registered(
        &mut self,
        now: Instant,
        status: u16,
        reason: String,
        retry_s: Option<u32>,
    ) {
        self.warn(now, &format!("account: {} is NOT registered: {status} {reason}", self.own));
        self.is_registered = false;
        self.pages.on_phone(now, PhoneEvent::RegistrationFailed { status, reason, retry_s });
    }

    pub(super) const fn stun_server(&self) -> Option<SocketAddr> {
        self.stun
    }

    fn on_key(&mut self, now: Instant, key: Key) {
        for command in self.pages.on_key(now, key) {
            self.on_command(now, command);
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.hardware.seed.is_none()
            && (self.settings.srtp != Srtp::None || self.settings.password.is_some())
        {
            return self.halt(
                now,
                "passwords and SRTP need unpredictable numbers, and this machine has neither RDRAND nor virtio-rng; \
                 give srtp=none and no password, or another machine"
                    .to_string(),
            );
        }
        if self.source == Source::Microphone && self.headset.is_none() {
            return self.halt(
                now,
                "source=microphone needs a sound card, and this machine has none that is driven (Intel AC97); give \
                 source=tone:HZ, echo or voice"
                    .to_string(),
            );
        }
        match fixed_lease(&self.settings.addressing) {
            Ok(Some(lease)) => self.on_lease(now, lease),
            Ok(None) => {
                self.say(now, "network: asking for an address by DHCP");
                self.station.station_mut().start_dhcp();
            }
            Err(why) => self.halt(now, why),
        }
    }

    fn on_change(&mut self, now: Instant, change: Change) {
        match change {
            Change::Leased(lease) => self.on_lease(now, lease),
            // It is said first of all, when there was none yet.
            Change::Lost if self.station.station().lease().is_none() => {}
            Change::Lost => {
                self.log(now, Level::Error, "network: the lease is gone; asking for another address");
                self.leave(now);
                self.station.station_mut().set_lease(None);
            }
        }
    }

    fn on_lease(&mut self, now: Instant, lease: Lease) {
        let before = self.station.station().lease().map(|lease| lease.address);
        let address = lease.address;
        self.leased_at = now;
        if before == Some(address) {
            self.station.station_mut().set_lease(Some(lease));
            return;
        }
        self.say(now, &lease_in_words(&lease, now.since(self.started)));
        self.leave(now);
        self.station.station_mut().set_lease(Some(lease));
        self.serve(now, address);
    }

    /// Ends what belongs to an address that is gone.
    fn leave(&mut self, now: Instant) {
        self.drop_call(now);
        self.station.station_mut().stop_serving();
        self.stun = None;
        self.is_registered = false;
        self.pages.on_phone(now, PhoneEvent::Unregistered);
    }

    fn serve(&mut self, now: Instant, address: Ipv4Addr) {
        let settings = &self.settings;
        let account = account(settings, address);
        self.own.clone_from(&account.aor);
        self.pages.set_account(shown_account(settings, &account));
        let number = settings.sip_port;
        let ports: Vec<Port> =
            [Transport::Udp, Transport::Tcp].map(|transport| Port { transport, number }).into();
        let listener = |port: &Port| Listener {
            transport: port.transport,
            address: SocketAddr::from((address, port.number)),
        };
        let registers = account.register;
        let mut config = Config::new([account].into(), ports.iter().map(listener).collect());
        if settings.transport == Some(Transport::Udp) {
            config.large_requests = LargeRequests::StayOnUdp;
        }
        config.trace = Trace::Whole;
        let message_bytes_max = MESSAGE_BYTES_MAX;
        let seed = ringway_sansio::Seed::from_bytes(self.entropy.bytes());
        let agent = match UserAgent::new(config, seed, now) {
            Ok(agent) => agent,
            Err(why) => return self.halt(now, why.to_string()),
        };
        let station = self.station.station_mut();
        station.serve(Signalling::new(agent), ports, message_bytes_max);
        station.call(now, |node, cx| node.agent.start(cx));
        let listening = vec![
            ("SIP udp".into(), SocketAddr::from((address, number))),
            ("SIP tcp".into(), SocketAddr::from((address, number))),
            ("RTP".into(), SocketAddr::from((address, self.settings.rtp_port))),
        ];
        let addresses = vec![(self.hardware.card_name.into(), address.into())];
        let facts = NetworkFacts { addresses, listening, timing: String::new() };
        self.pages.on_phone(now, PhoneEvent::Network(facts));
        self.pages.on_phone(now, if registers { PhoneEvent::Registering } else { PhoneEvent::Unregistered });
        self.look_up_stun(now);
        let text = format!(
            "ready udp:{address}:{number} tcp:{address}:{number}, sound at udp:{address}:{}",
            self.settings.rtp_port
        );
        self.say(now, &text);
    }

    fn look_up_stun(&mut self, now: Instant) {
        let Some(server) = &self.settings.stun else { return };
        match server.address() {
            Some(ip) => self.on_stun_server(now, Some(ip)),
            None => {
                let host = server.host.clone();
                self.station.station_mut().resolve(now, STUN_QUERY, &host);
            }
        }
    }

    /// Takes what came of looking the STUN server up.
    fn mind_stun(&mut self, now: Instant) {
        if let Some(Some(found)) = self.station.station_mut().call(now, |node, _| node.take_stun()) {
            self.on_stun_server(now, found);
        }
    }

    fn on_stun_server(&mut self, now: Instant, found: Option<IpAddr>) {
        let Some(HostPort { host, port }) = &self.settings.stun else { return };
        match found {
            Some(ip @ IpAddr::V4(_)) => {
                self.stun = Some(SocketAddr::new(ip, port.unwrap_or(stun::DEFAULT_PORT)));
            }
            Some(IpAddr::V6(_)) | None => {
                let text = format!("stun: no address is known for {host}; our own address is offered");
                self.warn(now, &text);
            }
        }
    }

    fn halt(&mut self, now: Instant, why: String) {
        self.log(now, Level::Error, &why);
        self.stay_halted(now, why);
    }

    /// For `why`, which the log has already.
    fn stay_halted(&mut self, now: Instant, why: String) {
        self.log(now, Level::Error, "the phone does not start; correct it, and start the machine again");
        self.halted = Some(why);
    }
}

/// The one account, at `address`.
fn account(settings: &PhoneSettings, address: Ipv4Addr) -> Account {
    let aor = settings.account.clone().unwrap_or_else(|| format!("sip:phone@{address}"));
    let server = settings.server.as_ref().map(|HostPort { host, port }| ServerAddress {
        host: host.clone(),
        port: *port,
        transport: settings.transport.unwrap_or(Transport::Udp),
        first_hop: FirstHop::Plain,
    });
    Account {
        display_name: settings.name.clone(),
        username: settings.auth_user.clone(),
        realm: settings.realm.clone(),
        secret: settings.password.clone().map_or(Secret::None, Secret::Password),
        server,
        register: settings.registers(),
        contact: settings.outside.map(SocketAddr::V4),
        ..Account::direct(&aor)
    }
}

/// The account as the pages show it.
fn shown_account(settings: &PhoneSettings, account: &Account) -> ringway_ui::phone::Account {
    ringway_ui::phone::Account {
        uri: account.aor.clone(),
        name: account.display_name.clone(),
        auth_user: account.username.clone(),
        realm: account.realm.clone(),
        server: account.server.as_ref().map(|server| server.host.clone()),
        transport: settings.transport.unwrap_or(Transport::Udp),
        registration: match account.register {
            true => Registration::Wanted,
            false => Registration::Unwanted,
        },
        password: PasswordPlace::Ask,
    }
}

/// The account there is.
pub(super) const ACCOUNT: AccountId = AccountId(0);

/// A SIP message, as on Linux.
const MESSAGE_BYTES_MAX: usize = 65_535;

/// What drawing a page and telling VGA of it takes at most, on a slow machine.
const DRAWING: Duration = Duration::from_millis(3);

//! The phone as a machine: from the first DHCP packet to an account that can be called, and what its keys do; its
//! pages, where events go in and commands come out.

use super::Headset;
use super::settings::{Answer, PhoneSettings};
use super::source::{MachineSound, Source};
use crate::consoles::Consoles;
use crate::machine::guessable_seed;
use crate::network::{fixed_lease, lease_in_words, network};
use crate::{Hardware, Memory, Program};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use ringway_agent::{Account, Config, LargeRequests, Listener, Secret, ServerAddress, Trace};
use ringway_ethernet::{Card, Change, Lease, PacedStation, Port, Station, Worked};
use ringway_media::session::{PortRow, Security, SessionConfig};
use ringway_media::stun;
use ringway_media::tone::Ringing;
use ringway_phone::{
    CallMedia, CallNumber, Hold, IncomingPolicy, NetworkFacts, Phone, PhoneCommand, PhoneConfig, PhoneEvent,
    PhoneLimits, SrtpPolicy, StunServer,
};
use ringway_sansio::{Entropy, Instant, Transport};
use ringway_sdp::KeyManagement;
use ringway_settings::HostPort;
use ringway_srtp::SrtpSettings;
use ringway_ui::phone::{
    Contact, Effect, Event, Host, Machine, Model, Now, PasswordPlace, Registration, SPARE_ROW, Settings,
};
use ringway_ui::{Cells, Key, Level, phone};

/// Function that gets the events of the phone.
type Observer = Box<dyn FnMut(&PhoneEvent)>;

/// A phone on one network card.
pub struct PhoneMachine<C> {
    pub(super) station: PacedStation<C, Phone, CallMedia<MachineSound>>,
    pub(super) hardware: Hardware,
    pub(super) settings: PhoneSettings,
    /// Sound that is sent.
    pub(super) source: Source,
    /// Loudspeaker and microphone; in a call they are its stream's.
    pub(super) headset: Option<Headset>,
    pub(super) is_registered: bool,
    /// The call that the media belong to.
    pub(super) media_call: Option<CallNumber>,
    /// Sides that hold it.
    pub(super) hold: Hold,
    /// It rings at the loudspeaker.
    pub(super) is_ringing: bool,
    pub(super) pages: Pages,
    /// Gets every event.
    pub(super) observer: Option<Observer>,
    pub(super) consoles: Consoles,
    /// Our address-of-record.
    pub(super) own: String,
    pub(super) started: Instant,
    pub(super) leased_at: Instant,
    /// Reason for which it cannot be used.
    pub(super) halted: Option<String>,
    pub(super) entropy: Entropy,
}

impl<C: Card> Program<C> for PhoneMachine<C> {
    const HAS_SOUND: bool = true;

    fn start(card: C, command_line: &str, mut hardware: Hardware, now: Instant) -> Self {
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
            media_call: None,
            hold: Hold::None,
            is_ringing: false,
            pages: Pages::new(&settings, now),
            observer: None,
            consoles: Consoles::new(now, SPARE_ROW),
            own: settings.account.clone().unwrap_or_default(),
            started: now,
            leased_at: now,
            halted: None,
            entropy: Entropy::new(&seed.part(2)),
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

    fn receive(&mut self, now: Instant) -> Worked {
        self.station.receive(now)
    }

    fn run(&mut self, now: Instant, _memory: Memory) {
        self.station.run(now);
        while let Some(change) = self.station.station_mut().take_change() {
            self.on_change(now, change);
        }
        self.run_phone(now);
        if let (true, Some(headset)) = (self.is_ringing, &mut self.headset) {
            headset.ring(Ringing::Here);
        }
    }

    fn flush(&mut self) {
        self.station.flush();
    }

    fn on_serial_byte(&mut self, now: Instant, byte: u8) {
        if let Some(key) = self.consoles.on_serial_byte(now, byte, self.pages.takes_text()) {
            self.on_key(now, key);
        }
    }

    fn on_scan_code(&mut self, now: Instant, byte: u8) {
        if let Some(key) = self.consoles.on_scan_code(byte) {
            self.on_key(now, key);
        }
    }

    fn draw(&mut self, now: Instant, put: impl FnMut(usize, u16)) {
        // Right before a tick the screen can wait, and sound cannot.
        if self.station.next_tick().is_some_and(|tick| tick.since(now) < DRAWING) {
            return;
        }
        if let Some(key) = self.consoles.idle(now, self.pages.takes_text()) {
            self.on_key(now, key);
        }
        if self.draw_page(now) {
            self.consoles.draw(put);
        }
    }

    fn serial_output(&mut self, room: &mut [u8]) -> usize {
        self.consoles.serial_output(room)
    }
}

impl<C: Card> PhoneMachine<C> {
    /// Gives a command to the phone, as a key does.
    pub fn command(&mut self, now: Instant, command: PhoneCommand) {
        self.on_command(now, command);
    }

    /// Passes every event of the phone to `observer` from now on.
    pub fn observe(&mut self, observer: impl FnMut(&PhoneEvent) + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// The card.
    pub fn card(&self) -> &C {
        self.station.station().card()
    }

    /// True once it can call and be called.
    pub fn is_ready(&self) -> bool {
        self.station.station().node().is_some()
    }

    pub(super) fn log(&mut self, now: Instant, level: Level, text: &str) {
        self.pages.on_log(now, level, text);
        self.consoles.log.say(now, level, text);
    }

    fn on_key(&mut self, now: Instant, key: Key) {
        for command in self.pages.on_key(now, key) {
            self.on_command(now, command);
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.hardware.seed.is_none()
            && (self.settings.srtp != SrtpPolicy::None || self.settings.password.is_some())
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
        self.drop_calls(now);
        self.station.station_mut().stop_serving();
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
        let config = phone_config(settings, account, ports.iter().map(listener).collect());
        let seed = ringway_sansio::Seed::from_bytes(self.entropy.bytes());
        let phone = match Phone::new(config, &seed, now) {
            Ok(phone) => phone,
            Err(why) => return self.halt(now, why.to_string()),
        };
        self.station.station_mut().serve(phone, ports, MESSAGE_BYTES_MAX);
        let listening = vec![
            ("SIP udp".into(), SocketAddr::from((address, number))),
            ("SIP tcp".into(), SocketAddr::from((address, number))),
            ("RTP".into(), SocketAddr::from((address, self.settings.rtp_port))),
        ];
        let addresses = vec![(self.hardware.card_name.into(), address.into())];
        let facts = NetworkFacts { addresses, listening, timing: String::new() };
        self.pages.on_phone(now, PhoneEvent::Network(facts));
        self.station.station_mut().call(now, Phone::start);
        let text = format!(
            "ready udp:{address}:{number} tcp:{address}:{number}, sound at udp:{address}:{}",
            self.settings.rtp_port
        );
        self.say(now, &text);
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

fn phone_config(settings: &PhoneSettings, account: Account, listeners: Vec<Listener>) -> PhoneConfig {
    let mut agent = Config::new([account].into(), listeners);
    if settings.transport == Some(Transport::Udp) {
        agent.large_requests = LargeRequests::StayOnUdp;
    }
    agent.trace = Trace::Whole;
    // A configured public address is preferred to a STUN server.
    let stun = settings.stun.as_ref().filter(|_| settings.outside.is_none());
    PhoneConfig {
        srtp: settings.srtp,
        stun: stun.map(|HostPort { host, port }| StunServer {
            host: host.clone(),
            port: port.unwrap_or(stun::DEFAULT_PORT),
        }),
        session: SessionConfig {
            port_row: PortRow::of(settings.port_row),
            srtp: SrtpSettings { window_packets: settings.replay_window, ..SrtpSettings::default() },
            ..SessionConfig::default()
        },
        incoming: match settings.answer {
            Answer::Auto => IncomingPolicy::Answer,
            Answer::Ask => IncomingPolicy::Ask,
        },
        reject_status: DECLINE,
        limits: PhoneLimits { calls_max: 1, ..PhoneLimits::default() },
        ..PhoneConfig::new(agent)
    }
}

/// The one account, at `address`.
fn account(settings: &PhoneSettings, address: Ipv4Addr) -> Account {
    let aor = settings.account.clone().unwrap_or_else(|| format!("sip:phone@{address}"));
    let server = settings.server.as_ref().map(|HostPort { host, port }| ServerAddress {
        host: host.clone(),
        port: *port,
        transport: settings.transport.unwrap_or(Transport::Udp),
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

/// RFC 3261 §21.6.2.
const DECLINE: u16 = 603;

/// A SIP message, as on Linux.
const MESSAGE_BYTES_MAX: usize = 65_535;

/// Maximum time for drawing a page and writing it to VGA, on a slow machine.
const DRAWING: Duration = Duration::from_millis(3);

impl<C: Card> PhoneMachine<C> {
    /// Draws the present page, if it is due; false: it is as before.
    pub(super) fn draw_page(&mut self, now: Instant) -> bool {
        if !self.pages.is_due(now) {
            return false;
        }
        let is_up = self.station.station_mut().is_up();
        let Self { station, hardware, source, headset, pages, consoles, .. } = self;
        let link = (station.station().card().address(), is_up);
        let (uptime, lease_age) = (now.since(self.started), now.since(self.leased_at));
        let headset = headset.as_ref().or(station.machine().and_then(|media| media.sound().headset()));
        let machine = Machine {
            network: network(hardware, link, station.station().lease(), uptime, lease_age),
            sound: &sound_in_words(source, headset),
            halted: self.halted.as_deref(),
        };
        pages.draw(now, &machine, &mut consoles.cells);
        true
    }
}

/// Source and sink of the sound.
fn sound_in_words(source: &Source, headset: Option<&Headset>) -> String {
    let name = source.name();
    match headset {
        Some(headset) => format!("{name} sent, sound played ({})", headset.name()),
        None => format!("{name} sent, sound measured only"),
    }
}

/// Protection of a call's sound, in the words of the call page.
pub(super) fn security_in_words(security: Option<Security>) -> String {
    let Some(Security { key_management, suite }) = security else { return "not protected".into() };
    match key_management {
        KeyManagement::Sdes => format!("SDES over plain SIP (weak), {}", suite.name()),
        KeyManagement::Dtls => format!("DTLS over plain SIP (weak), {}", suite.name()),
        KeyManagement::Zrtp => format!("ZRTP, {}", suite.name()),
    }
}

/// The pages, and the time of the next drawing.
pub(super) struct Pages {
    model: Model,
    started: Instant,
    due_at: Instant,
}

impl Pages {
    pub(super) fn new(settings: &PhoneSettings, now: Instant) -> Self {
        let contact = |(quick, uri): (u8, &String)| {
            let name = user_of(uri).into();
            (!uri.is_empty()).then(|| Contact { name, uri: uri.clone(), quick: Some(quick) })
        };
        let contacts = (1..=9).zip(&settings.quick).filter_map(contact).collect();
        let stun = settings.stun.as_ref().map(|server| server.host.clone());
        let pages = Settings { account: None, srtp: settings.srtp, stun, contacts };
        Self { model: Model::new(pages, Host::Machine), started: now, due_at: now }
    }

    /// True while letters are text.
    pub(super) fn takes_text(&self) -> bool {
        self.model.takes_text()
    }

    fn set_account(&mut self, account: phone::Account) {
        self.model.set_account(account);
    }

    pub(super) fn on_log(&mut self, now: Instant, level: Level, text: &str) {
        self.model.on_log(self.moment(now), level, text);
    }

    /// Passes an event of the phone to the pages.
    pub(super) fn on_phone(&mut self, now: Instant, event: PhoneEvent) {
        // The only effect is the bell; the sound card rings instead.
        self.model.update(self.moment(now), Event::Phone(event), &mut Vec::new());
    }

    /// Passes a key to the pages; returns the commands that it means.
    pub(super) fn on_key(&mut self, now: Instant, key: Key) -> Vec<PhoneCommand> {
        self.due_at = now;
        let mut effects = Vec::new();
        self.model.update(self.moment(now), Event::Key(key), &mut effects);
        let command = |effect| match effect {
            Effect::Phone(command) => Some(command),
            Effect::SignIn { .. }
            | Effect::Save(_)
            | Effect::KeepPassword { .. }
            | Effect::ForgetPassword { .. }
            | Effect::KeepCalls
            | Effect::Bell
            | Effect::Leave => None,
        };
        effects.into_iter().filter_map(command).collect()
    }

    /// True when it is time to draw: after a key, and every [`REFRESH`].
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due_at
    }

    /// Draws the present page.
    pub(super) fn draw(&mut self, now: Instant, machine: &Machine<'_>, cells: &mut Cells) {
        self.due_at = now + REFRESH;
        let moment = self.moment(now);
        self.model.update(moment, Event::Tick, &mut Vec::new());
        phone::draw(&self.model, moment, Some(machine), cells);
    }

    fn moment(&self, now: Instant) -> Now {
        Now { elapsed: now.since(self.started), wall: None }
    }
}

/// `bob` of `sip:bob@example.org`.
fn user_of(uri: &str) -> &str {
    let user = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    user.split_once('@').map_or("", |(user, _)| user)
}

/// Time between two drawings without a key.
const REFRESH: Duration = Duration::from_millis(250);

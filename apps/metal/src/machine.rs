//! The server as a machine: from the first DHCP packet to serving, with the administration screen, and with TLS by a
//! certificate and key from the boot medium.
//!
//! ```text
//! Addressing --lease--> Fetching(settings) --> Fetching(users) --> Serving
//!     ^                     |    ^                 |    ^             |
//!     |                     v    | 10 s            v    | 10 s        |
//!     +--lease lost---- Waiting -+             Waiting -+             |
//!     +---------------------------------------------------------------+
//! invalid settings, or passwords without a random seed: Halted, with the reason shown
//! ```

use crate::consoles::Consoles;
use crate::network::{fixed_lease, lease_in_words};
use crate::steps::PrintedSteps;
use crate::{Hardware, Memory, Program};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use ringway_ethernet::{
    Card, Change, Download, DownloadError, DownloadLimits, Lease, Port, Station, TFTP_PORT, Worked,
};
use ringway_in_memory::{CountedNode, MemoryHost};
use ringway_sansio::{Instant, Seed, Transport};
use ringway_server::{Action, BindingChange, Server};
use ringway_settings::MachineSettings;
use ringway_tls_bare::{Credentials, TlsLayers};
use ringway_ui::Level;
use ringway_ui::admin::{self, Admin, What};
use ringway_users::{NameHash, Subscribers};

/// A server on one network card.
pub struct Machine<C> {
    pub(crate) station: Station<C, CountedNode<Server>, TlsLayers>,
    pub(crate) hardware: Hardware,
    pub(crate) settings: MachineSettings,
    pub(crate) stage: Stage,
    pub(crate) users: Users,
    pub(crate) admin: Admin,
    pub(crate) consoles: Consoles,
    pub(crate) host: Option<Arc<MemoryHost>>,
    pub(crate) leased_at: Instant,
    /// Time of the next warning that no DHCP server answers.
    dhcp_warning_at: Option<Instant>,
    pub(crate) started: Instant,
    pub(crate) memory: Memory,
    pub(crate) is_short: bool,
    pub(crate) printed_steps: PrintedSteps,
    /// Maximum time that a frame can have waited, in this second and in the last one.
    pub(crate) queue_delay: Delays,
    /// True once the station can accept TLS connections.
    pub(crate) has_tls: bool,
    /// Earliest time of the next report of a failed handshake.
    pub(crate) tls_report_at: Instant,
    command_line: String,
    seed: Seed,
}

/// Stage of the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Addressing,
    Fetching(BootFile),
    /// A download failed; it is repeated at that time.
    Waiting(BootFile, Instant),
    Serving,
    /// The server cannot start, for this reason.
    Halted(String),
}

/// A file that the machine fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootFile {
    Settings,
    Users,
}

/// State of the list of users.
#[derive(Debug, Default)]
pub(crate) struct Users {
    /// Until the server takes them.
    pub(crate) loaded: Option<Subscribers>,
    /// URL of the list.
    pub(crate) source: String,
    /// Error of the last attempt.
    pub(crate) failure: Option<String>,
}

/// Time that frames waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    /// Last time at which the ring was empty.
    empty_at: Instant,
    second: u64,
    now: Duration,
    /// Maximum in the last whole second.
    pub(crate) last: Duration,
}

impl<C: Card> Program<C> for Machine<C> {
    const HAS_SOUND: bool = false;

    fn start(card: C, command_line: &str, hardware: Hardware, now: Instant) -> Self {
        let seed = hardware.seed.unwrap_or_else(|| guessable_seed(&card, now));
        let (settings, errors) = match MachineSettings::read(command_line, None) {
            Ok(settings) => (settings, Vec::new()),
            Err(errors) => (MachineSettings::default(), errors),
        };
        let mut machine = Self {
            station: Station::with_layers(card, TlsLayers::new(now), &seed.part(1), now),
            hardware,
            settings,
            stage: Stage::Addressing,
            users: Users::default(),
            admin: Admin::new(now),
            consoles: Consoles::new(now, ringway_ui::SPARE_ROW),
            host: None,
            leased_at: now,
            dhcp_warning_at: None,
            started: now,
            memory: Memory::default(),
            is_short: false,
            printed_steps: PrintedSteps::default(),
            queue_delay: Delays { empty_at: now, ..Delays::default() },
            has_tls: false,
            tls_report_at: now,
            command_line: command_line.to_string(),
            seed,
        };
        for word in machine.settings.passed_over.clone() {
            let name = word.split('=').next().unwrap_or_default();
            if machine.hardware.words.contains(&name) {
                continue;
            }
            let text = format!("command line: {word:?} is unknown and ignored; remove or correct it");
            machine.log(now, Level::Warning, &text);
        }
        if errors.is_empty() {
            machine.begin_addressing(now);
        } else {
            machine.halt_for(now, "command line", &errors);
        }
        machine
    }

    fn receive(&mut self, now: Instant) -> Worked {
        let worked = self.station.receive(now);
        self.queue_delay.note(now, worked);
        worked
    }

    fn run(&mut self, now: Instant, memory: Memory) {
        self.memory = memory;
        self.station.run(now);
        while let Some(change) = self.station.take_change() {
            self.on_change(now, change);
        }
        if let Some(end) = self.station.take_fetched() {
            self.on_fetched(now, end);
        }
        if let Stage::Waiting(file_kind, until) = self.stage
            && until <= now
        {
            self.fetch(now, file_kind);
        }
        if self.dhcp_warning_at.is_some_and(|at| at <= now) {
            self.dhcp_warning_at = Some(now + DHCP_WARNING_INTERVAL);
            let text = "network: nobody answers DHCP yet; retrying every second; check the cable and the DHCP server, or \
                        give ip=ADDRESS/BITS";
            self.log(now, Level::Warning, text);
        }
        self.resolve(now);
        self.show_changes(now);
        self.report_failed_handshake(now);
        self.check_memory(now);
        self.report_steps(now);
    }

    fn stream_messages(&self) -> u64 {
        self.station.counters().stream_messages_in
    }

    fn flush(&mut self) {
        self.station.flush();
    }

    fn on_serial_byte(&mut self, now: Instant, byte: u8) {
        if let Some(key) = self.consoles.on_serial_byte(now, byte, self.admin.takes_text()) {
            self.admin.on_key(now, key);
        }
    }

    fn on_scan_code(&mut self, now: Instant, byte: u8) {
        if let Some(key) = self.consoles.on_scan_code(byte) {
            self.admin.on_key(now, key);
        }
    }

    fn draw(&mut self, now: Instant, put: impl FnMut(usize, u16)) {
        if let Some(key) = self.consoles.idle(now, self.admin.takes_text()) {
            self.admin.on_key(now, key);
        }
        if self.draw_page(now) {
            self.consoles.draw(put);
        }
    }

    fn serial_output(&mut self, room: &mut [u8]) -> usize {
        self.consoles.serial_output(room)
    }
}

impl<C: Card> Machine<C> {
    /// The card.
    pub fn card(&self) -> &C {
        self.station.card()
    }

    /// The card, to change its settings.
    pub fn card_mut(&mut self) -> &mut C {
        self.station.card_mut()
    }

    /// True if the machine serves.
    pub fn is_serving(&self) -> bool {
        self.stage == Stage::Serving
    }

    fn begin_addressing(&mut self, now: Instant) {
        match fixed_lease(&self.settings.addressing) {
            Ok(Some(lease)) => self.on_lease(now, lease),
            Ok(None) => {
                self.say(now, "network: asking for an address by DHCP");
                self.station.start_dhcp();
                self.dhcp_warning_at = Some(now + DHCP_WARNING_AFTER);
            }
            Err(why) => self.halt(now, why),
        }
    }

    fn on_change(&mut self, now: Instant, change: Change) {
        match change {
            Change::Leased(lease) => self.on_lease(now, lease),
            // The DHCP client reports a loss first, even without a lease.
            Change::Lost if self.station.lease().is_none() => {}
            Change::Lost => {
                self.log(now, Level::Error, "network: the lease is gone; asking for another address");
                self.station.set_lease(None);
                self.station.stop_serving();
                self.host = None;
                self.stage = Stage::Addressing;
                self.dhcp_warning_at = Some(now + DHCP_WARNING_AFTER);
            }
        }
    }

    fn on_lease(&mut self, now: Instant, lease: Lease) {
        let has_moved = self.station.lease().is_none_or(|before| before.address != lease.address);
        self.leased_at = now;
        self.dhcp_warning_at = None;
        if has_moved {
            self.say(now, &lease_in_words(&lease, now.since(self.started)));
        }
        self.station.set_lease(Some(lease));
        if has_moved && !matches!(self.stage, Stage::Halted(_)) {
            let first =
                if self.settings.config_file.is_some() { BootFile::Settings } else { BootFile::Users };
            self.fetch(now, first);
        }
    }

    /// Fetches a file if one is configured; else continues.
    fn fetch(&mut self, now: Instant, file_kind: BootFile) {
        let file = match file_kind {
            BootFile::Settings => self.settings.config_file.clone(),
            BootFile::Users => self.settings.users_file.clone(),
        };
        let Some(file) = file else { return self.continue_after(now, file_kind) };
        let host = self.settings.tftp.or(self.station.lease().and_then(|lease| lease.boot_server));
        let Some(host) = host else {
            return self.halt(
                now,
                format!("{file}: no TFTP server is configured; give tftp=ADDRESS on the command line"),
            );
        };
        if file_kind == BootFile::Users {
            self.users.source = format!("tftp://{host}/{file}");
        }
        self.say(now, &format!("tftp: fetching {file} from {host}"));
        match Download::new(SocketAddrV4::new(host, TFTP_PORT), &file, DownloadLimits::default(), now) {
            Ok(download) => {
                self.station.fetch(download);
                self.stage = Stage::Fetching(file_kind);
            }
            Err(error) => self.halt(now, error.to_string()),
        }
    }

    fn on_fetched(&mut self, now: Instant, end: Result<Vec<u8>, DownloadError>) {
        let Stage::Fetching(file_kind) = self.stage else { return };
        match end {
            Ok(bytes) => match file_kind {
                BootFile::Settings => self.read_settings(now, &bytes),
                BootFile::Users => self.read_users(now, &bytes),
            },
            Err(error) => self.retry_later(now, file_kind, error.to_string()),
        }
    }

    fn read_settings(&mut self, now: Instant, bytes: &[u8]) {
        let file = self.settings.config_file.clone().unwrap_or_default();
        let Ok(text) = core::str::from_utf8(bytes) else {
            return self.halt(now, format!("{file}: is not valid UTF-8; give a ringway.toml"));
        };
        match MachineSettings::read(&self.command_line, Some((&file, text))) {
            Ok(settings) => {
                self.say(now, &format!("settings: {file}, {} bytes", bytes.len()));
                if settings.addressing != self.settings.addressing {
                    let text = format!("{file}: [network] has no effect here; give ip= on the command line");
                    self.log(now, Level::Warning, &text);
                }
                self.settings = settings;
                self.continue_after(now, BootFile::Settings);
            }
            Err(errors) => self.halt_for(now, &file, &errors),
        }
    }

    /// Accepts the whole list or nothing of it.
    fn read_users(&mut self, now: Instant, bytes: &[u8]) {
        let mut key = [0; 16];
        key.copy_from_slice(self.seed.part(2).bytes().split_at(16).0);
        let (domain, realms) = (self.settings.domain(), &self.settings.server.auth.realms);
        let realm_of = |domain: &str| realms.of(domain.as_bytes());
        match Subscribers::from_csv(bytes, domain, realm_of, USERS_MAX, NameHash::new(key)) {
            Ok(users) => {
                let (count, source) = (users.len(), &self.users.source);
                self.log(now, Level::Info, &format!("users: {count} from {source}"));
                self.users.failure = None;
                self.users.loaded = Some(users);
                self.continue_after(now, BootFile::Users);
            }
            Err(error) => {
                let why = format!("{}:{error}; nobody of this list is taken", self.users.source);
                self.retry_later(now, BootFile::Users, why);
            }
        }
    }

    fn continue_after(&mut self, now: Instant, done: BootFile) {
        match done {
            BootFile::Settings => self.fetch(now, BootFile::Users),
            BootFile::Users => self.serve(now),
        }
    }

    fn serve(&mut self, now: Instant) {
        let Some(address) = self.station.lease().map(|lease| lease.address) else { return };
        if let Err(why) = self.prepare_tls() {
            return self.halt(now, why);
        }
        let settings = &self.settings;
        if settings.server.auth.enabled && self.hardware.seed.is_none() {
            return self.halt(
                now,
                "passwords need random numbers, and this machine has neither RDRAND nor virtio-rng; give \
                 auth=off, or another machine"
                    .to_string(),
            );
        }
        let mut key = [0; 16];
        key.copy_from_slice(self.seed.part(2).bytes().split_at(16).0);
        let users = self.users.loaded.take().unwrap_or_else(|| Subscribers::new(NameHash::new(key)));
        let ports: Vec<Port> = settings.listen.iter().map(port_of).collect();
        let config = Arc::new(server_config(settings, address, &ports, *self.seed.part(3).bytes()));
        let host = Arc::new(MemoryHost::new(users, self.hardware.tables));
        let rate = settings.limits.per_source_rate;
        let tables = self.hardware.tables.tables(config.auth.nonce_lifetime, rate, &self.seed.part(4), now);
        let has_no_users = settings.server.auth.enabled && host.users().is_empty();
        let is_open = !settings.server.auth.enabled;
        let message_bytes_max = settings.server.message_limits.message_bytes_max;
        let mut server =
            Server::new(config, Arc::clone(&host) as _, Arc::new(tables), 0, self.seed.part(5), now);
        server.measure_steps(self.hardware.step_clock);
        self.printed_steps = PrintedSteps::default();
        self.station.serve(CountedNode::new(server), ports.clone(), message_bytes_max);
        self.host = Some(host);
        self.stage = Stage::Serving;
        if is_open {
            let text =
                "AUTHENTICATION IS OFF: anyone who reaches this server may register as any user and call";
            self.log(now, Level::Warning, text);
        }
        if has_no_users {
            let text = "there are no users, so no phone can register; give users=FILE, or auth=off";
            self.log(now, Level::Warning, text);
        }
        let mut ready = String::from("ready");
        for port in ports {
            ready.push_str(&format!(" {}:{address}:{}", port.transport, port.number));
        }
        self.say(now, &ready);
    }

    /// Starts the DNS lookups that the server requests.
    fn resolve(&mut self, now: Instant) {
        let actions: Vec<Action> = self.station.take_actions().collect();
        for action in actions {
            match action {
                Action::Resolve { query, target } => self.station.resolve(now, query, target),
                // This machine's settings have no zones of numbers, no media relays, and no presence.
                Action::ResolveNumber { .. }
                | Action::FindSigner { .. }
                | Action::Relay { .. }
                | Action::Locate { .. }
                | Action::CallsChanged { .. } => {}
            }
        }
    }

    /// Passes changes of bindings to the administration screen.
    fn show_changes(&mut self, now: Instant) {
        let Some(host) = &self.host else { return };
        while let Some(changed) = host.take_change() {
            let what = match changed.change {
                BindingChange::Registered => What::Registered,
                BindingChange::Refreshed => What::Refreshed,
                BindingChange::Removed => What::Removed,
                BindingChange::Ended => What::Expired,
            };
            let change = admin::Change {
                what,
                aor: changed.aor(),
                address: changed.flow.map(|flow| flow.remote),
                transport: changed.flow.map_or(Transport::Udp, |flow| flow.transport),
            };
            self.admin.on_change(now, &change);
        }
    }

    /// Refuses new work while little memory is free.
    fn check_memory(&mut self, now: Instant) {
        let free = self.memory.limit.saturating_sub(self.memory.used);
        let is_short = match self.is_short {
            false => free < MEMORY_RESERVE,
            true => free < 2 * MEMORY_RESERVE,
        };
        if is_short != self.is_short && self.memory.limit > 0 {
            self.is_short = is_short;
            let reason = is_short.then_some("Out Of Memory");
            self.station.call(now, |node, _| node.inner_mut().refuse_new_work(reason));
            let text = if is_short {
                "memory: less than 4 MiB free; new requests get 503"
            } else {
                "memory: available again; new requests are accepted"
            };
            self.log(now, Level::Warning, text);
        }
    }

    fn retry_later(&mut self, now: Instant, file_kind: BootFile, why: String) {
        self.log(now, Level::Error, &format!("{why}; trying again in {} s", RETRY.as_secs()));
        if file_kind == BootFile::Users {
            self.users.failure = Some(why);
        }
        self.stage = Stage::Waiting(file_kind, now + RETRY);
    }

    fn halt(&mut self, now: Instant, why: String) {
        self.log(now, Level::Error, &why);
        self.log(now, Level::Error, "the server does not start; correct this and restart the machine");
        self.stage = Stage::Halted(why);
    }

    fn halt_for(&mut self, now: Instant, what: &str, errors: &[ringway_settings::ConfigError]) {
        let mut lines = errors.iter().map(ToString::to_string);
        let first = lines.next().unwrap_or_else(|| format!("{what}: cannot be read"));
        for line in lines {
            self.log(now, Level::Error, &line);
        }
        self.halt(now, first);
    }

    pub(crate) fn log(&mut self, now: Instant, level: Level, text: &str) {
        self.admin.on_log(now, level, text);
        self.consoles.log.say(now, level, text);
    }

    fn say(&mut self, now: Instant, text: &str) {
        self.log(now, Level::Info, text);
    }
}

impl Delays {
    fn note(&mut self, now: Instant, worked: Worked) {
        if worked == Worked::Nothing {
            self.empty_at = now;
            return;
        }
        // It arrived after the ring was seen empty.
        let waited = now.since(self.empty_at);
        if now.as_secs() != self.second {
            (self.second, self.last, self.now) = (now.as_secs(), self.now, Duration::ZERO);
        }
        self.now = self.now.max(waited);
    }
}

fn port_of(listener: &ringway_settings::Listener) -> Port {
    Port { transport: listener.transport, number: listener.address.port() }
}

/// Configuration of the server for listeners at `address`.
fn server_config(
    settings: &MachineSettings,
    address: Ipv4Addr,
    ports: &[Port],
    secret: [u8; 32],
) -> ringway_server::Config {
    let listener = |port: &Port| {
        let at = SocketAddr::from((address, port.number));
        ringway_server::Listener { transport: port.transport, bound: at, advertised: at }
    };
    let listeners = ports.iter().map(listener).collect();
    let config = settings.server_config(listeners, alloc::vec![address.into()], secret);
    ringway_server::Config {
        transaction_limits: ringway_transaction::Limits {
            servers_max: TRANSACTIONS_MAX,
            clients_max: TRANSACTIONS_MAX,
        },
        ..config
    }
}

/// Seed of a machine without randomness and without passwords: it protects no secret.
pub(crate) fn guessable_seed<C: Card>(card: &C, now: Instant) -> Seed {
    let address = card.address().iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    Seed::from_number(address ^ now.as_nanos())
}

impl<C: Card> Machine<C> {
    /// Prepares TLS if a listener needs it.
    ///
    /// # Errors
    /// Certificate and key are missing or unusable, or there is no source of randomness; the message is for the user.
    fn prepare_tls(&mut self) -> Result<(), String> {
        if self.has_tls || !self.settings.listen.iter().any(|listener| listener.transport == Transport::Tls) {
            return Ok(());
        }
        let file = self.hardware.boot_file.ok_or(
            "TLS needs a certificate and its key on the boot medium; build it with --tls FILE.pem, or give tls=off",
        )?;
        let seed = self.hardware.tls_seed.take().ok_or(
            "TLS needs random numbers, and this machine has neither RDRAND nor virtio-rng; give tls=off, or another \
             machine",
        )?;
        let credentials = Credentials::from_pem(file);
        let prepared =
            credentials.and_then(|credentials| self.station.layers_mut().set_credentials(credentials, &seed));
        prepared.map_err(|error| {
            format!("TLS: {error}; give the boot medium an ECDSA key on P-256 with its certificate, in PEM")
        })?;
        self.has_tls = true;
        Ok(())
    }

    /// Logs a failed handshake, at most one in [`REPORT_INTERVAL`].
    fn report_failed_handshake(&mut self, now: Instant) {
        if now < self.tls_report_at {
            return;
        }
        if let Some((peer, why)) = self.station.layers().take_failure() {
            self.tls_report_at = now + REPORT_INTERVAL;
            let failed = self.station.layers().counters().failed;
            let text =
                format!("tls: the handshake with {peer} failed: {why}; {failed} failed since the start");
            self.log(now, Level::Warning, &text);
        }
    }
}

/// Time without a DHCP answer before the first warning, and the interval of the warnings.
const DHCP_WARNING_AFTER: Duration = Duration::from_secs(5);
const DHCP_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Delay before a failed download is repeated.
const RETRY: Duration = Duration::from_secs(10);

/// Maximum number of users in a list.
const USERS_MAX: usize = 20_000;

/// Maximum number of transactions of each kind: about 250 calls/s, because each exists for 32 s.
pub(crate) const TRANSACTIONS_MAX: usize = 8192;

/// Free bytes below which new work is refused.
const MEMORY_RESERVE: u64 = 4 << 20;
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

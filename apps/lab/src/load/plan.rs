//! Parameters of a load. TLS of the connections to the server.

use super::locals::{Locals, local_towards, may_send};
use super::streams::CONNECTIONS_MAX;
use anyhow::{Context as _, Result, bail};
use ringway_load::{Classic, ConnectionUse, Keyword, Length, MediaUse, Scenario, Spacing, Step, Users};
use ringway_sansio::Transport;
use ringway_tls::{InlineTls, Observer, Role, TlsFiles, TlsMaterial};
use ringway_transaction::Timers;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Load of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Address of the server.
    pub target: SocketAddr,
    /// Server that the called users register with, if it is another one.
    pub peer_target: Option<SocketAddr>,
    /// The callers send to the callees of their thread in place of a server: generator against generator.
    pub is_direct: bool,
    /// Transport to the server.
    pub transport: Transport,
    /// TLS; needed for [`Transport::Tls`] and [`Transport::Wss`].
    pub tls: Option<LoadTls>,
    /// Round trips over a new TCP connection before its first message, in place of a handshake's.
    pub round_trips: u8,
    /// Connections of the callers over a stream transport.
    pub connections: ConnectionUse,
    /// Connections between the server and the called users over a stream transport.
    pub called: Called,
    /// True if requests inside a dialog without routes go to the target too: the server is an outbound proxy.
    pub is_outbound_proxy: bool,
    /// Users who get 503 begin nothing for as long as its Retry-After says.
    pub honours_retry_after: bool,
    /// Hosts that packets may go to besides loopback.
    pub allowed_hosts: Vec<IpAddr>,
    /// Kind of attempts.
    pub flow: Flow,
    /// Scenarios of files in place of those of `flow`.
    pub files: Option<Files>,
    /// Attempts a second.
    pub rate: f64,
    /// Intervals between planned attempts.
    pub spacing: Spacing,
    /// Time during which attempts are planned.
    pub length: Duration,
    /// Attempts a second after that time, and how long: the load after a pulse.
    pub after: Option<(f64, Duration)>,
    /// Users.
    pub users: Users,
    /// Called users.
    pub peers: Users,
    /// Domain of the users.
    pub domain: String,
    /// First local address, of the same family as the target's.
    pub local: IpAddr,
    /// Number of local addresses, from the first one on; a server with a limit for each source needs several.
    pub sources: u8,
    /// Number of sockets for each local address, of each thread and side; over a stream transport that of shared
    /// connections.
    pub sockets: u8,
    /// Number of sockets of the called users for each local address, if it is another one: addresses that a server connects to.
    pub called_sockets: Option<u8>,
    /// Number of threads.
    pub threads: u32,
    /// Ring time.
    pub ring: Length,
    /// Talk time.
    pub talk: Length,
    /// Number of users who register at a time before the load; `None`: they register at a moderate rate.
    pub register_window: Option<u32>,
    /// Time between the registration of users before the load and the load, in which a server writes their bindings.
    pub settle: Duration,
    /// Media streams of the calls.
    pub media: MediaUse,
    /// Values of T1, T2 and T4.
    pub timers: Timers,
}

/// Connections between the server and the called users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Called {
    /// Those of their registrations: one, if the callers share one too, otherwise one for each called user.
    #[default]
    Usual,
    /// They share one for each local address.
    Shared,
    /// One for each called user.
    PerUser,
    /// They close that of their registration, so that the server opens connections to their Contacts: it is the client of TLS.
    Dialled,
}

/// Scenarios of files.
#[derive(Clone, Debug)]
pub struct Files {
    name: String,
    caller: Arc<Scenario>,
    callee: Option<Arc<Scenario>>,
    registration: Option<Arc<Scenario>>,
}

/// Kind of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// REGISTER that creates or refreshes a binding.
    Register,
    /// REGISTER that refreshes a binding; the bindings are made before the load starts.
    Update,
    /// REGISTER that removes a binding; the bindings are made before the load starts.
    Logout,
    /// Call between two users; both sides are played.
    Call,
    /// Call of an unknown user, which ends with 404.
    CallNotFound,
    /// Call of a user who is not registered, which ends with 480.
    CallUnavailable,
    /// REGISTER without credentials, which ends with 401.
    Unauthenticated,
    /// REGISTER with a wrong password, which ends with 401.
    WrongPassword,
    /// Call through a redirect server.
    Redirect,
    /// OPTIONS to a user; both sides are played.
    Options,
    /// MESSAGE between two users; both sides are played.
    Message,
    /// SUBSCRIBE to the presence of the user itself with Expires 0, and the NOTIFY that it brings (RFC 6665 §4.4.3).
    Subscribe,
    /// PUBLISH of the user's presence.
    Publish,
}

impl Flow {
    /// All kinds with their names.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Register, "register"),
        (Self::Update, "update"),
        (Self::Logout, "logout"),
        (Self::Call, "call"),
        (Self::CallNotFound, "call-not-found"),
        (Self::CallUnavailable, "call-unavailable"),
        (Self::Unauthenticated, "unauthenticated"),
        (Self::WrongPassword, "wrong-password"),
        (Self::Redirect, "redirect"),
        (Self::Options, "options"),
        (Self::Message, "message"),
        (Self::Subscribe, "subscribe"),
        (Self::Publish, "publish"),
    ];

    /// Name on the command line and in results.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(flow, _)| *flow == self).map_or("", |(_, name)| name)
    }

    /// True if the users' bindings are made before the load starts.
    const fn has_bindings(self) -> bool {
        matches!(self, Self::Update | Self::Logout)
    }

    /// Scenario of the caller.
    pub const fn caller(self, talk: Length) -> Classic {
        match self {
            Self::Register | Self::Update => Classic::Register,
            Self::Logout => Classic::Logout,
            Self::Call => Classic::Call { talk },
            Self::CallNotFound => Classic::CallNotFound,
            Self::CallUnavailable => Classic::CallUnavailable,
            Self::Unauthenticated => Classic::Unauthenticated,
            Self::WrongPassword => Classic::WrongPassword,
            Self::Redirect => Classic::Redirect { talk },
            Self::Options => Classic::Options,
            Self::Message => Classic::Message,
            Self::Subscribe => Classic::Subscribe,
            Self::Publish => Classic::Publish,
        }
    }

    /// Scenario of the called user, if that side is played too.
    pub const fn callee(self, ring: Length) -> Option<Classic> {
        match self {
            Self::Message => Some(Classic::AnswerSingle("MESSAGE")),
            Self::Options => Some(Classic::AnswerSingle("OPTIONS")),
            Self::Call | Self::Redirect => Some(Classic::Answer { ring }),
            Self::Register
            | Self::Update
            | Self::Logout
            | Self::CallNotFound
            | Self::CallUnavailable
            | Self::Unauthenticated
            | Self::WrongPassword
            | Self::Subscribe
            | Self::Publish => None,
        }
    }
}

impl Files {
    /// Checks the sides of two scenarios; `name` is their name in results. Without `callee` nobody plays the called users.
    ///
    /// # Errors
    /// A caller's scenario that begins with a received message, or a callee's that begins with a sent one.
    pub fn new(name: String, caller: Scenario, callee: Option<Scenario>) -> Result<Self> {
        if !caller.is_caller() {
            bail!("{name} begins with a received message: it is the scenario of a called user");
        }
        if callee.as_ref().is_some_and(Scenario::is_caller) {
            bail!("the scenario of the called user begins with a sent message: it is that of a caller");
        }
        Ok(Self { name, caller: Arc::new(caller), callee: callee.map(Arc::new), registration: None })
    }

    /// Sets the scenario of the called users' registration before the load.
    #[must_use]
    pub fn with_registration(self, scenario: Arc<Scenario>) -> Self {
        Self { registration: Some(scenario), ..self }
    }

    /// True if the caller's messages name a called user.
    pub fn has_peers(&self) -> bool {
        self.caller.steps().iter().any(|step| match step {
            Step::Send(send) => send.template.has(|keyword| *keyword == Keyword::Peer),
            Step::Receive(_) | Step::Pause(_) | Step::Nop => false,
        })
    }
}

impl Plan {
    /// Time during which attempts are planned, with that after a pulse.
    pub fn whole_length(&self) -> Duration {
        self.length + self.after.map_or(Duration::ZERO, |(_, length)| length)
    }

    /// One attempt a second for one second over UDP, from one thread and socket, of users who answer at once and do not talk.
    pub fn new(target: SocketAddr, flow: Flow, users: Users, peers: Users) -> Self {
        Self {
            target,
            peer_target: None,
            is_direct: false,
            transport: Transport::Udp,
            tls: None,
            round_trips: 0,
            connections: ConnectionUse::Shared,
            called: Called::Usual,
            is_outbound_proxy: false,
            honours_retry_after: false,
            allowed_hosts: Vec::new(),
            flow,
            files: None,
            rate: 1.0,
            spacing: Spacing::Fixed,
            length: Duration::from_secs(1),
            after: None,
            users,
            peers,
            domain: "localhost".to_owned(),
            local: local_towards(target),
            sources: 1,
            sockets: 1,
            called_sockets: None,
            threads: 1,
            ring: Length::Fixed(Duration::ZERO),
            talk: Length::Fixed(Duration::ZERO),
            register_window: None,
            settle: Duration::ZERO,
            media: MediaUse::None,
            timers: Timers::default(),
        }
    }

    /// Checks that packets stay where they may go, and that the numbers are possible.
    ///
    /// # Errors
    /// The value, and what to do.
    pub fn check(&self) -> Result<()> {
        let host = self.target.ip();
        for host in [Some(self.target), self.peer_target].into_iter().flatten().map(|target| target.ip()) {
            if !may_send(host, &self.allowed_hosts) {
                bail!("{host} is not a loopback address; give --allow-remote {host} to send load there");
            }
        }
        if host.is_ipv4() != self.local.is_ipv4() {
            bail!(
                "{} cannot be reached from {}; give --local with an address of its family",
                host,
                self.local
            );
        }
        let is_call = self.files.is_some() || matches!(self.flow, Flow::Call | Flow::Redirect);
        if self.media != MediaUse::None && !is_call {
            bail!("only calls have media: leave out the media, or take the scenario call or redirect");
        }
        if self.plays() && matches!(self.media, MediaUse::Srtp(_)) {
            bail!("recorded RTP is sent as it is: give --media rtp or none for a scenario that plays it");
        }
        if !(self.rate.is_finite() && self.rate > 0.0 && self.rate <= RATE_MAX) {
            bail!("the rate must be above 0 and at most {RATE_MAX} a second");
        }
        let sockets = u16::from(self.sources) * u16::from(self.sockets.max(self.called_sockets.unwrap_or(0)));
        if !(1..=SOCKETS_MAX).contains(&sockets) || !(1..=THREADS_MAX).contains(&self.threads) {
            bail!(
                "1 to {SOCKETS_MAX} sockets (sources × sockets for each) and 1 to {THREADS_MAX} threads are possible"
            );
        }
        let users = self.users.count().min(self.peers.count());
        if users < self.threads {
            bail!("{} threads need as many users; there are {users}", self.threads);
        }
        let attempts = self.rate * self.length.as_secs_f64();
        if self.files.is_none() && self.flow == Flow::Logout && attempts > f64::from(self.users.count()) + 0.5
        {
            bail!(
                "{attempts:.0} logouts need as many users, for each has one binding to remove; there are {}: raise --users",
                self.users.count()
            );
        }
        if self.is_direct && !self.has_callees() {
            bail!("generator against generator needs a flow with called users");
        }
        if self.called != Called::Usual && !self.transport.is_stream() {
            bail!("connections of the called users need a transport with connections, such as TCP");
        }
        if self.called == Called::Dialled {
            self.check_dialled()?;
        }
        if self.transport.is_secure() != self.tls.is_some() {
            bail!("the transport {} and the certificates for TLS do not go together", self.transport);
        }
        self.check_connections()
    }

    fn check_dialled(&self) -> Result<()> {
        if matches!(self.transport, Transport::Ws | Transport::Wss) {
            bail!("a server opens no WebSocket connections (RFC 7118 §5); take TCP or TLS");
        }
        if self.tls.as_ref().is_some_and(|tls| !tls.has_certificate) {
            bail!(
                "called users that the server connects to need a certificate for their addresses: give --certificate and --private-key"
            );
        }
        Ok(())
    }

    fn check_connections(&self) -> Result<()> {
        if !self.transport.is_stream() || self.connections != ConnectionUse::PerUser {
            return Ok(());
        }
        let sides = if self.has_callees() { 2 } else { 1 };
        let users = u64::from(self.users.count());
        let files = ringway_linux::sys::raise_open_files().context("read the limit of open files")?;
        if users * sides + FILES_RESERVED > files {
            bail!(
                "a connection for each of {users} users needs {} open files and {files} are permitted; raise the limit \
                 (ulimit -n) or lower --users",
                users * sides + FILES_RESERVED
            );
        }
        let users_each = users.div_ceil(u64::from(self.threads));
        if users_each > CONNECTIONS_MAX as u64 {
            bail!("a thread has at most {CONNECTIONS_MAX} connections; raise --threads");
        }
        Ok(())
    }

    /// Part of thread `index`: its users and its share of the rate.
    pub(crate) fn of_thread(&self, index: u32) -> Result<Self> {
        let part = |users: &Users| users.part(index, self.threads).context("a thread has no user");
        Ok(Self {
            rate: self.rate / f64::from(self.threads),
            users: part(&self.users)?,
            peers: part(&self.peers)?,
            ..self.clone()
        })
    }

    /// Plan of the called users' sockets.
    pub(crate) fn of_called(&self) -> Self {
        Self { sockets: self.called_sockets.unwrap_or(self.sockets), ..self.clone() }
    }

    /// Local addresses.
    pub(crate) const fn locals(&self) -> Locals {
        Locals { first: self.local, sources: self.sources, sockets: self.sockets }
    }

    /// Name of the scenario in results.
    pub fn scenario_name(&self) -> &str {
        self.files.as_ref().map_or(self.flow.name(), |files| &files.name)
    }

    /// True if the called users' side is played too.
    const fn has_callees(&self) -> bool {
        match &self.files {
            Some(files) => files.callee.is_some(),
            None => self.flow.callee(self.ring).is_some(),
        }
    }

    /// True if a side plays recordings.
    fn plays(&self) -> bool {
        let scenarios = self.files.iter().flat_map(|files| [Some(&files.caller), files.callee.as_ref()]);
        scenarios.flatten().any(|scenario| scenario.plays())
    }

    /// True if the calls have media of their own, or play recordings.
    pub(crate) fn has_media(&self) -> bool {
        self.media != MediaUse::None || self.plays()
    }

    pub(crate) fn caller(&self) -> Result<Arc<Scenario>> {
        match &self.files {
            Some(files) => Ok(Arc::clone(&files.caller)),
            None => Ok(Arc::new(self.flow.caller(self.talk).scenario_with(self.media)?)),
        }
    }

    /// Scenario of the called users, if they are played too.
    pub(crate) fn callee(&self) -> Result<Option<Arc<Scenario>>> {
        match &self.files {
            Some(files) => Ok(files.callee.clone()),
            None => {
                let callee = self.flow.callee(self.ring).map(|callee| callee.scenario_with(self.media));
                Ok(callee.transpose()?.map(Arc::new))
            }
        }
    }

    /// Scenario of the registrations before the load.
    pub(crate) fn registration(&self) -> Result<Arc<Scenario>> {
        match self.files.as_ref().and_then(|files| files.registration.as_ref()) {
            Some(registration) => Ok(Arc::clone(registration)),
            None => Ok(Arc::new(Classic::Register.scenario()?)),
        }
    }

    /// True if the users' bindings are made before the load starts.
    pub(crate) const fn has_bindings(&self) -> bool {
        self.files.is_none() && self.flow.has_bindings()
    }

    /// Users that are registered before the load starts.
    pub const fn registered_before(&self) -> Option<&Users> {
        match (self.has_callees(), self.has_bindings()) {
            (true, _) => Some(&self.peers),
            (false, true) => Some(&self.users),
            (false, false) => None,
        }
    }
}

/// Maximum attempts a second.
const RATE_MAX: f64 = 10_000_000.0;
/// Maximum number of sockets of a thread and side.
const SOCKETS_MAX: u16 = 256;
/// Maximum number of threads.
const THREADS_MAX: u32 = 64;
/// Open files besides the connections of users.
const FILES_RESERVED: u64 = 64;

/// Certificates, and the host that the server must be. All connections of a load share the sessions that can be resumed.
#[derive(Clone)]
pub struct LoadTls {
    material: TlsMaterial,
    /// Name that the server's certificate must have; `None`: the address.
    name: Option<String>,
    /// It has a certificate of its own.
    has_certificate: bool,
    reports: Arc<Reports>,
}

/// Passes reports of handshakes on, and keeps the reason of the first one.
struct Reports {
    first: OnceLock<String>,
    observer: Arc<dyn Observer>,
}

impl Observer for Reports {
    fn failed(&self, remote: SocketAddr, role: Role, reason: &str) {
        self.first.get_or_init(|| reason.to_owned());
        self.observer.failed(remote, role, reason);
    }
}

impl LoadTls {
    /// Loads the files.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(files: &TlsFiles, name: Option<String>, observer: Arc<dyn Observer>) -> Result<Self> {
        let reports = Arc::new(Reports { first: OnceLock::new(), observer });
        let has_certificate = files.certificate.is_some();
        Ok(Self { material: files.load().context("TLS")?, name, has_certificate, reports })
    }

    /// Layers of one side, with counters of their own.
    pub(crate) fn layers(&self) -> InlineTls {
        InlineTls::new(self.material.clone(), Arc::clone(&self.reports) as Arc<dyn Observer>)
    }

    /// Reason of the first handshake that failed.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.reports.first.get().map(String::as_str)
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl fmt::Debug for LoadTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadTls").field("name", &self.name).finish_non_exhaustive()
    }
}

//! Configuration of a user agent.

use crate::AccountId;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{ListenerId, Transport};
use ringway_sip::digest::Ha1;
use ringway_transaction::Timers;

/// Settings of a user agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Accounts, in the order of their [`AccountId`]s.
    pub accounts: Vec<Account>,
    /// Listeners of the driver, in the order of their [`ListenerId`]s.
    pub listeners: Vec<Listener>,
    /// Value of User-Agent; empty: the field is not sent.
    pub user_agent: String,
    /// T1, T2, T4.
    pub timers: Timers,
    /// Maximum duration of ringing, in either direction: 180 s.
    pub ring: Duration,
    /// Passwords of callers; `None`: callers are not challenged.
    pub caller_auth: Option<CallerAuth>,
    /// Takes INVITEs with Replaces (RFC 3891); otherwise `replaces` is not announced and the field is ignored.
    pub takes_replaces: bool,
    /// Transport of requests over 1,300 bytes.
    pub large_requests: LargeRequests,
    /// Messages that are reported as events.
    pub trace: Trace,
    /// Limits of state that peers can cause.
    pub limits: Limits,
    /// Limits of the parser.
    pub message_limits: ringway_sip::Limits,
}

/// Listener of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Transport protocol.
    pub transport: Transport,
    /// Address in Via and Contact; never unspecified.
    pub address: SocketAddr,
}

/// Transport of requests over 1,300 bytes (RFC 3261 §18.1.1 requires a congestion-controlled one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LargeRequests {
    /// TCP if a listener has it, and UDP if that fails; then UDP for an hour to that address.
    #[default]
    SwitchToTcp,
    /// UDP, with IP fragmentation.
    StayOnUdp,
}

/// Messages that are reported as events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// None.
    #[default]
    Off,
    /// First lines: [`AgentEvent::Message`](crate::AgentEvent::Message), without bodies and credentials.
    FirstLines,
    /// Whole messages, media keys and digests included: for debugging of the user's own phone, not for a log.
    Whole,
}

/// Address-of-record and its settings.
#[derive(Clone, Debug)]
pub struct Account {
    /// Address-of-record, `sip:alice@example.org`; a `sips:` one needs a TLS listener.
    pub aor: String,
    /// Display name; may be empty.
    pub display_name: String,
    /// `username` of digest; `None`: the user of the address-of-record.
    pub username: Option<String>,
    /// Password, or its hash.
    pub secret: Secret,
    /// The only realm whose challenges are answered. `None`: the realm of the server's challenge to the first REGISTER;
    /// before that, and without a REGISTER, the domain of the address-of-record or the server's host.
    pub realm: Option<String>,
    /// Next hop of all out-of-dialog requests, REGISTER included. `None`: REGISTER goes to the domain, calls go to the
    /// host in the called URI.
    pub server: Option<ServerAddress>,
    /// True if [`UserAgent::start`](crate::UserAgent::start) registers it.
    pub register: bool,
    /// Requested expiry in seconds; 3600 is usual.
    pub expires_s: u32,
    /// Address in Contact; `None`: the listener's.
    pub contact: Option<SocketAddr>,
    /// Interval of keep-alives (CRLF CRLF) to the server while registered, for a NAT; `None`: none are sent.
    pub keep_alive: Option<Duration>,
    /// Instance of the phone, `urn:uuid:…`, the same after each start: it then registers its flow (RFC 5626). `None`: its
    /// contact.
    pub instance: Option<String>,
    /// Handling of challenges inside dialogs.
    pub in_dialog: InDialogChallenges,
    /// Passwords for called phones that challenge (RFC 3261 §22.2), each only for the challenges of its realm.
    pub peer_credentials: Vec<PeerCredentials>,
}

/// Password for the challenges of a called phone.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Realm of the challenges.
    pub realm: String,
    /// `username` of digest.
    pub username: String,
    /// Password.
    pub password: String,
}

impl fmt::Debug for PeerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerCredentials({:?}, {:?}, ..)", self.realm, self.username)
    }
}

/// Users that may call, and the realm of their passwords. Other INVITEs get 401 (RFC 3261 §22.2).
#[derive(Clone, Debug)]
pub struct CallerAuth {
    /// Realm of the challenges; never the realm of a server, or callers would send credentials for that.
    pub realm: String,
    /// User names, and H(A1) for this realm.
    pub users: Vec<(String, Ha1)>,
}

/// Handling of challenges inside dialogs. Such a challenge can come from the peer as well as from the server, and the two
/// cannot be distinguished; credentials for it allow the peer to guess the password offline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InDialogChallenges {
    /// Not answered; the request has failed.
    #[default]
    Ignored,
    /// A 407 to a request that was sent to the account's server is answered once. For servers that challenge inside
    /// dialogs too.
    AnsweredAtServer,
}

/// Password of an account. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// None: no challenge is answered.
    None,
    /// The password.
    Password(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Registrar or outbound proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Address or host name.
    pub host: String,
    /// `None`: 5060.
    pub port: Option<u16>,
    /// Transport protocol.
    pub transport: Transport,
}

/// Limits of state that peers can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of calls, ringing ones included. Above it: 486.
    pub calls_max: usize,
    /// Maximum number of ringing calls of one source (an IPv6 /64 network counts as one) that is not the account's server.
    /// Above it: 486.
    pub ringing_per_source_max: usize,
    /// Maximum number of ringing calls that bypass the account's server; the rest of [`Limits::calls_max`] is reserved for
    /// calls by way of it. Above it: 486.
    pub ringing_bypassing_max: usize,
    /// Maximum number of dialogs of one INVITE (RFC 3261 §12.1). Responses that would create more are ignored.
    pub early_dialogs_max: usize,
    /// Maximum number of requests without a final response.
    pub requests_max: usize,
    /// Maximum length of a body in bytes. Above it: 513.
    pub body_bytes_max: usize,
    /// Maximum number of parts of a multipart body, those in its parts included. Above it: 513.
    pub body_parts_max: usize,
    /// Maximum number of multipart bodies in each other. Above it: 513.
    pub body_levels_max: u8,
    /// Maximum number of entries in a route set. Above it the dialog is refused.
    pub routes_max: usize,
    /// Maximum number of times that one request is sent again with other credentials.
    pub challenge_rounds_max: u8,
    /// Maximum number of redirections (3xx) of one call.
    pub redirects_max: u8,
    /// Maximum number of times that one call waits for a busy server (503 with a short Retry-After).
    pub postponements_max: u8,
    /// Maximum number of retries of one change of a session after 491.
    pub glare_retries_max: u8,
    /// Maximum expiry that is accepted from a registrar, in seconds; also for Min-Expires.
    pub expires_s_max: u32,
    /// Limits of the transactions.
    pub transactions: ringway_transaction::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_max: 8,
            ringing_per_source_max: 2,
            ringing_bypassing_max: 4,
            early_dialogs_max: 16,
            requests_max: 128,
            body_bytes_max: 16 * 1024,
            body_parts_max: 16,
            body_levels_max: 3,
            routes_max: 16,
            challenge_rounds_max: 3,
            redirects_max: 5,
            postponements_max: 3,
            glare_retries_max: 5,
            expires_s_max: 7 * 24 * 3600,
            transactions: ringway_transaction::Limits { servers_max: 1024, clients_max: 512 },
        }
    }
}

impl Config {
    /// Creates settings with these accounts and listeners, and defaults for the rest.
    pub fn new(accounts: Vec<Account>, listeners: Vec<Listener>) -> Self {
        Self {
            accounts,
            listeners,
            user_agent: String::from(concat!("Ringway/", env!("CARGO_PKG_VERSION"))),
            timers: Timers::default(),
            ring: Duration::from_secs(180),
            caller_auth: None,
            takes_replaces: true,
            large_requests: LargeRequests::default(),
            trace: Trace::default(),
            limits: Limits::default(),
            message_limits: ringway_sip::Limits::default(),
        }
    }

    /// First listener that can send by `transport` to `to`.
    pub(crate) fn listener_for(&self, transport: Transport, to: IpAddr) -> Option<ListenerId> {
        let listeners = self.listeners.iter().map(|listener| Some((listener.transport, listener.address)));
        ListenerId::for_peer(listeners, transport, to)
    }

    /// True if a listener has the transport.
    pub(crate) fn has_transport(&self, transport: Transport) -> bool {
        self.listeners.iter().any(|listener| listener.transport == transport)
    }

    /// Supported extensions.
    pub(crate) fn supported(&self) -> Option<&'static [u8]> {
        self.takes_replaces.then_some(b"replaces")
    }

    /// Address of a listener.
    pub(crate) fn address_of(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.listeners.get(usize::from(listener.0)).map(|listener| listener.address)
    }

    pub(crate) fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.0)
    }
}

impl Account {
    /// Creates an account without server and password, for direct calls.
    pub fn direct(aor: &str) -> Self {
        Self {
            aor: aor.into(),
            display_name: String::new(),
            username: None,
            secret: Secret::None,
            realm: None,
            server: None,
            register: false,
            expires_s: 3600,
            contact: None,
            keep_alive: None,
            instance: None,
            in_dialog: InDialogChallenges::default(),
            peer_credentials: Vec::new(),
        }
    }

    /// Creates an account at a server.
    pub fn at_server(aor: &str, password: &str, server: ServerAddress) -> Self {
        Self {
            secret: Secret::Password(password.into()),
            server: Some(server),
            register: true,
            ..Self::direct(aor)
        }
    }
}

//! What a user agent is told once.

use crate::AccountId;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{ListenerId, Transport};
use ringway_sip::digest::Ha1;
use ringway_transaction::Timers;

/// All settings of a user agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who it speaks for, in the order of their [`AccountId`]s.
    pub accounts: Vec<Account>,
    /// The driver's listeners, in the order of their [`ListenerId`]s.
    pub listeners: Vec<Listener>,
    /// The value of User-Agent; empty: none is sent.
    pub user_agent: String,
    /// T1, T2, T4.
    pub timers: Timers,
    /// How long a call may ring, in either direction: 180 s.
    pub ring: Duration,
    /// Passwords that callers are asked for; `None`: anybody may call.
    pub caller_auth: Option<CallerAuth>,
    /// What is done with requests that do not fit a datagram.
    pub large_requests: LargeRequests,
    /// Whether every message becomes an event.
    pub trace: Trace,
    /// What a peer can make grow.
    pub limits: Limits,
    /// What is read of a message at most.
    pub message_limits: ringway_sip::Limits,
}

/// One listener of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its transport.
    pub transport: Transport,
    /// The address peers are told in Via and Contact; never unspecified.
    pub address: SocketAddr,
}

/// RFC 3261 §18.1.1: a request over 1,300 bytes belongs on a transport that cannot lose a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LargeRequests {
    /// Send it by TCP where a listener has that, and by UDP after all when nobody answers there.
    #[default]
    SwitchToTcp,
    /// Send it by UDP; IP takes it apart.
    StayOnUdp,
}

/// Whether every message becomes an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// No.
    #[default]
    Off,
    /// Its first line does: [`AgentEvent::Message`](crate::AgentEvent::Message). Bodies and credentials never do.
    FirstLines,
    /// All of it does, keys of sound and hashed passwords too: for a person who looks at their own phone, not for a log.
    Whole,
}

/// One address-of-record and what belongs to it.
#[derive(Clone, Debug)]
pub struct Account {
    /// The address-of-record, `sip:alice@example.org`.
    pub aor: String,
    /// The name others are shown; may be empty.
    pub display_name: String,
    /// The `username` of digest; `None`: the user of the address-of-record.
    pub username: Option<String>,
    /// What is known of the password.
    pub secret: Secret,
    /// The one realm whose challenges are answered. `None`: the realm that the server asks for at the first REGISTER; until
    /// then, and without a REGISTER, the domain of the address-of-record or the server's host.
    pub realm: Option<String>,
    /// Where all requests outside dialogs go first, REGISTER with them. `None`: REGISTER goes to the domain, calls go to
    /// the host in the called URI.
    pub server: Option<ServerAddress>,
    /// True when [`UserAgent::register`](crate::UserAgent::register) is to be done for it at the start.
    pub register: bool,
    /// The expiry asked for, in seconds; 3600 is usual.
    pub expires_s: u32,
    /// The address given in Contact; `None`: the listener's.
    pub contact: Option<SocketAddr>,
    /// How often CRLF CRLF is sent to the server while registered, to keep a NAT's mapping; `None`: never.
    pub keep_alive: Option<Duration>,
    /// What is done with challenges inside dialogs.
    pub in_dialog: InDialogChallenges,
    /// Passwords for called phones that challenge (RFC 3261 §22.2), each for the challenges of its realm alone.
    pub peer_credentials: Vec<PeerCredentials>,
}

/// A password for the challenges of a called phone.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The realm whose challenges it answers.
    pub realm: String,
    /// The `username` of digest.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for PeerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerCredentials({:?}, {:?}, ..)", self.realm, self.username)
    }
}

/// The users who may call, and the realm of their passwords. Other INVITEs get 401 (RFC 3261 §22.2).
#[derive(Clone, Debug)]
pub struct CallerAuth {
    /// The realm of the challenges; never the realm of a server, whose passwords callers would answer with.
    pub realm: String,
    /// User names and H(A1) for this realm.
    pub users: Vec<(String, Ha1)>,
}

/// A challenge inside a dialog can come from the other side as well as from the server, and nothing in it tells which.
/// Whoever answers it hands the other side something to guess the password with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InDialogChallenges {
    /// It is not answered; the request has failed.
    #[default]
    Ignored,
    /// A 407 to a request that was sent to the account's own server is answered, once. For servers that ask inside dialogs
    /// too.
    AnsweredAtServer,
}

/// What is known of a password. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Nothing: no challenge is answered.
    None,
    /// The password itself.
    Password(String),
    /// Only H(A1), for [`Account::realm`]; without that for the domain or the server's host.
    Ha1(Ha1),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A registrar or outbound proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// An address or a host name.
    pub host: String,
    /// `None`: 5060.
    pub port: Option<u16>,
    /// How it is reached.
    pub transport: Transport,
    /// How requests are led to it.
    pub first_hop: FirstHop,
}

/// How a request is led to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstHop {
    /// It is sent there and says nothing of it: enough for the domain's own server.
    #[default]
    Plain,
    /// It names it in a Route (RFC 3261 §8.1.2): for an outbound proxy.
    Route,
}

/// How much a peer can make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls at once, those that ring with them. Over it: 486.
    pub calls_max: usize,
    /// Dialogs that one INVITE of ours may make (RFC 3261 §12.1). Answers that would make more are ignored.
    pub early_dialogs_max: usize,
    /// Requests of ours that wait for an answer or for a name.
    pub requests_max: usize,
    /// Bytes of a body that is looked at. Over it: 513.
    pub body_bytes_max: usize,
    /// Entries in a route set. Over it the dialog is refused.
    pub routes_max: usize,
    /// How often one request is sent again with other credentials.
    pub challenge_rounds_max: u8,
    /// How often one call follows a redirection (3xx).
    pub redirects_max: u8,
    /// How often one change of a session is tried again after 491.
    pub glare_retries_max: u8,
    /// The longest registration believed, in seconds; also for Min-Expires.
    pub expires_s_max: u32,
    /// Transactions.
    pub transactions: ringway_transaction::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_max: 8,
            early_dialogs_max: 16,
            requests_max: 128,
            body_bytes_max: 16 * 1024,
            routes_max: 16,
            challenge_rounds_max: 3,
            redirects_max: 5,
            glare_retries_max: 5,
            expires_s_max: 7 * 24 * 3600,
            transactions: ringway_transaction::Limits { servers_max: 1024, clients_max: 512 },
        }
    }
}

impl Config {
    /// Settings for these accounts and listeners, everything else as usual.
    pub fn new(accounts: Vec<Account>, listeners: Vec<Listener>) -> Self {
        Self {
            accounts,
            listeners,
            user_agent: String::from(concat!("Ringway/", env!("CARGO_PKG_VERSION"))),
            timers: Timers::default(),
            ring: Duration::from_secs(180),
            caller_auth: None,
            large_requests: LargeRequests::default(),
            trace: Trace::default(),
            limits: Limits::default(),
            message_limits: ringway_sip::Limits::default(),
        }
    }

    /// The first listener that can send by `transport` to `to`.
    pub(crate) fn listener_for(&self, transport: Transport, to: IpAddr) -> Option<ListenerId> {
        let listeners = self.listeners.iter().map(|listener| (listener.transport, listener.address));
        ListenerId::for_peer(listeners, transport, to)
    }

    /// The address of a listener.
    pub(crate) fn address_of(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.listeners.get(usize::from(listener.0)).map(|listener| listener.address)
    }

    pub(crate) fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.0)
    }
}

impl Account {
    /// An account without server and password, for direct calls.
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
            in_dialog: InDialogChallenges::default(),
            peer_credentials: Vec::new(),
        }
    }

    /// An account at a server.
    pub fn at_server(aor: &str, password: &str, server: ServerAddress) -> Self {
        Self {
            secret: Secret::Password(password.into()),
            server: Some(server),
            register: true,
            ..Self::direct(aor)
        }
    }
}

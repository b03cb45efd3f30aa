//! Values of the administrator's pages, borrowed for one drawing.

use crate::network::Network;
use alloc::string::String;
use core::time::Duration;

/// Everything but the registered users (see [`RegistrationSource`](super::RegistrationSource)). Counts are since the
/// start.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The program's version.
    pub version: &'a str,
    /// Time since the start.
    pub uptime: Duration,
    /// Handling of requests for users.
    pub mode: Mode,
    /// Authentication of callers.
    pub authentication: Authentication<'a>,
    /// The domains that this server is responsible for.
    pub domains: &'a [String],
    /// The users that may register.
    pub users: Users<'a>,
    /// Users with a contact.
    pub users_registered: u64,
    /// Contacts registered.
    pub contacts: u64,
    /// The machine in its network.
    pub network: Network<'a>,
    /// Messages received and sent.
    pub totals: Totals,
    /// Calls that are being set up: forwarded, and not answered yet. A proxy has no state of others.
    pub calls: u64,
    /// The longest time that a frame waited for its turn, in the last second.
    pub queue_delay: Duration,
    /// The heap.
    pub memory: Memory,
    /// Every named limit and every reason to drop something, always in the same order.
    pub limits: &'a [Limit<'a>],
    /// Problems that the administrator must see at once, the worst first; one line each.
    pub trouble: &'a [&'a str],
}

/// Handling of requests for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are forwarded.
    Proxy {
        /// With transactions, or message by message (RFC 3261 §16.11).
        is_stateful: bool,
        /// True if calls stay on this server's path.
        has_record_route: bool,
    },
    /// The caller gets the contacts of the user (RFC 3261 §8.3).
    Redirect,
}

/// Authentication of callers.
#[derive(Clone, Copy, Debug)]
pub enum Authentication<'a> {
    /// None: every sender is accepted.
    Off,
    /// Digest authentication.
    On {
        /// Realm of the passwords.
        realm: &'a str,
        /// The hashes offered, the best first: `SHA-256`, `MD5`.
        algorithms: &'a [&'a str],
    },
}

/// The users that may register.
#[derive(Clone, Copy, Debug)]
pub enum Users<'a> {
    /// No list was configured.
    None,
    /// The list is being loaded.
    Loading {
        /// URL: `tftp://192.0.2.1/users.csv`.
        from: &'a str,
        /// Bytes received so far.
        bytes: u64,
    },
    /// The list is loaded.
    Loaded {
        /// URL of the list.
        from: &'a str,
        /// Number of users.
        count: u64,
    },
    /// The list could not be loaded.
    Failed {
        /// URL of the list.
        from: &'a str,
        /// The reason, in one line.
        why: &'a str,
    },
}

/// Messages received and sent since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests received.
    pub requests: u64,
    /// REGISTER requests among them.
    pub registers: u64,
    /// Responses sent, by the first digit of their status: 2xx.
    pub successes: u64,
    /// 3xx: redirected callers.
    pub redirections: u64,
    /// 4xx: challenges too.
    pub client_errors: u64,
    /// 5xx and 6xx.
    pub server_errors: u64,
}

/// The heap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In use now.
    pub used: u64,
    /// Maximum in use since the start.
    pub peak: u64,
    /// Size.
    pub limit: u64,
    /// True while new work is refused (503) because too little is left.
    pub is_short: bool,
}

/// A named limit, or a reason to drop something.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// Its name: `TCP connections`.
    pub name: &'a str,
    /// The limit; `None`: a counter only.
    pub most: Option<u64>,
    /// Current use, if it is known.
    pub used: Option<u64>,
    /// Number of times that the limit was reached, or something was dropped for this reason.
    pub hits: u64,
}

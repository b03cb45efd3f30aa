//! What the administrator's pages show: plain values, borrowed for one drawing.

use crate::network::Network;
use alloc::string::String;
use core::time::Duration;

/// Everything but the registered users (see [`Roll`](super::Roll)). Counts are since the start.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The program's version.
    pub version: &'a str,
    /// Time since the start.
    pub uptime: Duration,
    /// What is done with requests.
    pub mode: Mode,
    /// Whether passwords are asked for.
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
    /// What was received and answered.
    pub totals: Totals,
    /// Calls that are being set up: forwarded, and not answered yet. A proxy does not know of others.
    pub calls: u64,
    /// The longest time that a frame waited for its turn, in the last second.
    pub queue_delay: Duration,
    /// The heap.
    pub memory: Memory,
    /// Every named limit and every reason to drop something, always in the same order.
    pub limits: &'a [Limit<'a>],
    /// What the administrator must know at once, the worst first; one line each.
    pub trouble: &'a [&'a str],
}

/// What is done with requests for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are forwarded.
    Proxy {
        /// With transactions, or message by message (RFC 3261 §16.11).
        is_stateful: bool,
        /// Whether calls stay on this server's path.
        has_record_route: bool,
    },
    /// The caller is told where the user is (RFC 3261 §8.3).
    Redirect,
}

/// Whether passwords are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Authentication<'a> {
    /// Everyone is believed.
    Off,
    /// Digest authentication.
    On {
        /// Whose passwords are asked for.
        realm: &'a str,
        /// The hashes offered, the best first: `SHA-256`, `MD5`.
        algorithms: &'a [&'a str],
    },
}

/// The users that may register.
#[derive(Clone, Copy, Debug)]
pub enum Users<'a> {
    /// No list of them was named.
    None,
    /// They are on their way.
    Loading {
        /// From there: `tftp://192.0.2.1/users.csv`.
        from: &'a str,
        /// Bytes that came so far.
        bytes: u64,
    },
    /// They are here.
    Loaded {
        /// From there.
        from: &'a str,
        /// So many.
        count: u64,
    },
    /// They could not be loaded.
    Failed {
        /// From there.
        from: &'a str,
        /// Why, in one line.
        why: &'a str,
    },
}

/// What was received and answered since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests received.
    pub requests: u64,
    /// REGISTER requests among them.
    pub registers: u64,
    /// Responses sent, by the first digit of their status: 2xx.
    pub successes: u64,
    /// 3xx: callers that were told where a user is.
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
    /// The most that was ever in use.
    pub peak: u64,
    /// All there is.
    pub limit: u64,
    /// True while new work is refused (503) because too little is left.
    pub is_short: bool,
}

/// A named limit, or a reason to drop something.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// Of what: `TCP connections`.
    pub name: &'a str,
    /// The limit; `None`: this is only counted.
    pub most: Option<u64>,
    /// How much of it is used now, where that is known.
    pub used: Option<u64>,
    /// How often it was reached, or something was dropped for this reason.
    pub hits: u64,
}

//! The interface between the admin API and the running server, and the items of its listings.

use crate::traces::Traces;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The running server as an administrator sees it. Called from the admin thread; it should lock briefly.
pub trait View: Send + Sync {
    /// Registered and permanent contacts, from the first after the cursor `after` on, at most `limit`. With a `text`, those
    /// whose address-of-record, contact or source address contains it.
    fn registrations(&self, after: Option<&str>, limit: usize, text: Option<&str>) -> Page<Registration>;

    /// Calls that have not ended; those that are answered only if the server records calls.
    fn calls(&self, after: Option<&str>, limit: usize) -> Page<Call>;

    /// Records of the calls that ended last, the newest last, from the one after number `after` on.
    fn records(&self, after: Option<&str>, limit: usize) -> Page<CallRecord>;

    /// Open stream connections. With a `text`, those whose addresses or neighbour contain it.
    fn connections(&self, after: Option<&str>, limit: usize, text: Option<&str>) -> Page<Connection>;

    /// Counters and gauges.
    fn stats(&self) -> Stats;

    /// Trunks, in the order of the configuration.
    fn trunks(&self) -> Vec<Trunk> {
        Vec::new()
    }

    /// Media relays, in the order of the configuration.
    fn relays(&self) -> Vec<Relay> {
        Vec::new()
    }

    /// The other nodes and the store that they share; `None`: the server is the only one.
    fn cluster(&self) -> Option<Cluster> {
        None
    }

    /// Traces of users, if the server has them.
    fn traces(&self) -> Option<&dyn Traces> {
        None
    }

    /// Version, start and listeners.
    fn server(&self) -> ServerInfo;
}

/// Version, listeners and other data that only a reload changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Version of the program.
    pub version: String,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Domains it is responsible for.
    pub domains: Vec<String>,
    /// Listeners, as `udp:192.0.2.1:5060`.
    pub listeners: Vec<String>,
    /// Worker threads.
    pub workers: usize,
    /// Configuration file; `None`: defaults.
    pub file: Option<String>,
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Number of items in all pages.
    pub total: u64,
    /// Cursor of the next page; `None`: this was the last.
    pub next: Option<String>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), total: 0, next: None }
    }
}

/// A contact of an address-of-record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// The address-of-record, as `sip:alice@example.org`.
    pub aor: String,
    /// The contact URI.
    pub contact: String,
    /// Its transport: `udp`, `tcp`.
    pub transport: String,
    /// Source of its registration; `None` for a permanent contact.
    pub address: Option<String>,
    /// Seconds left; `None` for a permanent contact.
    pub expires_s: Option<u64>,
    /// Its preference, 0 to 1 (RFC 3261 §20.10).
    pub q: f64,
    /// True when an administrator added it.
    pub permanent: bool,
    /// Instance of its phone (RFC 5626), if the contact names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Number of its flow (RFC 5626 §4.2), if outbound applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reg_id: Option<u32>,
    /// Node that it is registered at, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Proxies before it, the first hop first (RFC 3327).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

/// A call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its Call-ID.
    pub call_id: String,
    /// The caller's URI.
    pub from: String,
    /// The URI that was called.
    pub to: String,
    /// Its state: `trying`, `ringing`, `answered`.
    pub state: String,
    /// Seconds since it began.
    pub age_s: u64,
    /// Seconds since it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_s: Option<u64>,
}

/// Record of an ended call: a line of the file of records. Times are UTC in RFC 3339 with milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Number since the start of the server, from 1.
    pub n: u64,
    /// Its Call-ID.
    pub call_id: String,
    /// The caller's URI.
    pub from: String,
    /// The URI that was called.
    pub to: String,
    /// User that proved the password of the caller, as `alice@example.org`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Request-URI of the INVITE, if it was another one than `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callee: Option<String>,
    /// Source address of the INVITE.
    pub source: String,
    /// Time of the INVITE.
    pub begun: String,
    /// Time of the first provisional response of a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ringing: Option<String>,
    /// Time of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// Time of the end.
    pub ended: String,
    /// Seconds from the answer to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Status code of the final response; 0: there was none.
    pub status: u16,
    /// Reason for the end: `bye`, `failed`, `busy`, `no-answer`, `cancelled`, `redirected`, `unknown-end`, `bye-refused`, `dropped`, `stopped`.
    pub reason: String,
    /// Reason why it went to another target than the called user's phones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverted: Option<String>,
    /// Contact that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// An open stream connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Its number, for `DELETE /api/connections/ID`; a text, as programs may read numbers as floating point.
    #[serde(default)]
    pub id: String,
    /// `tcp`.
    pub transport: String,
    /// The peer.
    pub address: String,
    /// Our end.
    pub local: String,
    /// Name of the neighbour that it is kept or dialled for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// Seconds since it was opened.
    pub age_s: u64,
}

/// A trunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trunk {
    /// Its name.
    pub name: String,
    /// Its URI.
    pub uri: String,
    /// `up`, `down` (it does not answer OPTIONS, or with 503), `silent` (it sent no response to a request a short time ago), `busy` (its
    /// 503 asked for a pause) or `unknown` (it is not probed, and has sent nothing yet).
    pub state: String,
    /// INVITEs sent to it.
    pub calls: u64,
    /// Seconds since its last response to a request that was routed to it.
    pub last_answer_s: Option<u64>,
    /// Status of that response.
    pub last_status: Option<u16>,
    /// Logins that it refused, or for which there were no credentials.
    pub logins_refused: u64,
}

/// A media relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Its address.
    pub address: String,
    /// `up` or `down`.
    pub state: String,
    /// Seconds since its last answer.
    pub last_answer_s: u64,
}

/// Nodes that share registrations, as one of them sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Name of this node.
    pub node: String,
    /// The store.
    pub store: SharedStore,
    /// All nodes, this one included, by name.
    pub nodes: Vec<ClusterNode>,
}

/// Store of the registrations that nodes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedStore {
    /// Its URL, without the password.
    pub url: String,
    /// `single`, `sentinel`, `cluster`, or `unknown` before the first connection.
    pub kind: String,
    /// `up`, `down`, or `warming` while its registrations are being read.
    pub state: String,
    /// Milliseconds between a change of another node and its arrival here, at the last change.
    pub lag_ms: u64,
    /// Changes that wait to be written.
    pub waiting: u64,
    /// Text of the last error, while it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its address for the other nodes.
    pub address: String,
    /// `up`, `draining` or `gone`.
    pub state: String,
    /// Connection to it: `up` or `down`; `-` for this node.
    pub link: String,
    /// Seconds since its last heartbeat.
    pub seen_s: u64,
    /// Version of the protocol between nodes that it has.
    pub version: u32,
}

/// Figures, in the order they are shown.
pub type Stats = Vec<Stat>;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Stat {
    /// Lower-case words joined by `_`, units last; the metric is called `ringway_NAME`.
    pub name: Cow<'static, str>,
    /// Description in one line.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// A label of the metric and its value; in the flat list of `/api/stats` the name is then `NAME.VALUE`. Figures of
    /// one name must stand together.
    pub label: Option<(&'static str, Cow<'static, str>)>,
    /// The figure.
    pub value: f64,
}

impl Stat {
    /// A figure that only grows.
    pub fn counter(name: impl Into<Cow<'static, str>>, help: &'static str, value: u64) -> Self {
        Self { name: name.into(), help, kind: MetricKind::Counter, label: None, value: value as f64 }
    }

    /// A figure that goes up and down.
    pub fn gauge(name: impl Into<Cow<'static, str>>, help: &'static str, value: f64) -> Self {
        Self { name: name.into(), help, kind: MetricKind::Gauge, label: None, value }
    }

    /// The same with a label.
    #[must_use]
    pub fn labelled(mut self, label: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.label = Some((label, value.into()));
        self
    }
}

/// Kind of a metric, as Prometheus defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

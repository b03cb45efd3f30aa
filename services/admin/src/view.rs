//! The interface between the admin API and the running server: the items of its listings, pages of listings whose items are
//! spread over shards, traces of users.

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

    /// Trunks, in the order of the configuration. With a `text`, those whose name, URI or state contains it.
    fn trunks(&self, _after: Option<&str>, _limit: usize, _text: Option<&str>) -> Page<Trunk> {
        Page::default()
    }

    /// Media relays, in the order of the configuration.
    fn relays(&self) -> Vec<Relay> {
        Vec::new()
    }

    /// The other nodes and the store that they share; `None`: the server is the only one.
    fn cluster(&self) -> Option<Cluster> {
        None
    }

    /// Times of the steps of messages; `None`: they are not measured.
    fn steps(&self) -> Option<StepTimes> {
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
    /// True if it registered this server, false if not; `None`: it does not register.
    pub registered: Option<bool>,
    /// True if another node of the cluster registers at it.
    #[serde(default)]
    pub of_other_node: bool,
    /// Calls to it that are under way; `None`: there is no limit of them, and they are not counted.
    pub under_way: Option<u32>,
    /// The same of calls from it.
    pub under_way_in: Option<u32>,
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

/// Times of the steps of messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    /// Time of one timing point in nanoseconds, which is taken off all others.
    pub mark_ns: u64,
    /// Steps by kind of message; after those of each kind a row `all`.
    pub steps: Vec<StepTime>,
}

/// Time of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Kind of message: a method, `other request`, `response` or `rejected`.
    pub message: String,
    /// `parse`, `find user`, `authenticate`, `add user`, `format`, `rest`, or `all`.
    pub step: String,
    /// Messages of the kind that had the step.
    pub messages: u64,
    /// Mean time in these in nanoseconds.
    pub mean_ns: f64,
    /// Percent of the time of all steps of the kind.
    pub share: f64,
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

/// Traces of users. Called from the admin thread; it should lock briefly.
pub trait Traces: Send + Sync {
    /// Entries after number `after` of the trace of a user, at most `max` of them; `None`: no entries, only the number of the last one.
    /// Begins a trace that does not run.
    ///
    /// # Errors
    /// The trace cannot be begun.
    fn read(&self, user: &str, after: Option<u64>, max: usize) -> Result<TracePage, TraceRefusal>;

    /// Notes that a reader of a user's trace has ended: unless another one reads it, the trace gives way to a new one.
    fn leave(&self, user: &str);
}

/// Entries of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePage {
    /// The entries, oldest first.
    pub entries: Vec<TraceEntry>,
    /// Number of the last entry, for the next poll.
    pub next: u64,
    /// Number of entries in between that were lost.
    pub lost: u64,
}

/// Message or decision. All text comes from the network and can have any value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Its number in the trace, from 1.
    pub n: u64,
    /// Time as RFC 3339 with milliseconds.
    pub time: String,
    /// `received`, `sent` or `decision`.
    pub kind: Cow<'static, str>,
    /// Flow of a message, as `udp:192.0.2.1:5060`; empty for a decision.
    pub flow: String,
    /// First line of a message; empty for a decision.
    pub first_line: String,
    /// Call-ID.
    pub call_id: String,
    /// CSeq, as `1 INVITE`.
    pub cseq: String,
    /// URI in the From of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// URI in the To of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// A decision for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Name of its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
}

/// Reason why a trace is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceRefusal {
    /// The name is empty, too long, or has characters that no user name has.
    BadName,
    /// Too many traces run.
    TooMany,
}

/// Makes one page of a listing that goes through all shards, slot by slot. The cursor is a shard and a slot in it.
///
/// `walk(shard, slot, count, items)` locks the shard, adds the items in `count` slots from `slot` on and returns the slot
/// to go on from; `None`: it has no more. `count` is at most 64, so that messages wait for no more than these. A page ends after
/// `slots_max` slots, as a search may find nothing in them.
pub fn page_over_shards<T>(
    shards: u16,
    after: Option<&str>,
    (limit, slots_max): (usize, u32),
    total: u64,
    mut walk: impl FnMut(u16, u32, u32, &mut Vec<T>) -> Option<u32>,
) -> Page<T> {
    let (mut shard, mut slot) = after.and_then(read_cursor).unwrap_or((0, 0));
    let mut page = Page { items: Vec::new(), total, next: None };
    let mut slots = 0_u32;
    while shard < shards {
        if page.items.len() >= limit || slots >= slots_max {
            page.next = Some(format!("{shard}.{slot}"));
            break;
        }
        let count = u32::try_from(limit - page.items.len()).unwrap_or(u32::MAX).min(SLOTS_MAX);
        slots = slots.saturating_add(count);
        match walk(shard, slot, count, &mut page.items) {
            Some(next) => slot = next,
            None => (shard, slot) = (shard + 1, 0),
        }
    }
    page
}

fn read_cursor(text: &str) -> Option<(u16, u32)> {
    let (shard, slot) = text.split_once('.')?;
    Some((shard.parse().ok()?, slot.parse().ok()?))
}

/// Maximum number of slots under one lock: some 100 µs, even when each is a call whose INVITE must be parsed.
const SLOTS_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Shards of 1,000, 0 and 300 slots of which every third is taken.
    #[test]
    fn pages_follow_each_other_and_no_lock_is_held_over_more_than_64_slots() {
        const SLOTS: [u32; 3] = [1000, 0, 300];
        let mut longest = 0;
        let mut walk = |shard: u16, slot: u32, count: u32, items: &mut Vec<(u16, u32)>| {
            longest = longest.max(count);
            let end = SLOTS[usize::from(shard)];
            let taken = (slot..end.min(slot + count)).filter(|slot| slot % 3 == 0);
            items.extend(taken.map(|slot| (shard, slot)));
            (slot + count < end).then_some(slot + count)
        };
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = page_over_shards(3, after.as_deref(), (90, u32::MAX), 434, &mut walk);
            assert!(page.items.len() <= 90 && page.total == 434);
            listed.extend(page.items);
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        let all = (0..3).flat_map(|shard| (0..SLOTS[usize::from(shard)]).map(move |slot| (shard, slot)));
        assert!(listed.into_iter().eq(all.filter(|(_, slot)| slot % 3 == 0)));
        assert_eq!(longest, SLOTS_MAX);
        let nothing = |_: u16, slot: u32, count: u32, _: &mut Vec<u8>| Some(slot + count);
        let page = page_over_shards(3, None, (90, 1000), 434, nothing);
        assert_eq!((page.items.len(), page.next.as_deref()), (0, Some("0.1024")), "it stops, and can go on");
    }
}

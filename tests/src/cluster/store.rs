//! The store that nodes share, as a model: the rule of `ringway_location`, a stream of records, faults.

use ringway_location::{NodeName, Registrations, Update, UpdateId};
use ringway_sansio::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// State of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// It answers.
    Up,
    /// It gets what is sent and answers later.
    Paused,
    /// Connections to it fail.
    Away,
}

/// Store with a stream of its changes.
pub struct Store {
    /// State, which stories change.
    pub state: StoreState,
    /// Difference of its clock from that of the simulation.
    pub ahead: Duration,
    /// Rises when a replica with older data takes over.
    pub(super) generation: u32,
    data: Data,
    /// Data of the last seconds, the oldest first.
    earlier: VecDeque<(Instant, Data)>,
    /// Heartbeats of the nodes.
    pub(super) heartbeats: BTreeMap<NodeName, Heartbeat>,
}

#[derive(Clone, Copy)]
pub(super) struct Heartbeat {
    pub(super) at: Instant,
    pub(super) is_draining: bool,
    /// Hash of its trunks.
    pub(super) trunks: u64,
}

#[derive(Clone, Default)]
struct Data {
    users: BTreeMap<Vec<u8>, User>,
    /// Number of entries that were trimmed.
    trimmed: usize,
    stream: VecDeque<StreamEntry>,
}

#[derive(Clone)]
struct User {
    registrations: Registrations,
    /// Node, incarnation and number of the last update.
    by: UpdateId,
    /// Version of the node that wrote it.
    version: u8,
}

/// Time, address-of-record and record.
type StreamEntry = (Instant, Vec<u8>, Vec<u8>);

/// Binding, by address-of-record, identity and node, and the time that it has left.
pub(super) type Stored = ((Vec<u8>, [u8; 16], NodeName), Duration);

impl Store {
    pub(super) fn new() -> Self {
        Self {
            state: StoreState::Up,
            ahead: CLOCK_AHEAD,
            generation: 0,
            data: Data::default(),
            earlier: VecDeque::new(),
            heartbeats: BTreeMap::new(),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == StoreState::Up
    }

    /// Time of its clock in milliseconds since the epoch.
    pub fn now_ms(&self, now: Instant) -> u64 {
        (now + self.ahead).as_nanos() / 1_000_000
    }

    /// A replica takes over that lost the changes of the last second, and whose clock is `ahead`. Returns the difference of the clocks.
    pub fn fail_over(&mut self, now: Instant, ahead: Duration) -> Duration {
        while let Some((at, data)) = self.earlier.pop_back() {
            if at + LOST <= now {
                self.data = data;
                break;
            }
        }
        self.earlier.clear();
        self.generation += 1;
        let moved = ahead.abs_diff(self.ahead);
        self.ahead = ahead;
        moved
    }

    /// Loses everything.
    pub fn lose_all(&mut self) {
        self.data = Data::default();
        self.earlier.clear();
        self.generation += 1;
    }

    /// The entries of the stream are trimmed.
    pub fn trim(&mut self) {
        self.data.trimmed += self.data.stream.len();
        self.data.stream.clear();
    }

    /// Notes its data, for a failover.
    pub(super) fn note(&mut self, now: Instant) {
        while self.data.stream.front().is_some_and(|(at, ..)| *at + STREAM_AGE_MAX <= now) {
            self.data.stream.pop_front();
            self.data.trimmed += 1;
        }
        let end = self.stream_end();
        if self.earlier.back().is_none_or(|(_, data)| data.trimmed + data.stream.len() != end) {
            self.earlier.push_back((now, self.data.clone()));
        }
        while self.earlier.get(1).is_some_and(|(at, _)| *at + LOST <= now) {
            self.earlier.pop_front();
        }
    }

    /// Joins an update of a node of this version. An earlier version does not change the record of a later one.
    pub(super) fn apply(&mut self, now: Instant, aor: &[u8], update: &[u8], version: u8) {
        let now_ms = self.now_ms(now);
        let update = Update::read(update).expect("a node writes valid updates");
        let by = UpdateId { node: update.node, incarnation: update.incarnation, number: update.number };
        let new = || User { registrations: Registrations::default(), by, version };
        let user = self.data.users.entry(aor.to_vec()).or_insert_with(new);
        if user.version > version && user.registrations.entries(now_ms).next().is_some() {
            return;
        }
        user.registrations.apply(&update, now_ms);
        (user.by, user.version) = (by, version);
        let mut record = Vec::new();
        user.registrations.write_record(&by, now_ms, &mut record);
        record[0] = version;
        self.data.stream.push_back((now, aor.to_vec(), record));
    }

    /// Position after the last entry of the stream.
    pub(super) fn stream_end(&self) -> usize {
        self.data.trimmed + self.data.stream.len()
    }

    /// Entries of the stream from a position; `None`: some of them were trimmed.
    pub(super) fn stream_from(&self, position: usize) -> Option<impl Iterator<Item = (&Vec<u8>, &Vec<u8>)>> {
        let skipped = position.checked_sub(self.data.trimmed)?;
        Some(self.data.stream.iter().skip(skipped).map(|(_, aor, record)| (aor, record)))
    }

    /// Users with bindings.
    pub(super) fn aors(&self) -> impl Iterator<Item = &Vec<u8>> {
        let has_bindings = |(_, user): &(&Vec<u8>, &User)| !user.registrations.is_empty();
        self.data.users.iter().filter(has_bindings).map(|(aor, _)| aor)
    }

    /// Record of a user as it is looked up by `reader`: it answers the reader's last update if that led to it.
    pub(super) fn look_up(&self, now: Instant, aor: &[u8], reader: (NodeName, u64)) -> Vec<u8> {
        let mut record = Vec::new();
        let now_ms = self.now_ms(now);
        match self.data.users.get(aor) {
            None => {
                let none = UpdateId { node: reader.0, incarnation: reader.1, number: 0 };
                Registrations::default().write_record(&none, now_ms, &mut record);
            }
            Some(User { registrations, by, version }) => {
                let number = if (by.node, by.incarnation) == reader { by.number } else { 0 };
                registrations.write_record(&UpdateId { number, ..*by }, now_ms, &mut record);
                record[0] = *version;
            }
        }
        record
    }

    /// All bindings.
    pub(super) fn all(&self, now: Instant) -> Vec<Stored> {
        let now_ms = self.now_ms(now);
        let of_user = |(aor, user): (&Vec<u8>, &User)| {
            let stored = user.registrations.entries(now_ms).map(|entry| {
                let left = Duration::from_millis(entry.expires_at_ms.saturating_sub(now_ms));
                ((aor.clone(), entry.id.0, entry.node), left)
            });
            stored.collect::<Vec<_>>()
        };
        self.data.users.iter().flat_map(of_user).collect()
    }
}

/// Difference of the store's clock from that of the simulation.
const CLOCK_AHEAD: Duration = Duration::from_secs(30);
/// Changes that a failover loses.
const LOST: Duration = Duration::from_secs(1);
/// Age of the oldest entry of the stream.
const STREAM_AGE_MAX: Duration = Duration::from_secs(900);

//! The store that nodes share, as a model: the rule of `ringway_location`, a stream of records, faults.

use ringway_location::{NodeName, Registrations, Update};
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
}

#[derive(Clone, Default)]
struct Data {
    registrations: BTreeMap<Vec<u8>, Registrations>,
    /// Addresses-of-record and records.
    stream: Vec<(Vec<u8>, Vec<u8>)>,
    /// Number of entries of the stream that are gone.
    trimmed: usize,
}

/// Binding, by address-of-record, identity and node, and the time that it has left.
pub(super) type Stored = ((Vec<u8>, [u8; 16], NodeName), Duration);

impl Store {
    pub(super) fn new() -> Self {
        let (data, earlier) = (Data::default(), VecDeque::new());
        Self { state: StoreState::Up, ahead: CLOCK_AHEAD, generation: 0, data, earlier }
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
        self.data.trimmed = self.data.stream.len();
    }

    /// True if the entries from a position on are there.
    pub(super) fn has_from(&self, position: usize) -> bool {
        position >= self.data.trimmed
    }

    /// Notes its data, for a failover.
    pub(super) fn note(&mut self, now: Instant) {
        if self.earlier.back().is_none_or(|(at, _)| *at + LOST / 10 <= now) {
            self.earlier.push_back((now, self.data.clone()));
        }
        while self.earlier.get(1).is_some_and(|(at, _)| *at + LOST <= now) {
            self.earlier.pop_front();
        }
    }

    pub(super) fn apply(&mut self, now: Instant, aor: &[u8], update: &[u8]) {
        let now_ms = self.now_ms(now);
        let update = Update::read(update).expect("a node writes valid updates");
        let registrations = self.data.registrations.entry(aor.to_vec()).or_default();
        registrations.apply(&update, now_ms);
        let mut record = Vec::new();
        registrations.write_record((&update.node, update.incarnation, update.number), now_ms, &mut record);
        self.data.stream.push((aor.to_vec(), record));
    }

    pub(super) fn stream_len(&self) -> usize {
        self.data.stream.len()
    }

    pub(super) fn stream_from(&self, position: usize) -> &[(Vec<u8>, Vec<u8>)] {
        self.data.stream.get(position..).unwrap_or_default()
    }

    /// Users with bindings.
    pub(super) fn aors(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.data
            .registrations
            .iter()
            .filter(|(_, registrations)| !registrations.is_empty())
            .map(|(aor, _)| aor)
    }

    /// Record of a user as it is looked up by `reader`.
    pub(super) fn look_up(&self, now: Instant, aor: &[u8], reader: (&NodeName, u64)) -> Vec<u8> {
        let mut record = Vec::new();
        let registrations = self.data.registrations.get(aor).cloned().unwrap_or_default();
        registrations.write_record((reader.0, reader.1, 0), self.now_ms(now), &mut record);
        record
    }

    /// All bindings.
    pub(super) fn all(&self, now: Instant) -> Vec<Stored> {
        let now_ms = self.now_ms(now);
        let of_user = |(aor, registrations): (&Vec<u8>, &Registrations)| {
            let stored = registrations.entries(now_ms).map(|entry| {
                let left = Duration::from_millis(entry.expires_at_ms.saturating_sub(now_ms));
                ((aor.clone(), entry.id.0, entry.node), left)
            });
            stored.collect::<Vec<_>>()
        };
        self.data.registrations.iter().flat_map(of_user).collect()
    }
}

/// Difference of the store's clock from those of the nodes.
const CLOCK_AHEAD: Duration = Duration::from_secs(30);
/// Changes that a failover loses.
const LOST: Duration = Duration::from_secs(1);

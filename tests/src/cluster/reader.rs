//! Reader of the store at a node: the news of the stream, all records at the start and after losses, lookups.

use super::store::Store;
use ringway_location::NodeName;
use ringway_sansio::{Instant, Rng};
use ringway_server::{Aor, Hold};
use std::collections::VecDeque;
use std::time::Duration;

pub(super) struct Reader {
    hold: Hold,
    /// Position in the stream; `None`: nothing was read.
    position: Option<usize>,
    generation: u32,
    /// Time at which a loss of the store is noticed.
    notices_at: Option<Instant>,
    is_connected: bool,
    /// Users whose records are still to be read; `None`: all were.
    walk: Option<Vec<Vec<u8>>>,
    page_at: Instant,
    /// On their way, with the time of their arrival.
    deliveries: VecDeque<(Instant, Delivery)>,
}

pub(super) enum Delivery {
    Record {
        aor: Vec<u8>,
        record: Vec<u8>,
    },
    /// A lookup is over.
    Located {
        aor: Vec<u8>,
        query: u64,
    },
    /// All records were delivered.
    Warm,
    /// Records were missed: the walk begins.
    Behind,
}

impl Reader {
    pub(super) fn new(hold: Hold) -> Self {
        Self {
            hold,
            position: None,
            generation: 0,
            notices_at: None,
            is_connected: false,
            walk: None,
            page_at: Instant::default(),
            deliveries: VecDeque::new(),
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.is_connected = false;
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.deliveries.is_empty() && self.notices_at.is_none()
    }

    /// Next delivery that arrived.
    pub(super) fn take(&mut self, now: Instant) -> Option<Delivery> {
        let is_due = self.deliveries.front().is_some_and(|(at, _)| *at <= now);
        if is_due { self.deliveries.pop_front().map(|(_, delivery)| delivery) } else { None }
    }

    /// Reads what is new in the store. `held` are the users that the node has. True: the node writes its bindings again.
    pub(super) fn read(
        &mut self,
        store: &Store,
        (now, rng): (Instant, &mut Rng),
        node: (NodeName, u64),
        held: impl Fn() -> Vec<Vec<u8>>,
    ) -> bool {
        if self.generation != store.generation && self.position.is_some() {
            self.notices_at.get_or_insert(now + Duration::from_millis(rng.below(NOTICED_MS)));
        }
        let is_lost = self.notices_at.is_some_and(|at| at <= now);
        let position = self.position.unwrap_or_default().min(store.stream_end());
        let news = store.stream_from(position).filter(|_| self.position.is_some() && !is_lost);
        let has_missed = news.is_none();
        let mut shares_again = is_lost;
        for (aor, record) in news.into_iter().flatten() {
            let record = Delivery::Record { aor: aor.clone(), record: record.clone() };
            self.deliver((now, rng), record);
        }
        if has_missed {
            // The first time too: the answer to an update may be in front of the position.
            shares_again |= self.position.is_none() || self.walk.is_none();
            self.notices_at = None;
            self.generation = store.generation;
            if self.hold == Hold::All {
                self.deliver((now, rng), Delivery::Behind);
                self.walk = Some(held());
            }
        }
        if has_missed || !self.is_connected {
            // A walk that was interrupted begins again.
            if let Some(walk) = &mut self.walk {
                walk.extend(store.aors().cloned());
                walk.sort();
                walk.dedup();
            }
        }
        (self.position, self.is_connected) = (Some(store.stream_end()), true);
        self.read_page(store, (now, rng), node);
        shares_again
    }

    /// Looks up a user.
    pub(super) fn look_up(
        &mut self,
        store: &Store,
        (now, rng): (Instant, &mut Rng),
        node: (NodeName, u64),
        (query, aor): (u64, &Aor),
    ) {
        let aor = aor.as_bytes().to_vec();
        let record = store.look_up(now, &aor, node);
        self.deliver((now, rng), Delivery::Record { aor: aor.clone(), record });
        self.deliver((now, rng), Delivery::Located { aor, query });
    }

    fn read_page(&mut self, store: &Store, (now, rng): (Instant, &mut Rng), node: (NodeName, u64)) {
        let Some(walk) = self.walk.as_mut().filter(|_| self.page_at <= now) else { return };
        self.page_at = now + Duration::from_millis(rng.below(PAGE_MS));
        let record = walk.pop().map(|aor| {
            let record = store.look_up(now, &aor, node);
            Delivery::Record { aor, record }
        });
        match record {
            Some(record) => self.deliver((now, rng), record),
            None => {
                self.walk = None;
                self.deliver((now, rng), Delivery::Warm);
            }
        }
    }

    /// Deliveries arrive in their order.
    fn deliver(&mut self, (now, rng): (Instant, &mut Rng), delivery: Delivery) {
        let at = now + latency(rng);
        let last = self.deliveries.back().map_or(at, |(last, _)| *last);
        self.deliveries.push_back((at.max(last), delivery));
    }
}

/// Time of a message between a node and the store.
pub(super) fn latency(rng: &mut Rng) -> Duration {
    Duration::from_millis(1 + rng.below(20))
}

/// Maximum time in milliseconds until a loss of the store is noticed.
const NOTICED_MS: u64 = 1000;
/// Maximum time in milliseconds between two pages of a walk.
const PAGE_MS: u64 = 500;

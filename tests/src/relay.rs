//! Scripted media relay of the server: slow, silent or refusing at random, and it notes which calls it has.

use ringway_sansio::{Event, RelayCall, RelayId, RelayKind, RelayRequest, RelayResult, Rng, Seed};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Media relay; all clones are the same one.
#[derive(Clone)]
pub(crate) struct Relay(Rc<RefCell<State>>);

struct State {
    random: Rng,
    calls: BTreeSet<RelayCall>,
    begun: usize,
}

impl Relay {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self(Rc::new(RefCell::new(State { random: Rng::new(seed), calls: BTreeSet::new(), begun: 0 })))
    }

    /// Executes a request; returns its result and the time after which it comes. A request that fails may have begun its
    /// call nevertheless.
    pub(crate) fn execute(&self, query: u64, request: &RelayRequest) -> Option<(Duration, Event)> {
        let mut state = self.0.borrow_mut();
        if request.kind == RelayKind::Delete {
            state.calls.remove(&request.call);
            return None;
        }
        if request.kind == RelayKind::Offer && !state.random.random_bool(REFUSED_PER_MILLE) {
            state.begun += usize::from(state.calls.insert(request.call));
        }
        if state.random.random_bool(SILENT_PER_MILLE) {
            return None;
        }
        let result = (!state.random.random_bool(REFUSED_PER_MILLE))
            .then(|| RelayResult { relay: RelayId(1), sdp: request.sdp.clone() });
        let after = Duration::from_millis(state.random.below(TIME_MS_MAX));
        Some((after, Event::Relayed { query, result }))
    }

    /// Number of calls that it has, and of those that were begun.
    pub(crate) fn calls(&self) -> (usize, usize) {
        let state = self.0.borrow();
        (state.calls.len(), state.begun)
    }
}

const REFUSED_PER_MILLE: u32 = 50;
const SILENT_PER_MILLE: u32 = 50;
/// More than the time limit of a request.
const TIME_MS_MAX: u64 = 3000;

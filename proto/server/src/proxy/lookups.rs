//! DNS lookups of forwarded requests, and requests to media relays.

use super::targets::StoredTarget;
use crate::Action;
use crate::base::{BranchId, Grant};
use crate::dialog::route::HostName;
use alloc::boxed::Box;
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Context, Flow, Instant, NumberTarget, RelayRequest, Seed, TableSize, Wheel};
use ringway_sip::Message;
use ringway_transaction::MatchKey;

/// Purpose of a lookup.
#[derive(Debug)]
pub(super) enum Lookup {
    /// Branch of a statefully forwarded request.
    Branch(BranchId),
    /// Statelessly forwarded request.
    Stateless(Box<Waiting>),
    /// Number that a statefully forwarded request is for, instead of its only branch.
    Number(BranchId),
    /// SDP of a branch, at a media relay; the branch is then sent over this flow.
    Offer(BranchId, Flow),
    /// No lookup: the branch is sent again over this flow after a pause.
    Pause(BranchId, Flow),
    /// SDP of a response, at a media relay.
    Answer(Box<StoredResponse>),
}

impl Lookup {
    /// Bytes of a message that waits without reserved memory.
    fn waiting_bytes(&self) -> Option<usize> {
        match self {
            Self::Stateless(waiting) => Some(waiting.bytes_len()),
            Self::Answer(stored) => Some(stored.bytes.len()),
            Self::Branch(_) | Self::Number(_) | Self::Offer(..) | Self::Pause(..) => None,
        }
    }
}

/// Response that waits for the SDP of a relay.
#[derive(Debug)]
pub(super) struct StoredResponse {
    pub(super) branch: BranchId,
    pub(super) bytes: Box<[u8]>,
    pub(super) status: u16,
    pub(super) flow: Flow,
    pub(super) sent_to: Option<Flow>,
}

/// Statelessly forwarded request with a pending lookup of its target.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Box<[u8]>,
    pub(super) source: Flow,
    pub(super) key: Option<MatchKey>,
    pub(super) grant: Grant,
    pub(super) target: StoredTarget,
}

impl Waiting {
    /// Length of the request.
    const fn bytes_len(&self) -> usize {
        self.request.len()
    }
}

/// Pending lookups, by query number. Peers do not choose the numbers.
#[derive(Debug)]
pub(crate) struct Lookups {
    queries: HashMap<u64, Lookup, SeededHash>,
    next_query: u64,
    /// One entry for each lookup, because its result may be lost.
    pub(super) deadlines: Wheel<u64>,
    /// Number of [`Lookup::Stateless`] and [`Lookup::Answer`].
    waiting: usize,
    /// Bytes of their messages.
    waiting_bytes: usize,
}

impl Lookups {
    /// Maximum number of stateless requests and responses with a pending lookup.
    const WAITING_MAX: usize = 1024;
    /// Maximum number of their bytes.
    const WAITING_BYTES_MAX: usize = 4 << 20;
    /// Maximum duration of a lookup; the driver answers earlier, unless the result is lost.
    const DURATION_MAX: Duration = Duration::from_secs(10);

    pub(super) fn new(seed: &Seed, now: Instant) -> Self {
        Self {
            queries: HashMap::with_hasher(SeededHash::new(seed)),
            next_query: 1,
            deadlines: Wheel::new(now),
            waiting: 0,
            waiting_bytes: 0,
        }
    }

    /// Memory of messages that wait without booked memory.
    pub(crate) const fn size() -> TableSize {
        TableSize::of_bytes("messages that wait for an address", Self::WAITING_MAX, Self::WAITING_BYTES_MAX)
            .with_each(if size_of::<StoredResponse>() > size_of::<Waiting>() {
                size_of::<StoredResponse>()
            } else {
                size_of::<Waiting>()
            })
            .with_map(Self::WAITING_MAX, size_of::<(u64, Lookup)>())
            .with_bytes(Wheel::<u64>::bytes_of(Self::WAITING_MAX))
    }

    /// Creates it full of responses that wait for a relay.
    #[cfg(feature = "operator")]
    pub(crate) fn filled(seed: &Seed, now: Instant) -> Self {
        let mut lookups = Self::new(seed, now);
        let bytes = Self::WAITING_BYTES_MAX / Self::WAITING_MAX;
        let flow =
            Flow::udp(ringway_sansio::ListenerId(0), core::net::SocketAddr::from(([192, 0, 2, 1], 5060)));
        let branch = BranchId::new(ringway_transaction::SlabKey { index: 0, generation: 1 }, 0);
        for query in 0..2 * Self::WAITING_MAX as u64 {
            if lookups.has_room(bytes) {
                let bytes = alloc::vec![0; bytes].into();
                let stored = StoredResponse { branch, bytes, status: 200, flow, sent_to: Some(flow) };
                lookups.insert(now + Self::DURATION_MAX, query, Lookup::Answer(Box::new(stored)));
            }
        }
        lookups
    }

    /// True if one more stateless request or response of `bytes` bytes may wait. Stateful ones have reserved memory.
    pub(super) const fn has_room(&self, bytes: usize) -> bool {
        self.waiting < Self::WAITING_MAX && self.waiting_bytes + bytes <= Self::WAITING_BYTES_MAX
    }

    /// Requests a lookup for a request of `source`, if a peer caused it; returns its query number. Retransmissions have the
    /// same Call-ID, and so the same server, also without state (RFC 3263 §4.4).
    pub(super) fn start(
        &mut self,
        cx: &mut Context<'_, Action>,
        host: HostName<'_>,
        message: &Message<'_>,
        source: Option<IpAddr>,
        lookup: Lookup,
    ) -> u64 {
        let draw = self.queries.hasher().hash_one(message.call_id());
        let target = host.target(draw, source);
        let query = self.next_query;
        self.next_query += 1;
        self.insert(cx.now + Self::DURATION_MAX, query, lookup);
        cx.actions.push(Action::Resolve { query, target });
        query
    }

    /// Requests the lookup of a number; returns its query number.
    pub(super) fn start_number(
        &mut self,
        cx: &mut Context<'_, Action>,
        target: NumberTarget,
        id: BranchId,
    ) -> u64 {
        let query = self.next_query;
        self.next_query += 1;
        self.insert(cx.now + Self::DURATION_MAX, query, Lookup::Number(id));
        cx.actions.push(Action::ResolveNumber { query, target });
        query
    }

    /// Sends a request to a media relay, which ends at `until`; returns its query number.
    pub(super) fn start_relay(
        &mut self,
        cx: &mut Context<'_, Action>,
        until: Instant,
        lookup: Lookup,
        request: RelayRequest,
    ) -> u64 {
        let query = self.next_query;
        self.next_query += 1;
        self.insert(until, query, lookup);
        cx.actions.push(Action::Relay { query, request });
        query
    }

    /// Begins a pause that ends at `until`; returns its query number.
    pub(super) fn pause(&mut self, until: Instant, id: BranchId, flow: Flow) -> u64 {
        let query = self.next_query;
        self.next_query += 1;
        self.insert(until, query, Lookup::Pause(id, flow));
        query
    }

    /// Random number for the next query.
    pub(super) fn random(&self) -> u64 {
        self.queries.hasher().hash_one(("relay", self.next_query))
    }

    fn insert(&mut self, until: Instant, query: u64, lookup: Lookup) {
        if let Some(bytes) = lookup.waiting_bytes() {
            self.waiting += 1;
            self.waiting_bytes += bytes;
        }
        self.deadlines.arm(until, query);
        self.queries.insert(query, lookup);
    }

    /// Ends a lookup; `None` if it ended before.
    pub(super) fn end(&mut self, query: u64) -> Option<Lookup> {
        let lookup = self.queries.remove(&query)?;
        if let Some(bytes) = lookup.waiting_bytes() {
            self.waiting -= 1;
            self.waiting_bytes -= bytes;
        }
        Some(lookup)
    }
}

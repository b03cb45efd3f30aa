//! Calls at the relays: who they count for, and which relays may have them.

use alloc::collections::BTreeMap;
use hashbrown::HashMap;
use ringway_sansio::{Instant, RelayCall, RelayHolder, TableSize, TimerKey, source_of};
use siphasher::sip::SipHasher13;

/// Set of relays, a bit for each index.
pub(crate) type Indices = u16;

/// Calls that were begun or changed lately, with limits on the streams of their holders.
///
/// A call counts until it is deleted, or some minutes after its last change: its end may pass by another way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Peers do not choose their names.
    calls: HashMap<RelayCall, Call, core::hash::BuildHasherDefault<SipHasher13>>,
    /// Streams of each holder that has some, without those of trusted peers.
    held: BTreeMap<RelayHolder, usize>,
    /// Streams of all strangers.
    of_strangers: usize,
}

#[derive(Debug)]
struct Call {
    holder: RelayHolder,
    streams: usize,
    /// Relays that may have it.
    relays: Indices,
    /// Number of its offers and answers that are not answered.
    pending: usize,
    /// True: it is deleted when none is pending.
    is_deleted: bool,
    until: Instant,
    timer: TimerKey,
}

/// Offer that asks for admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) call: RelayCall,
    pub(crate) holder: RelayHolder,
    pub(crate) streams: usize,
    /// False: it changes a call.
    pub(crate) begins: bool,
    /// Time until which the call counts.
    pub(crate) until: Instant,
}

/// Effect of a request to delete a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// The relays that may have it are to delete it; its timer is to be cancelled.
    Now(Indices, TimerKey),
    /// It is deleted after the requests that are pending.
    Later,
    /// The call is not known.
    Unknown,
}

impl Calls {
    /// Maximum number of calls that count.
    pub(crate) const CALLS_MAX: usize = 65_536;

    /// Memory of the calls and their holders.
    pub(crate) const fn bytes_max() -> u64 {
        let holders = TableSize::of_tree("", Self::CALLS_MAX, size_of::<(RelayHolder, usize)>());
        holders.with_map(Self::CALLS_MAX, size_of::<(RelayCall, Call)>()).bytes
    }

    /// Counts an offer; false if a limit is reached. A call of a user or of a trusted peer beyond [`Calls::CALLS_MAX`] does not
    /// count.
    pub(crate) fn admit(&mut self, offer: Admission) -> bool {
        let known = self.calls.get(&offer.call);
        let holder = known.map_or(holder_of(offer.holder), |call| call.holder);
        let added = offer.streams.saturating_sub(known.map_or(0, |call| call.streams));
        let is_tracked = known.is_some() || self.calls.len() < Self::CALLS_MAX;
        let is_stranger = matches!(holder, RelayHolder::Stranger(_));
        if !self.has_room(holder, added, offer.begins) || (is_stranger && !is_tracked) {
            return false;
        }
        if !is_tracked {
            return true;
        }
        self.add(holder, added);
        let call = self.calls.entry(offer.call).or_insert(Call {
            holder,
            streams: 0,
            relays: 0,
            pending: 0,
            is_deleted: false,
            until: offer.until,
            timer: TimerKey::NONE,
        });
        call.streams += added;
        call.until = offer.until;
        true
    }

    /// Notes a request for a call, after its admission. Returns true if the call has no timer yet.
    pub(crate) fn begin(&mut self, call: RelayCall) -> bool {
        let Some(call) = self.calls.get_mut(&call) else { return false };
        call.pending += 1;
        call.timer == TimerKey::NONE
    }

    pub(crate) fn set_timer(&mut self, call: RelayCall, timer: TimerKey) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.timer = timer;
        }
    }

    /// Notes that a relay may have a call.
    pub(crate) fn add_relay(&mut self, call: RelayCall, relay: usize) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.relays |= 1 << relay;
        }
    }

    /// Handles the end of an offer or answer. Returns the relays that may have the call and are to delete it, and its timer
    /// if it is not known any more. `has`: the relay that has it from now on; `keeps` is false if no relay is to have it.
    pub(crate) fn settle(&mut self, name: RelayCall, has: Option<usize>, keeps: bool) -> (Indices, TimerKey) {
        let Some(call) = self.calls.get_mut(&name) else { return (0, TimerKey::NONE) };
        call.pending = call.pending.saturating_sub(1);
        if call.pending == 0 && (call.is_deleted || (has.is_none() && !keeps)) {
            return self.remove(name).map_or((0, TimerKey::NONE), |call| (call.relays, call.timer));
        }
        let has = has.map_or(call.relays, |relay| 1 << relay);
        (core::mem::replace(&mut call.relays, has) & !has, TimerKey::NONE)
    }

    /// Deletes a call, at once or after the requests that are pending: a relay may execute requests in another order.
    pub(crate) fn delete(&mut self, name: RelayCall) -> Deletion {
        match self.calls.get_mut(&name) {
            Some(call) if call.pending > 0 => {
                call.is_deleted = true;
                Deletion::Later
            }
            Some(_) => match self.remove(name) {
                Some(call) => Deletion::Now(call.relays, call.timer),
                None => Deletion::Unknown,
            },
            None => Deletion::Unknown,
        }
    }

    /// Forgets a call whose time is over. Returns its time if that is later.
    pub(crate) fn expire(&mut self, now: Instant, name: RelayCall) -> Option<Instant> {
        let call = self.calls.get(&name)?;
        match call.until.max(now) {
            until if until > now => Some(until),
            _ if call.pending > 0 => Some(now + PENDING_TIME),
            _ => {
                self.remove(name);
                None
            }
        }
    }

    /// Number of calls that count.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    fn has_room(&self, holder: RelayHolder, added: usize, begins: bool) -> bool {
        // A change that fails may leave a call without sound.
        let factor = if begins { 1 } else { CHANGES_FACTOR };
        let held = self.held.get(&holder).map_or(0, |streams| *streams) + added;
        match holder {
            RelayHolder::Trusted => true,
            RelayHolder::User(_) => held <= USER_STREAMS_MAX * factor,
            RelayHolder::Stranger(_) => {
                held <= STRANGER_STREAMS_MAX * factor
                    && self.of_strangers + added <= STRANGERS_STREAMS_MAX * factor
            }
        }
    }

    fn add(&mut self, holder: RelayHolder, streams: usize) {
        match holder {
            RelayHolder::Trusted => return,
            RelayHolder::User(_) => {}
            RelayHolder::Stranger(_) => self.of_strangers += streams,
        }
        *self.held.entry(holder).or_default() += streams;
    }

    fn remove(&mut self, name: RelayCall) -> Option<Call> {
        let call = self.calls.remove(&name)?;
        if let RelayHolder::Stranger(_) = call.holder {
            self.of_strangers -= call.streams;
        }
        if let Some(held) = self.held.get_mut(&call.holder) {
            *held -= call.streams;
            if *held == 0 {
                self.held.remove(&call.holder);
            }
        }
        Some(call)
    }
}

/// Holder that limits count: an IPv6 network is one source.
fn holder_of(holder: RelayHolder) -> RelayHolder {
    match holder {
        RelayHolder::Stranger(source) => RelayHolder::Stranger(source_of(source)),
        RelayHolder::Trusted | RelayHolder::User(_) => holder,
    }
}

/// Number of media streams that an SDP counts as, at least 1.
pub(crate) fn streams_of(sdp: &[u8]) -> usize {
    let lines = sdp.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.filter(|line| line.starts_with(b"m=")).count().max(1)
}

/// Maximum number of streams of the calls of one source without a password.
pub const STRANGER_STREAMS_MAX: usize = 32;
/// Maximum number of streams of the calls of all of these.
pub const STRANGERS_STREAMS_MAX: usize = 512;
/// Maximum number of streams of the calls of a user.
pub const USER_STREAMS_MAX: usize = 128;
/// Changes of calls are refused at this multiple of the limits.
const CHANGES_FACTOR: usize = 4;
/// Time after which a call with a pending request is examined again.
const PENDING_TIME: core::time::Duration = core::time::Duration::from_secs(10);

//! Changes of a REGISTER to the bindings of one address-of-record (RFC 3261 §10.3 step 7).

use super::binding::{Binding, BindingKey, Bindings, FlowKey, Kind, Terms, Text, entry_id};
use super::owner::{Owner, RegisteredAt};
use super::record;
use crate::StoreFailed;
use ringway_location::EntryId;
use ringway_sansio::{Flow, Instant, PlantedFault};
use ringway_sip::Uri;
use smallvec::SmallVec;

/// Change of one binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) contact: Uri<'a>,
    pub(crate) text: Text<'a>,
    pub(crate) q: u16,
    /// `None`: the binding is removed.
    pub(crate) expires: Option<Instant>,
    pub(crate) kind: Kind,
    /// Instance and reg-id, if outbound applies (RFC 5626 §6).
    pub(crate) flow_key: Option<FlowKey<'a>>,
}

impl Change<'_> {
    /// True if both are for the same binding.
    fn is_for_same(&self, other: &Change<'_>) -> bool {
        match (&self.flow_key, &other.flow_key) {
            (Some(key), Some(other)) => key == other,
            (None, None) => self.contact.equals(&other.contact),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// Limits of a user's bindings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) contacts: usize,
    /// See [`Host::record_bytes_max`](crate::Host::record_bytes_max).
    pub(crate) record_bytes: Result<usize, StoreFailed>,
}

/// Reason for changing nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveError {
    /// The phone sent a newer REGISTER before (RFC 3261 §10.3 step 7).
    OutOfOrder,
    /// More contacts than a user may have.
    TooMany,
    /// More flows than an instance may have.
    TooManyFlows,
    /// A contact's text is too long.
    TooLong,
    /// The record is too long for the store.
    TooLarge,
    /// The store cannot write at present.
    StoreFailed,
}

/// Checks the changes before any is applied. `Ok(false)`: a retransmission, or there is nothing to remove.
pub(super) fn check(
    bindings: &[Binding],
    changes: &[Change<'_>],
    cseq: u32,
    now: Instant,
    room: Room,
) -> Result<bool, SaveError> {
    let live = |binding: &Binding| binding.expires > now && !binding.is_permanent();
    let (mut count, mut bytes) = bindings
        .iter()
        .filter(|binding| live(binding))
        .fold((0_usize, 1_usize), |(count, bytes), binding| {
            (count + 1, bytes + record::bytes_of(binding.lengths()))
        });
    if count == 0 && changes.iter().all(|change| change.expires.is_none()) {
        return Ok(false);
    }
    let mut repeated = 0;
    for (number, change) in changes.iter().enumerate() {
        let text = &change.text;
        if text.bytes_len() > Binding::TEXT_BYTES_MAX {
            return Err(SaveError::TooLong);
        }
        let existing = position_of(bindings, change, live).and_then(|index| bindings.get(index));
        if let Some(existing) = existing.filter(|existing| existing.call_id() == text.call_id) {
            if cseq < existing.cseq {
                return Err(SaveError::OutOfOrder);
            }
            repeated += usize::from(cseq == existing.cseq);
        }
        // A contact may occur twice in one request: then the first occurrence decides if it exists.
        let before = changes.get(..number).unwrap_or_default();
        let earlier = before.iter().rev().find(|earlier| earlier.is_for_same(change));
        let is_there = earlier.map_or(existing.is_some(), |earlier| earlier.expires.is_some());
        if is_there {
            let replaced = earlier.map(|earlier| earlier.text.lengths()).or(existing.map(Binding::lengths));
            bytes = bytes.saturating_sub(replaced.map_or(0, record::bytes_of));
        }
        if change.expires.is_some() {
            bytes += record::bytes_of(text.lengths());
        }
        let is_flow_already = existing.is_some_and(|existing| existing.key == BindingKey::Flow);
        if let (Some(key), Some(_), false) = (change.flow_key, change.expires, is_flow_already)
            && flows_of(bindings, key.instance, live) >= FLOWS_MAX
        {
            return Err(SaveError::TooManyFlows);
        }
        match (is_there, change.expires) {
            (false, Some(_)) => count += 1,
            (true, None) => count = count.saturating_sub(1),
            (false, None) | (true, Some(_)) => {}
        }
    }
    if count > room.contacts {
        return Err(SaveError::TooMany);
    }
    match room.record_bytes {
        // A repeated one too: the first may not be durable, and its 200 would wait for the store.
        Err(StoreFailed) => Err(SaveError::StoreFailed),
        Ok(_) if repeated > 0 => Ok(false),
        Ok(max) if count > 0 && bytes > max => Err(SaveError::TooLarge),
        Ok(_) => Ok(true),
    }
}

/// Applies a change; `left` becomes the flow that its binding had until now and has left.
pub(super) fn apply(
    bindings: &mut Bindings,
    change: &Change<'_>,
    cseq: u32,
    flow: Flow,
    now: Instant,
    left: &mut Option<Flow>,
) {
    let index = position_of(bindings, change, |binding| !binding.is_permanent());
    let Some(expires) = change.expires else {
        if let Some(index) = index.filter(|_| !PlantedFault::RemovalIgnored.is_planted()) {
            bindings.remove(index);
        }
        return;
    };
    let key = if change.flow_key.is_some() { BindingKey::Flow } else { BindingKey::Contact };
    let (owner, registered) = (Owner::HERE, RegisteredAt::new(now));
    let terms = Terms { q: change.q, kind: change.kind, key, cseq, expires, owner, registered, flow };
    match index.and_then(|index| bindings.get_mut(index)) {
        Some(_) if PlantedFault::RefreshForgotten.is_planted() => {}
        Some(binding) => {
            if binding.is_over_flow() && binding.flow != flow {
                *left = Some(binding.flow);
            }
            binding.replace(change.text, terms);
        }
        None => {
            if PlantedFault::PhoneReplaced.is_planted() {
                bindings.retain(|binding| binding.is_permanent());
            }
            bindings.extend(Binding::new(change.text, terms));
        }
    }
}

/// Bindings that the changes remove from the store that nodes share, known here or not: a contact that is removed, and one
/// that is replaced under another identity.
pub(super) fn removed_by(bindings: &[Binding], changes: &[Change<'_>]) -> SmallVec<[EntryId; 1]> {
    let mut removed = SmallVec::new();
    for change in changes {
        let id = entry_id(change.text.uri, change.flow_key);
        let known = position_of(bindings, change, |binding| !binding.is_permanent());
        let known = known.and_then(|index| bindings.get(index)).map(Binding::entry_id);
        removed.extend(known.filter(|known| *known != id));
        if change.expires.is_none() {
            removed.push(id);
        }
    }
    removed
}

/// Index of the binding that a change is for, among those that `counts`. A flow replaces the same flow, and a binding of its
/// contact that is not a flow yet; any other contact replaces an equal one (RFC 3261 §19.1.4).
fn position_of(
    bindings: &[Binding],
    change: &Change<'_>,
    counts: impl Fn(&Binding) -> bool,
) -> Option<usize> {
    let is_same = |binding: &Binding| is_contact(binding, &change.contact) && counts(binding);
    let Some(key) = change.flow_key else { return bindings.iter().position(is_same) };
    let is_flow = |binding: &Binding| binding.flow_key() == Some(key) && counts(binding);
    let is_plain = |binding: &Binding| binding.key == BindingKey::Contact && is_same(binding);
    bindings.iter().position(is_flow).or_else(|| bindings.iter().position(is_plain))
}

/// Number of the flows of an instance.
fn flows_of(bindings: &[Binding], instance: &[u8], counts: impl Fn(&Binding) -> bool) -> usize {
    let is_of = |binding: &&Binding| {
        counts(binding) && binding.flow_key().is_some_and(|key| key.instance == instance)
    };
    bindings.iter().filter(is_of).count()
}

/// True if the binding is for this contact.
fn is_contact(binding: &Binding, contact: &Uri<'_>) -> bool {
    binding.uri() == contact.as_bytes() || Uri::parse(binding.uri()).is_ok_and(|uri| uri.equals(contact))
}

/// Maximum number of flows of an instance; RFC 5626 §4.2.1 recommends two.
const FLOWS_MAX: usize = 4;

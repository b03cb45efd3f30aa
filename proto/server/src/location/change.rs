//! Changes of a REGISTER to the bindings of one address-of-record (RFC 3261 §10.3 step 7).

use super::binding::{Binding, Bindings, Kind, Text};
use super::record;
use crate::StoreFailed;
use ringway_sansio::{Flow, Instant};
use ringway_sip::Uri;

/// Change of one binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) contact: Uri<'a>,
    pub(crate) text: Text<'a>,
    pub(crate) q: u16,
    /// `None`: the binding is removed.
    pub(crate) expires: Option<Instant>,
    pub(crate) kind: Kind,
}

/// Limits of a user's bindings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) contacts: usize,
    /// See [`Services::record_bytes_max`](crate::Services::record_bytes_max).
    pub(crate) record_bytes: Result<usize, StoreFailed>,
}

/// Reason for changing nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveError {
    /// The phone sent a newer REGISTER before (RFC 3261 §10.3 step 7).
    OutOfOrder,
    /// More contacts than a user may have.
    TooMany,
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
    let live = |binding: &&Binding| binding.expires > now && !binding.is_permanent();
    let (mut count, mut bytes) =
        bindings.iter().filter(live).fold((0_usize, 1_usize), |(count, bytes), binding| {
            (count + 1, bytes + record::bytes_of(&binding.text()))
        });
    if count == 0 && changes.iter().all(|change| change.expires.is_none()) {
        return Ok(false);
    }
    let mut repeated = 0;
    for (number, change) in changes.iter().enumerate() {
        let text = &change.text;
        if text.uri.len() + text.params.len() + text.call_id.len() > Binding::TEXT_BYTES_MAX {
            return Err(SaveError::TooLong);
        }
        let existing = bindings.iter().filter(live).find(|binding| is_same(binding, &change.contact));
        if let Some(existing) = existing.filter(|existing| existing.text().call_id == text.call_id) {
            if cseq < existing.cseq {
                return Err(SaveError::OutOfOrder);
            }
            repeated += usize::from(cseq == existing.cseq);
        }
        // A contact may occur twice in one request: then the first occurrence decides if it exists.
        let before = changes.get(..number).unwrap_or_default();
        let earlier = before.iter().rev().find(|earlier| earlier.contact.equals(&change.contact));
        let is_there = earlier.map_or(existing.is_some(), |earlier| earlier.expires.is_some());
        if is_there {
            let replaced = earlier.map(|earlier| earlier.text).or(existing.map(Binding::text));
            bytes = bytes.saturating_sub(replaced.map_or(0, |text| record::bytes_of(&text)));
        }
        if change.expires.is_some() {
            bytes += record::bytes_of(text);
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
    if repeated > 0 {
        return Ok(false);
    }
    match room.record_bytes {
        Err(StoreFailed) => Err(SaveError::StoreFailed),
        Ok(max) if count > 0 && bytes > max => Err(SaveError::TooLarge),
        Ok(_) => Ok(true),
    }
}

pub(super) fn apply(bindings: &mut Bindings, change: &Change<'_>, cseq: u32, flow: Flow) {
    let index =
        bindings.iter().position(|binding| !binding.is_permanent() && is_same(binding, &change.contact));
    match (index, change.expires) {
        (Some(index), None) => {
            bindings.remove(index);
        }
        (Some(index), Some(expires)) => {
            if let Some(binding) = bindings.get_mut(index) {
                binding.q = change.q;
                binding.kind = change.kind;
                binding.cseq = cseq;
                binding.expires = expires;
                binding.flow = flow;
                binding.set_text(change.text);
            }
        }
        (None, Some(expires)) => {
            let fresh = Binding::new(change.text, change.q, change.kind, cseq, expires, flow);
            if let Some(fresh) = fresh {
                bindings.push(fresh);
            }
        }
        (None, None) => {}
    }
}

/// True if the binding is for this contact (RFC 3261 §19.1.4).
fn is_same(binding: &Binding, contact: &Uri<'_>) -> bool {
    binding.uri() == contact.as_bytes() || Uri::parse(binding.uri()).is_ok_and(|uri| uri.equals(contact))
}

//! Numbers of connections and associations.
//!
//! A [`ConnectionId`] consists of the owner's number (8 bits), the kind (1 bit), the slot (19 bits) and the slot's generation
//! (36 bits), which begins at a random number: see [`Common::first_use`](crate::shared::Common::first_use).

use ringway_sansio::ConnectionId;

/// Kind of a numbered connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Stream connection.
    Stream,
    /// DTLS association.
    Association,
}

/// Worker that owns a connection.
pub(crate) fn owner_of(connection: ConnectionId) -> usize {
    (connection.0 >> OWNER_SHIFT) as usize
}

pub(crate) const fn kind_of(connection: ConnectionId) -> Kind {
    match connection.0 >> KIND_SHIFT & 1 {
        0 => Kind::Stream,
        _ => Kind::Association,
    }
}

pub(crate) fn id_of(worker: usize, kind: Kind, index: u32, uses: u64) -> ConnectionId {
    let owner = (worker as u64) << OWNER_SHIFT | (kind as u64) << KIND_SHIFT;
    ConnectionId(owner | u64::from(index) << SLOT_SHIFT | uses)
}

/// Slot and generation.
pub(crate) fn parts_of(id: ConnectionId) -> (u32, u64) {
    ((id.0 >> SLOT_SHIFT) as u32 & (SLOTS_MAX as u32 - 1), id.0 & USES_MAX)
}

/// Maximum number of slots of a kind.
pub(crate) const SLOTS_MAX: usize = 1 << (KIND_SHIFT - SLOT_SHIFT);

/// Last generation of a slot.
pub(crate) const USES_MAX: u64 = (1 << SLOT_SHIFT) - 1;

const OWNER_SHIFT: u32 = 56;
const KIND_SHIFT: u32 = 55;
const SLOT_SHIFT: u32 = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_consists_of_owner_kind_slot_and_generation() {
        for (worker, index, uses) in [(0, 0, 1), (254, SLOTS_MAX as u32 - 1, USES_MAX), (3, 77, 12)] {
            for kind in [Kind::Stream, Kind::Association] {
                let id = id_of(worker, kind, index, uses);
                assert_eq!((owner_of(id), kind_of(id), parts_of(id)), (worker, kind, (index, uses)));
            }
        }
    }
}

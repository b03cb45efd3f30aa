//! Way to a side of a dialog: where it is now.

use crate::tables::Way;
use crate::token::Side;

/// Facts about the side that a request is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Side in the mark.
    pub(crate) recorded: Side,
    /// Way to it after its last move.
    pub(crate) moved: Option<Way>,
    /// The mark is older than this process: its connection is none of ours.
    pub(crate) is_from_before: bool,
    /// It is a user whose bindings can be found.
    pub(crate) has_user: bool,
    /// The Request-URI names one phone of that user (RFC 5627).
    pub(crate) is_gruu: bool,
}

/// Chooses the way: the moved side, the recorded flow, the user's binding, the recorded address; `None`: the request does not lead
/// to the side. `leads_to` is true if the next hop of the request is this address, `registered` returns the flow that the phone of
/// a flow has registered with since.
#[inline]
pub(crate) fn current(
    known: &Known,
    leads_to: impl Fn(Side) -> bool,
    registered: impl Fn(Side) -> Option<Side>,
) -> Option<Way> {
    let usable = |side: Side| match side {
        Side::Connection(..) | Side::Address(..) => Some(Way::Side(registered(side).unwrap_or(side))),
        Side::Contact(_) | Side::Named { .. } => leads_to(side).then_some(Way::Side(side)),
    };
    let moved = match known.moved {
        _ if known.is_gruu && known.has_user => Some(Way::User),
        Some(Way::User) => known.has_user.then_some(Way::User),
        Some(Way::Side(side)) => usable(side),
        None => None,
    };
    moved.or_else(|| match known.recorded {
        Side::Connection(..) if known.is_from_before && known.has_user => Some(Way::User),
        Side::Connection(_, _, target) if known.is_from_before => usable(Side::Contact(target)),
        recorded => usable(recorded),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::TargetHash;
    use ringway_sansio::{ConnectionId, ListenerId};

    const KEY: [u8; 16] = [7; 16];

    fn contact(port: u16) -> Side {
        let flow = ringway_sansio::Flow::udp(ListenerId(0), ([192, 0, 2, 1], port).into());
        Side::Contact(TargetHash::of_flow(&KEY, &flow))
    }

    fn connection(number: u64) -> Side {
        Side::Connection(ConnectionId(number), ListenerId(1), contact(1).target())
    }

    fn address(port: u16) -> Side {
        Side::Address(ListenerId(0), ([192, 0, 2, 9], port).into())
    }

    /// Recorded side, moved side; from before the start, a user of ours, a GRUU; end of the Request-URI's way; the chosen way.
    type Row = (&'static str, Side, Option<Way>, [bool; 3], Side, Option<Way>);

    #[test]
    fn a_side_is_found_in_this_order() {
        use Way::{Side as To, User};
        let (old, new) = (contact(1), contact(2));
        let nowhere = contact(99);
        let rows: &[Row] = &[
            ("its address", old, None, [false, true, false], old, Some(To(old))),
            ("another address", old, None, [false, true, false], new, None),
            ("moved, and known there", old, Some(To(new)), [false, false, false], new, Some(To(new))),
            ("moved, not known yet", old, Some(To(new)), [false, false, false], old, Some(To(old))),
            ("moved, and elsewhere", old, Some(To(new)), [false, true, false], nowhere, None),
            ("moved to a flow", old, Some(To(address(5))), [false, false, false], old, Some(To(address(5)))),
            ("its flow", connection(1), None, [false, true, false], nowhere, Some(To(connection(1)))),
            ("datagrams", address(5), None, [true, false, false], nowhere, Some(To(address(5)))),
            (
                "moved flow",
                address(5),
                Some(To(connection(2))),
                [false, true, false],
                old,
                Some(To(connection(2))),
            ),
            ("left flow", address(7), None, [false, true, false], old, Some(To(address(8)))),
            (
                "left after it moved",
                old,
                Some(To(address(7))),
                [false, true, false],
                old,
                Some(To(address(8))),
            ),
            ("lost before, user", connection(1), None, [true, true, false], nowhere, Some(User)),
            ("lost before, user with address", connection(1), None, [true, true, false], old, Some(User)),
            ("lost before, stranger", connection(1), None, [true, false, false], old, Some(To(old))),
            ("lost before, elsewhere", connection(1), None, [true, false, false], nowhere, None),
            ("found by its user before", connection(1), Some(User), [false, true, false], old, Some(User)),
            (
                "no user any more",
                connection(1),
                Some(User),
                [false, false, false],
                old,
                Some(To(connection(1))),
            ),
            ("GRUU", connection(1), None, [false, true, true], nowhere, Some(User)),
            ("GRUU of a moved one", old, Some(To(new)), [false, true, true], nowhere, Some(User)),
            ("GRUU of nobody", connection(1), None, [false, false, true], nowhere, Some(To(connection(1)))),
        ];
        for &(what, recorded, moved, [is_from_before, has_user, is_gruu], leads, expected) in rows {
            let known = Known { recorded, moved, is_from_before, has_user, is_gruu };
            let registered = |side| (side == address(7)).then(|| address(8));
            assert_eq!(current(&known, |side| side == leads, registered), expected, "{what}");
        }
    }
}

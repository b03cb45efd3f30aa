//! Tokens of epoll (player, socket or connection), and the input of a generator from its sockets.

use ringway_sansio::{IcmpError, Received};
use ringway_transaction::SlabKey;

/// Descriptor of a player that epoll watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Datagram socket or listening socket.
    Socket(usize),
    /// Connection.
    Connection(SlabKey),
}

/// Token of a descriptor of the player with number `player`.
pub(crate) fn token(player: u8, place: Place) -> u64 {
    let low = match place {
        Place::Socket(index) => index as u64 & u64::from(u32::MAX),
        Place::Connection(key) => {
            CONNECTION | u64::from(key.generation & 0xffff) << 32 | u64::from(key.index)
        }
    };
    u64::from(player) << PLAYER_SHIFT | low
}

/// Number of the player and descriptor of a token.
pub(crate) fn read_token(token: u64) -> (u8, Place) {
    let index = token as u32;
    let place = match token & CONNECTION {
        0 => Place::Socket(index as usize),
        _ => Place::Connection(SlabKey { index, generation: (token >> 32) as u32 & 0xffff }),
    };
    ((token >> PLAYER_SHIFT) as u8, place)
}

const PLAYER_SHIFT: u32 = 56;
const CONNECTION: u64 = 1 << 55;

/// Input of a generator from its sockets.
pub(crate) enum Input<'a> {
    /// Message of a peer.
    Message(Received<'a>),
    /// ICMP error for a datagram of the generator.
    Icmp(IcmpError<'a>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back() {
        let key = SlabKey { index: u32::MAX, generation: 0xffff };
        for (player, place) in [(0, Place::Socket(255)), (1, Place::Connection(key)), (255, Place::Socket(0))]
        {
            assert_eq!(read_token(token(player, place)), (player, place));
        }
    }
}

//! TFTP on a link that loses, duplicates and reorders, among strangers.

use std::net::SocketAddrV4;
use std::time::Duration;

use ringway_test_support::tftp::{RepeatedAck, Sent, TftpServer, UNKNOWN_TRANSFER, data, error};

use super::frames::{HOST, MACHINE};

/// A server, and what happens to its troubled file on the way.
pub(super) struct TftpLink {
    pub(super) server: TftpServer,
    /// Everything comes twice, the block before once more after each block, and strangers send blocks and errors.
    pub(super) is_bad: bool,
    /// Blocks that are lost when they are sent first; 0: the answer to the options.
    pub(super) lost: Vec<u16>,
    /// Errors that the machine sent to strangers (RFC 1350 §4).
    pub(super) strangers_answered: u32,
    /// The last block of the troubled file, and the one before.
    last: Vec<u8>,
    before: Vec<u8>,
}

/// A datagram to the machine: sender, port of the machine, payload.
pub(super) type Datagram = (SocketAddrV4, u16, Vec<u8>);

impl TftpLink {
    /// A good link to a server that does not retransmit blocks, whose files have many of them.
    pub(super) fn to(server: TftpServer) -> Self {
        Self {
            server: TftpServer { block_bytes_max: 512, repeated_ack: RepeatedAck::Resends, ..server },
            is_bad: false,
            lost: Vec::new(),
            strangers_answered: 0,
            last: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Takes a datagram from the machine's port `client`, and returns what comes back for it.
    pub(super) fn answer(&mut self, client: u16, to: SocketAddrV4, packet: &[u8]) -> Vec<Datagram> {
        self.strangers_answered += u32::from(packet.starts_with(&[0, 5, 0, UNKNOWN_TRANSFER]));
        if *to.ip() != HOST {
            return Vec::new();
        }
        // The time is for retransmissions, which the server here leaves to the machine.
        let answers = self.server.on_packet(Duration::ZERO, client, to.port(), packet);
        answers.into_iter().flat_map(|sent| self.carry(sent)).collect()
    }

    /// Carries a packet, with all that happens to it.
    fn carry(&mut self, sent: Sent) -> Vec<Datagram> {
        let Sent { from: port, to, packet } = sent;
        let from = SocketAddrV4::new(HOST, port);
        let block = match packet.as_slice() {
            [0, 6, ..] => 0,
            [0, 3, high, low, ..] => u16::from_be_bytes([*high, *low]),
            _ => return vec![(from, to, packet)],
        };
        if self.server.file_at(port) != Some(self.server.troubled.as_str()) {
            return vec![(from, to, packet)];
        }
        if self.last != packet {
            self.before = std::mem::replace(&mut self.last, packet.clone());
        }
        if let Some(place) = self.lost.iter().position(|lost| *lost == block) {
            self.lost.remove(place);
            return Vec::new();
        }
        if !self.is_bad {
            return vec![(from, to, packet)];
        }
        let mut carried = vec![(from, to, packet.clone()), (from, to, packet)];
        if block > 0 {
            carried.push((from, to, self.before.clone()));
        }
        // The next block, as it is not: from another port of the server, and from another host.
        let forged = data(block + 1, b"mallory,secret\n");
        for stranger in [SocketAddrV4::new(HOST, port + 1), SocketAddrV4::new(MALLORY, port)] {
            carried.push((stranger, to, forged.clone()));
            carried.push((stranger, to, error(0, "it is over")));
        }
        carried
    }
}

/// A neighbour with bad intentions.
pub(super) const MALLORY: std::net::Ipv4Addr = {
    let [a, b, ..] = MACHINE.octets();
    std::net::Ipv4Addr::new(a, b, 66, 66)
};

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_test_support::tftp::{FIRST_PORT, REQUEST_PORT};

    #[test]
    fn a_lost_block_comes_when_it_is_asked_for_again() {
        let mut link = TftpLink::to(TftpServer::new("f", vec![b'x'; 700]));
        link.lost = vec![2];
        let from = SocketAddrV4::new(HOST, FIRST_PORT);
        let requests = SocketAddrV4::new(HOST, REQUEST_PORT);
        let oack = link.answer(4000, requests, b"\0\x01f\0octet\0blksize\x001428\0tsize\x000\0");
        assert_eq!(oack, [(from, 4000, b"\0\x06BLKSIZE\x00512\0tsize\x00700\0".to_vec())]);
        let mut lengths = |block: u8| -> Vec<usize> {
            link.answer(4000, from, &[0, 4, 0, block]).iter().map(|sent| sent.2.len()).collect()
        };
        assert_eq!((lengths(0), lengths(1), lengths(1), lengths(2)), (vec![516], vec![], vec![192], vec![]));
        assert_eq!(link.server.resent, 1);
    }
}

//! Packet header, magic cookie and CRC (RFC 6189 §5).

use alloc::vec::Vec;
use crc::{CRC_32_ISCSI, Crc};

/// True if a datagram on a media port is ZRTP, and not RTP or STUN (RFC 7983 §7 and the magic cookie).
pub fn is_zrtp(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first >> 4 == 1) && datagram.get(4..8) == Some(&MAGIC_COOKIE)
}

/// A packet whose length and CRC are valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) ssrc: u32,
    pub(crate) kind: MessageType,
    /// The message from its preamble to its end.
    pub(crate) message: &'a [u8],
}

/// Reason why a datagram is not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketError {
    /// Too short, too long, or without the magic cookie.
    NotZrtp,
    /// The CRC does not match.
    Crc,
    /// The message's preamble, length or type is wrong.
    Malformed,
}

impl<'a> Packet<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        if !is_zrtp(bytes) || bytes.len() > PACKET_BYTES_MAX {
            return Err(PacketError::NotZrtp);
        }
        let (before, crc) = bytes.split_last_chunk::<4>().ok_or(PacketError::NotZrtp)?;
        let (header, message) = before.split_first_chunk::<HEADER_BYTES>().ok_or(PacketError::NotZrtp)?;
        // RFC 4960 Appendix B sends the least significant byte first.
        if CRC32C.checksum(before).to_le_bytes() != *crc {
            return Err(PacketError::Crc);
        }
        let [.., ssrc_0, ssrc_1, ssrc_2, ssrc_3] = *header;
        let (&[preamble_0, preamble_1, length_0, length_1, ref kind @ ..], _) =
            message.split_first_chunk::<MESSAGE_HEAD_BYTES>().ok_or(PacketError::Malformed)?;
        let length = usize::from(u16::from_be_bytes([length_0, length_1])) * 4;
        if [preamble_0, preamble_1] != PREAMBLE || length != message.len() {
            return Err(PacketError::Malformed);
        }
        let kind = MessageType::from_block(kind).ok_or(PacketError::Malformed)?;
        Ok(Self { ssrc: u32::from_be_bytes([ssrc_0, ssrc_1, ssrc_2, ssrc_3]), kind, message })
    }
}

/// Writes the packet of a message.
pub(crate) fn write_packet(sequence: u16, ssrc: u32, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + message.len() + 4);
    bytes.extend_from_slice(&[0x10, 0]);
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.extend_from_slice(&MAGIC_COOKIE);
    bytes.extend_from_slice(&ssrc.to_be_bytes());
    bytes.extend_from_slice(message);
    let crc = CRC32C.checksum(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Writes a message of `kind` whose body is the parts; the sum of their lengths is a multiple of four.
pub(crate) fn write_message(kind: MessageType, parts: &[&[u8]]) -> Vec<u8> {
    let length = MESSAGE_HEAD_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&PREAMBLE);
    message.extend_from_slice(&((length / 4) as u16).to_be_bytes());
    message.extend_from_slice(kind.block());
    parts.iter().for_each(|part| message.extend_from_slice(part));
    message
}

/// Type of a message (RFC 6189 §5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageType {
    Hello,
    HelloAck,
    Commit,
    DhPart1,
    DhPart2,
    Confirm1,
    Confirm2,
    Conf2Ack,
    Error,
    ErrorAck,
    GoClear,
    ClearAck,
    SasRelay,
    RelayAck,
    Ping,
    PingAck,
}

impl MessageType {
    const fn block(self) -> &'static [u8; 8] {
        match self {
            Self::Hello => b"Hello   ",
            Self::HelloAck => b"HelloACK",
            Self::Commit => b"Commit  ",
            Self::DhPart1 => b"DHPart1 ",
            Self::DhPart2 => b"DHPart2 ",
            Self::Confirm1 => b"Confirm1",
            Self::Confirm2 => b"Confirm2",
            Self::Conf2Ack => b"Conf2ACK",
            Self::Error => b"Error   ",
            Self::ErrorAck => b"ErrorACK",
            Self::GoClear => b"GoClear ",
            Self::ClearAck => b"ClearACK",
            Self::SasRelay => b"SASrelay",
            Self::RelayAck => b"RelayACK",
            Self::Ping => b"Ping    ",
            Self::PingAck => b"PingACK ",
        }
    }

    fn from_block(block: &[u8; 8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.block() == block)
    }

    pub(crate) const ALL: [Self; 16] = [
        Self::Hello,
        Self::HelloAck,
        Self::Commit,
        Self::DhPart1,
        Self::DhPart2,
        Self::Confirm1,
        Self::Confirm2,
        Self::Conf2Ack,
        Self::Error,
        Self::ErrorAck,
        Self::GoClear,
        Self::ClearAck,
        Self::SasRelay,
        Self::RelayAck,
        Self::Ping,
        Self::PingAck,
    ];
}

/// Length of preamble, length field and type of a message.
pub(crate) const MESSAGE_HEAD_BYTES: usize = 12;

const HEADER_BYTES: usize = 12;
const MAGIC_COOKIE: [u8; 4] = *b"ZRTP";
const PREAMBLE: [u8; 2] = [0x50, 0x5a];
/// CRC-32C of RFC 4960 Appendix B, the last four bytes of every packet (§5).
pub(crate) static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
/// Maximum length of a packet. The longest packet is a Confirm with a signature of 511 words: 2,136 bytes
/// (RFC 6189 §5.7).
const PACKET_BYTES_MAX: usize = 2200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_packet_is_parsed_and_any_flipped_bit_is_detected() {
        for kind in MessageType::ALL {
            let message = write_message(kind, &[b"body", &[0; 8]]);
            let bytes = write_packet(0xfffe, 0x0102_0304, &message);
            assert!(is_zrtp(&bytes));
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!((packet.ssrc, packet.kind, packet.message), (0x0102_0304, kind, &message[..]));
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(Packet::parse(&changed).is_err());
            }
            for end in 0..bytes.len() {
                assert!(Packet::parse(&bytes[..end]).is_err());
            }
        }
    }

    #[test]
    fn the_crc32c_vectors_of_rfc_3720_appendix_b_4() {
        assert_eq!(CRC32C.checksum(b"123456789"), 0xe306_9283);
        assert_eq!(CRC32C.checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(CRC32C.checksum(&[0xff; 32]), 0x62a8_ab43);
        let rising: [u8; 32] = core::array::from_fn(|index| index as u8);
        assert_eq!(CRC32C.checksum(&rising), 0x46dd_794e);
    }

    #[test]
    fn wrong_lengths_and_unknown_types_are_rejected() {
        let with = |change: fn(&mut Vec<u8>)| {
            let mut message = write_message(MessageType::HelloAck, &[]);
            change(&mut message);
            Packet::parse(&write_packet(1, 2, &message)).err()
        };
        assert_eq!(with(|_| ()), None);
        assert_eq!(with(|message| message[3] = 4), Some(PacketError::Malformed));
        assert_eq!(with(|message| message[2] = 0xff), Some(PacketError::Malformed));
        assert_eq!(with(|message| message[0] = 0), Some(PacketError::Malformed));
        assert_eq!(with(|message| message[11] = b'k'), Some(PacketError::Malformed));
        assert_eq!(with(|message| message.truncate(8)), Some(PacketError::Malformed));
        assert_eq!(with(|message| message.resize(2300, 0)), Some(PacketError::NotZrtp));
    }
}

//! Sound between our offer and the parameters that the peer's answer gives (RFC 3264 §5.1).

use super::latch::{Latch, Sender};
use crate::rtp::RtpPacket;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use ringway_sansio::Instant;
use ringway_sdp::Codec;

/// Unprotected sound that our offer lets the peer send before its answer arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedSound {
    /// Payload types and codecs of the offer.
    pub receive: Vec<(u8, Codec)>,
    /// True if the offer has keys too. The peer may then send SRTP with a key that only its answer has.
    pub may_be_protected: bool,
}

/// The state of it.
#[derive(Debug)]
pub(super) struct Offered {
    sound: OfferedSound,
    /// Of a peer whose address is not known: a source is accepted after some packets in a row, and no other after it.
    latch: Latch,
}

impl Offered {
    pub(super) const fn new(sound: OfferedSound) -> Self {
        Self { sound, latch: Latch::new(UNKNOWN) }
    }

    /// Codec and sender of a packet to be played; `None`: it is not one of the offered sound, or of another source.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        from: SocketAddr,
        packet: &RtpPacket<'_>,
    ) -> Option<(Codec, Sender)> {
        let codec = self.codec_of(packet)?;
        match self.latch.on_plain(now, from, packet.header()) {
            sender @ (Sender::Peer | Sender::NewPeer) => Some((codec, sender)),
            Sender::Stranger => None,
        }
    }

    /// Codec of a packet; `None`: its payload type is not that of an offered codec, or it is SRTP.
    fn codec_of(&self, packet: &RtpPacket<'_>) -> Option<Codec> {
        let length = packet.payload().len();
        // Tags of SRTP have 4 to 16 bytes.
        let is_plain = !self.sound.may_be_protected || length.is_multiple_of(BLOCK_BYTES);
        let known = self.sound.receive.iter().find(|(number, _)| *number == packet.header().payload_type);
        known.filter(|_| length > 0 && is_plain).map(|(_, codec)| *codec)
    }
}

/// No source has this address.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// 10 ms of G.711: packets have multiples of it (RFC 3551 §4.2).
const BLOCK_BYTES: usize = 80;

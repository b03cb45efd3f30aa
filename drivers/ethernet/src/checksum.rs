//! The Internet checksum (RFC 1071), eight bytes at a time: each datagram is summed once, on its way in or out.

use core::net::Ipv4Addr;

/// A sum of 16-bit words in ones' complement, not yet folded. It is of the machine's byte order, which makes no difference
/// until it is written (RFC 1071 §2 B).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Of what stands before a UDP datagram of `bytes` for its checksum (RFC 768).
    pub(crate) fn udp(from: Ipv4Addr, to: Ipv4Addr, bytes: u16) -> Self {
        const UDP: u16 = 17;
        let [high, low] = bytes.to_be_bytes();
        let protocol = UDP.to_be_bytes();
        Self::default().with(&from.octets()).with(&to.octets()).with(&[protocol[0], protocol[1], high, low])
    }

    /// With more bytes. Only the last may be odd in number: a zero is thought behind them.
    pub(crate) fn with(self, bytes: &[u8]) -> Self {
        let (pairs, rest) = bytes.as_chunks::<16>();
        let mut sum = self.0;
        for pair in pairs {
            let pair = u128::from_ne_bytes(*pair);
            sum = add(add(sum, pair as u64), (pair >> 64) as u64);
        }
        let mut last = [0; 16];
        if let Some(room) = last.get_mut(..rest.len()) {
            room.copy_from_slice(rest);
        }
        let last = u128::from_ne_bytes(last);
        Self(add(add(sum, last as u64), (last >> 64) as u64))
    }

    /// The sum in 16 bits, as the bytes that stand in a packet.
    const fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    /// True when the checksum that was summed with all the rest is right.
    pub(crate) const fn is_right(self) -> bool {
        self.folded() == 0xffff
    }

    /// The checksum of what was summed, as UDP writes it: never zero, which would say that there is none (RFC 768).
    pub(crate) const fn udp_checksum(self) -> [u8; 2] {
        match !self.folded() {
            0 => [0xff; 2],
            checksum => checksum.to_ne_bytes(),
        }
    }
}

/// In ones' complement a carry comes back in at the other end.
#[inline(always)]
const fn add(sum: u64, word: u64) -> u64 {
    let (sum, has_carry) = sum.overflowing_add(word);
    sum + has_carry as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use smoltcp::wire::UdpPacket;

    const FROM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const TO: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 255);

    /// Datagrams of every length with bytes by chance, and with those that carry most.
    #[test]
    fn the_checksum_is_what_another_stack_finds() {
        let mut state = 1_u64;
        for len in 8..200_usize {
            for fill in [None, Some(0), Some(0xff)] {
                let mut next = || {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    fill.unwrap_or((state >> 33) as u8)
                };
                let mut bytes: Vec<u8> = (0..len).map(|_| next()).collect();
                bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                let mut packet = UdpPacket::new_unchecked(&mut bytes[..]);
                packet.fill_checksum(&FROM.into(), &TO.into());
                let sum = |bytes: &[u8]| Sum::udp(FROM, TO, len as u16).with(bytes);
                assert!(sum(&bytes).is_right(), "{len}");
                let theirs = [bytes[6], bytes[7]];
                bytes[6..8].fill(0);
                assert_eq!(sum(&bytes).udp_checksum(), theirs, "{len}");
                bytes[0] ^= 0x10;
                bytes[6..8].copy_from_slice(&theirs);
                assert!(!sum(&bytes).is_right(), "{len}");
            }
        }
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_ones() {
        // The pseudo-header and this datagram sum up to ones.
        let sum = Sum::udp(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, 8);
        let missing = !sum.folded();
        assert_eq!(sum.with(&missing.to_ne_bytes()).udp_checksum(), [0xff; 2]);
    }
}

//! Internet checksum (RFC 1071), computed eight bytes at a time.

use core::net::Ipv4Addr;

/// Sum of 16-bit words in ones' complement, not yet folded, in native byte order; RFC 1071 §2 (B) permits any byte
/// order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Sum of the pseudo-header of a UDP datagram of `bytes` bytes (RFC 768).
    pub(crate) fn udp(from: Ipv4Addr, to: Ipv4Addr, bytes: u16) -> Self {
        const UDP: u8 = 17;
        let [high, low] = bytes.to_be_bytes();
        Self::default().with_words([from.octets(), to.octets(), [0, UDP, high, low]])
    }

    /// Adds a header, four bytes at a time.
    pub(crate) fn with_words<const N: usize>(self, words: [[u8; 4]; N]) -> Self {
        Self(words.into_iter().fold(self.0, |sum, word| add(sum, u64::from(u32::from_ne_bytes(word)))))
    }

    /// Adds bytes. Only the last call may have an odd number of bytes; it is padded with a zero.
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

    /// The sum folded to 16 bits.
    const fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    /// True if the sum over the data and its checksum is valid.
    pub(crate) const fn is_right(self) -> bool {
        self.folded() == 0xffff
    }

    /// Checksum of the summed header (RFC 791 §3.1).
    pub(crate) const fn ip_checksum(self) -> [u8; 2] {
        (!self.folded()).to_ne_bytes()
    }

    /// UDP checksum of the summed data: never zero, because zero means "no checksum" (RFC 768).
    pub(crate) const fn udp_checksum(self) -> [u8; 2] {
        match !self.folded() {
            0 => [0xff; 2],
            checksum => checksum.to_ne_bytes(),
        }
    }
}

/// End-around carry of ones' complement addition.
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

    /// Datagrams of every length with random bytes, and with bytes that produce the most carries.
    #[test]
    fn the_checksum_equals_that_of_smoltcp() {
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
        // The pseudo-header and this datagram have a sum of 0xffff.
        let sum = Sum::udp(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, 8);
        let missing = !sum.folded();
        assert_eq!(sum.with(&missing.to_ne_bytes()).udp_checksum(), [0xff; 2]);
    }
}

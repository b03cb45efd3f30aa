//! RTP packets (RFC 3550 §5): validated view of a packet, header writer, and demultiplexing of a media port.

/// Variable fields of an RTP header. Written as 12 bytes without CSRCs, extension or padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpHeader {
    /// Marker bit: start of a talk spurt or of a telephone event (RFC 3551 §4.1).
    pub marker: bool,
    /// Payload type, 0 to 127, as negotiated.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp of the first sample, in ticks of the payload's clock.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

impl RtpHeader {
    /// Length of a written header in bytes.
    pub const BYTES: usize = 12;

    /// Encodes the header: version 2, without optional fields.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = VERSION_2;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }
}

/// A received RTP packet whose lengths have been checked, without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpPacket<'a> {
    header: RtpHeader,
    csrcs: &'a [u8],
    extension: Option<Extension<'a>>,
    payload: &'a [u8],
}

/// Header extension (RFC 3550 §5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// First 16 bits, defined by the profile.
    pub profile: u16,
    /// Data of the extension; a multiple of 4 bytes.
    pub data: &'a [u8],
}

impl<'a> RtpPacket<'a> {
    /// Parses an unencrypted packet. For an SRTP packet use [`RtpPacket::parse_header`]: only its header is
    /// readable, and its padding must be checked after decryption.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RtpError> {
        let mut packet = Self::parse_header(bytes)?;
        if bytes.first().is_some_and(|first| first & PADDING != 0) {
            // RFC 3550 §5.1: the last byte is the length of the padding, including itself.
            let padding = usize::from(packet.payload.last().copied().unwrap_or(0));
            let len = packet.payload.len().checked_sub(padding).ok_or(RtpError::Padding)?;
            if padding == 0 {
                return Err(RtpError::Padding);
            }
            packet.payload = packet.payload.get(..len).unwrap_or_default();
        }
        Ok(packet)
    }

    /// Parses the header, which SRTP does not encrypt; the payload is the rest of the packet.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse_header(bytes: &'a [u8]) -> Result<Self, RtpError> {
        let (fixed, rest) = bytes.split_first_chunk::<12>().ok_or(RtpError::Short)?;
        if fixed[0] >> 6 != 2 {
            return Err(RtpError::Version);
        }
        let csrc_len = 4 * usize::from(fixed[0] & 0x0f);
        let (csrcs, rest) = rest.split_at_checked(csrc_len).ok_or(RtpError::Csrc)?;
        let (extension, payload) = match fixed[0] & EXTENSION {
            0 => (None, rest),
            _ => split_extension(rest).ok_or(RtpError::Extension)?,
        };
        let header = RtpHeader {
            marker: fixed[1] & 0x80 != 0,
            payload_type: fixed[1] & 0x7f,
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            timestamp: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        };
        Ok(Self { header, csrcs, extension, payload })
    }

    /// Fixed header fields.
    pub const fn header(&self) -> RtpHeader {
        self.header
    }

    /// Contributing sources of a mixer (RFC 3550 §5.1), at most 15.
    pub fn csrcs(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.csrcs.chunks_exact(4).map(|word| word.iter().fold(0, |csrc, byte| csrc << 8 | u32::from(*byte)))
    }

    /// Header extension, if present.
    pub const fn extension(&self) -> Option<Extension<'a>> {
        self.extension
    }

    /// Payload without padding.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Reason why a datagram is not a valid RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtpError {
    /// Shorter than 12 bytes.
    #[error("an RTP packet of under 12 bytes")]
    Short,
    /// A version other than 2.
    #[error("an RTP packet of a version other than 2")]
    Version,
    /// Ends within the list of CSRCs.
    #[error("an RTP packet that ends within its contributing sources")]
    Csrc,
    /// Ends within the header extension.
    #[error("an RTP packet that ends within its header extension")]
    Extension,
    /// The padding is longer than the packet, or its length is 0.
    #[error("an RTP packet whose padding does not fit")]
    Padding,
}

/// Protocol of a datagram on a media port, by its first bytes (RFC 7983 §7, RFC 5761 §4, RFC 6189 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// STUN: first byte 0 to 3.
    Stun,
    /// ZRTP: first byte 16 to 19.
    Zrtp,
    /// DTLS: first byte 20 to 63.
    Dtls,
    /// RTP, or SRTP.
    Rtp,
    /// RTCP or SRTCP: first byte as RTP, second byte 192 to 223.
    Rtcp,
    /// None of these.
    Unknown,
}

impl DatagramKind {
    /// Classifies a datagram by its first two bytes.
    pub fn of(datagram: &[u8]) -> Self {
        match datagram {
            [0..=3, ..] => Self::Stun,
            [16..=19, ..] => Self::Zrtp,
            [20..=63, ..] => Self::Dtls,
            [128..=191, 192..=223, ..] => Self::Rtcp,
            [128..=191, ..] => Self::Rtp,
            _ => Self::Unknown,
        }
    }
}

fn split_extension(bytes: &[u8]) -> Option<(Option<Extension<'_>>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let words = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let (data, rest) = rest.split_at_checked(4 * words)?;
    Some((Some(Extension { profile: u16::from_be_bytes([head[0], head[1]]), data }), rest))
}

const VERSION_2: u8 = 0x80;
const PADDING: u8 = 0x20;
const EXTENSION: u8 = 0x10;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const HEADER: RtpHeader = RtpHeader {
        marker: true,
        payload_type: 8,
        sequence: 0xfffe,
        timestamp: 0x1234_5678,
        ssrc: 0xdead_beef,
    };

    #[test]
    fn a_written_header_is_parsed_as_the_same() {
        let mut bytes = HEADER.to_bytes().to_vec();
        bytes.extend_from_slice(b"sound");
        let packet = RtpPacket::parse(&bytes).unwrap();
        assert_eq!((packet.header(), packet.payload()), (HEADER, &b"sound"[..]));
        assert_eq!((packet.csrcs().len(), packet.extension()), (0, None));
    }

    #[test]
    fn sources_extension_and_padding_are_parsed() {
        let mut bytes = HEADER.to_bytes().to_vec();
        bytes[0] |= PADDING | EXTENSION | 2;
        bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.extend_from_slice(&[0xbe, 0xde, 0, 1, 9, 9, 9, 9]);
        bytes.extend_from_slice(b"ab\0\0\x03");
        let packet = RtpPacket::parse(&bytes).unwrap();
        assert_eq!(packet.csrcs().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(packet.extension(), Some(Extension { profile: 0xbede, data: &[9; 4] }));
        assert_eq!(packet.payload(), b"ab");
        for len in 0..bytes.len() - 5 {
            assert!(RtpPacket::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn padding_must_fit_and_include_its_length() {
        let mut bytes = HEADER.to_bytes().to_vec();
        bytes[0] |= PADDING;
        assert_eq!(RtpPacket::parse(&bytes), Err(RtpError::Padding));
        for (last, result) in
            [(0, Err(RtpError::Padding)), (3, Err(RtpError::Padding)), (2, Ok(0)), (1, Ok(1))]
        {
            let mut bytes = bytes.clone();
            bytes.extend_from_slice(&[7, last]);
            assert_eq!(RtpPacket::parse(&bytes).map(|packet| packet.payload().len()), result);
        }
    }

    #[test]
    fn protocols_on_one_port_are_distinguished() {
        let kinds = [
            (&[][..], DatagramKind::Unknown),
            (&[0, 1], DatagramKind::Stun),
            (&[0x10, 0], DatagramKind::Zrtp),
            (&[22], DatagramKind::Dtls),
            (&[0x80, 0], DatagramKind::Rtp),
            (&[0x80, 0x80 | 101], DatagramKind::Rtp),
            (&[0x80, 200], DatagramKind::Rtcp),
            (&[0xa1, 201], DatagramKind::Rtcp),
            (&[64, 0], DatagramKind::Unknown),
            (&[0xc0, 0], DatagramKind::Unknown),
        ];
        for (bytes, kind) in kinds {
            assert_eq!(DatagramKind::of(bytes), kind, "{bytes:?}");
        }
    }
}

//! Frame headers and masks (RFC 6455 §5.2, §5.3).

use alloc::vec::Vec;

/// Longest header: two bytes, a length of eight bytes, a mask.
pub(super) const HEADER_BYTES_MAX: usize = 14;

/// Longest payload of a control frame (RFC 6455 §5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Continuation),
            1 => Some(Self::Text),
            2 => Some(Self::Binary),
            8 => Some(Self::Close),
            9 => Some(Self::Ping),
            10 => Some(Self::Pong),
            _ => None,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Status code of a Close frame, as sent (RFC 6455 §7.4.1). 1003 is missing: text and binary are both accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseCode {
    Normal,
    GoingAway,
    ProtocolError,
    InvalidText,
    PolicyViolation,
    TooBig,
    /// Code of the peer's Close frame.
    Echo(u16),
}

impl CloseCode {
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::Normal => 1000,
            Self::GoingAway => 1001,
            Self::ProtocolError => 1002,
            Self::InvalidText => 1007,
            Self::PolicyViolation => 1008,
            Self::TooBig => 1009,
            Self::Echo(code) => code,
        }
    }
}

/// Violation of RFC 6455: the status code for the peer and the text for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation(pub(super) CloseCode, pub(super) &'static str);

impl Violation {
    pub(super) const fn protocol(text: &'static str) -> Self {
        Self(CloseCode::ProtocolError, text)
    }
}

/// Start of a frame whose first two bytes are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) is_final: bool,
    pub(super) opcode: Opcode,
    /// Length of the whole header, the mask included.
    pub(super) header_bytes: usize,
    is_masked: bool,
    length: u8,
}

impl Prefix {
    /// Reads the first two bytes. `expects_mask`: the peer is a client.
    pub(super) const fn read([first, second]: [u8; 2], expects_mask: bool) -> Result<Self, Violation> {
        if first & 0x70 != 0 {
            return Err(Violation::protocol("a reserved bit is set and no extension was negotiated"));
        }
        let is_final = first & 0x80 != 0;
        let Some(opcode) = Opcode::from_bits(first & 0x0f) else {
            return Err(Violation::protocol("the opcode is not known"));
        };
        let (is_masked, length) = (second & 0x80 != 0, second & 0x7f);
        if is_masked != expects_mask {
            return Err(Violation::protocol("a client masks its frames, a server does not"));
        }
        if opcode.is_control() && (!is_final || length as usize > CONTROL_BYTES_MAX) {
            return Err(Violation::protocol("a control frame is fragmented or longer than 125 bytes"));
        }
        let extended = match length {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let header_bytes = 2 + extended + if is_masked { 4 } else { 0 };
        Ok(Self { is_final, opcode, header_bytes, is_masked, length })
    }

    /// Reads length and mask. `behind`: the bytes of the header behind the first two.
    pub(super) fn read_rest(self, behind: &[u8]) -> Result<(u64, [u8; 4]), Violation> {
        let (length, mask) = match (self.length, behind) {
            (126, [a, b, mask @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), mask),
            (127, [a, b, c, d, e, f, g, h, mask @ ..]) => {
                (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), mask)
            }
            (length, mask) => (u64::from(length), mask),
        };
        if length >> 63 != 0 {
            return Err(Violation::protocol("the top bit of a 64-bit length is set"));
        }
        let shortest = match self.length {
            126 => 126,
            127 => 1 << 16,
            _ => 0,
        };
        if length < shortest {
            return Err(Violation::protocol("the length is not encoded in the fewest bytes"));
        }
        let mask = if self.is_masked { mask.first_chunk().copied() } else { None };
        Ok((length, mask.unwrap_or_default()))
    }
}

/// Appends a frame; with a mask if the sender is a client.
pub(super) fn write(opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    out.reserve(HEADER_BYTES_MAX + payload.len());
    out.push(0x80 | opcode.bits());
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..=125), _) => out.push(masked | length),
        (_, Ok(length)) => {
            out.push(masked | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask.unwrap_or_default()[..if mask.is_some() { 4 } else { 0 }]);
    let start = out.len();
    out.extend_from_slice(payload);
    if let (Some(mask), Some(copied)) = (mask, out.get_mut(start..)) {
        apply_mask(copied, mask, 0);
    }
}

/// Masks or unmasks a part of a payload that begins `position` bytes behind the payload's start. Eight bytes at a time,
/// which the compiler makes wider.
pub(super) fn apply_mask(bytes: &mut [u8], mask: [u8; 4], position: u64) {
    let mut mask = mask;
    mask.rotate_left((position % 4) as usize);
    let half = u32::from_ne_bytes(mask);
    let wide = u64::from(half) << 32 | u64::from(half);
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// True for a status code that a Close frame may carry (RFC 6455 §7.4.1, §7.4.2, and the codes registered since).
pub(super) const fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// RFC 6455 §5.7.
    #[test]
    fn the_examples_of_the_rfc_are_written_and_read() {
        let mut out = Vec::new();
        write(Opcode::Text, b"Hello", None, &mut out);
        assert_eq!(out, [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
        out.clear();
        write(Opcode::Text, b"Hello", Some([0x37, 0xfa, 0x21, 0x3d]), &mut out);
        assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
        out.clear();
        write(Opcode::Binary, &[0; 256], None, &mut out);
        assert_eq!(out[..4], [0x82, 0x7e, 0x01, 0x00]);
        out.clear();
        write(Opcode::Binary, &vec![0; 65536], None, &mut out);
        assert_eq!(out[..10], [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
        let prefix = Prefix::read([0x82, 0x7f], false).unwrap();
        assert_eq!(prefix.header_bytes, 10);
        assert_eq!(prefix.read_rest(&out[2..10]), Ok((65536, [0; 4])));
        for length in [125, 126, 65535] {
            out.clear();
            write(Opcode::Binary, &vec![0; length], Some([1, 2, 3, 4]), &mut out);
            let prefix = Prefix::read([out[0], out[1]], true).unwrap();
            let read = prefix.read_rest(&out[2..prefix.header_bytes]);
            assert_eq!(read, Ok((length as u64, [1, 2, 3, 4])));
        }
    }

    #[test]
    fn a_mask_is_applied_alike_at_any_position_and_length() {
        let mask = [0x9d, 0x01, 0xff, 0x40];
        for start in 0..9 {
            for length in 0..40 {
                let mut bytes: Vec<u8> = (0..length).collect();
                apply_mask(&mut bytes, mask, start);
                let expected: Vec<u8> =
                    (0..length).map(|at| at ^ mask[(start as usize + usize::from(at)) % 4]).collect();
                assert_eq!(bytes, expected, "{length} bytes from {start}");
            }
        }
    }

    #[test]
    fn only_registered_and_private_status_codes_are_valid() {
        let valid = [1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999];
        let invalid = [0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535];
        assert!(valid.into_iter().all(may_be_sent));
        assert!(!invalid.into_iter().any(may_be_sent));
    }
}

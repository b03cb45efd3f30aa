//! Frames of a connection: authenticated, numbered, limited in length. No I/O.
//!
//! ```text
//!  campaign                                   agent
//!     ── magic, 32 random bytes ───────────────►
//!     ◄────────────── magic, 32 random bytes ──    then frames: length (4) | payload | HMAC-SHA-256 (32)
//! ```
//! The HMAC is of the frame's number, its length and its payload, under a key of this connection and direction.

use super::key::AgentKey;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// First bytes of a connection: magic and random bytes of one side.
pub(super) const GREETING_BYTES: usize = MAGIC.len() + NONCE_BYTES;
/// Bytes of a frame before its payload.
pub(super) const LENGTH_BYTES: usize = 4;
/// Bytes of a frame after its payload.
pub(super) const TAG_BYTES: usize = 32;

/// Random bytes of one side.
pub(super) type Nonce = [u8; NONCE_BYTES];

/// Side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Campaign,
    Agent,
}

/// Random bytes of both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nonces {
    pub(super) campaign: Nonce,
    pub(super) agent: Nonce,
}

/// Fault of received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameError {
    /// They do not begin with the magic.
    NotAgent,
    /// The frame is longer than permitted.
    TooLong,
    /// The frame is shorter than its length says.
    Cut,
    /// Another key, connection, direction or number, or changed bytes.
    Forged,
}

/// Writes the frames of one direction.
pub(super) struct Sealer(Direction);

/// Checks the frames of one direction.
pub(super) struct Opener(Direction);

struct Direction {
    mac: Hmac<Sha256>,
    /// Number of the next frame.
    number: u64,
}

/// First bytes of a side.
pub(super) fn greeting(nonce: &Nonce) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    let all = MAGIC.iter().chain(nonce);
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
    bytes
}

/// Random bytes of the other side from its first bytes.
pub(super) fn nonce_in(greeting: &[u8; GREETING_BYTES]) -> Result<Nonce, FrameError> {
    let nonce = greeting.strip_prefix(MAGIC).and_then(|nonce| nonce.try_into().ok());
    nonce.ok_or(FrameError::NotAgent)
}

/// Length of a payload from the first bytes of its frame.
pub(super) fn length_in(bytes: [u8; LENGTH_BYTES], max: usize) -> Result<usize, FrameError> {
    let length = usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX);
    if length > max { Err(FrameError::TooLong) } else { Ok(length) }
}

impl Sealer {
    /// Frames that `side` sends.
    pub(super) fn new(key: &AgentKey, side: Side, nonces: &Nonces) -> Self {
        Self(Direction::new(key, side, nonces))
    }

    /// The frame of a payload.
    pub(super) fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let tag = self.0.next(length, payload).finalize().into_bytes();
        [&length, payload, &tag].concat()
    }
}

impl Opener {
    /// Frames that `side` sends.
    pub(super) fn new(key: &AgentKey, side: Side, nonces: &Nonces) -> Self {
        Self(Direction::new(key, side, nonces))
    }

    /// Payload of a whole frame.
    pub(super) fn open<'f>(&mut self, frame: &'f [u8]) -> Result<&'f [u8], FrameError> {
        let (length, rest) = frame.split_first_chunk::<LENGTH_BYTES>().ok_or(FrameError::Cut)?;
        let (payload, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(FrameError::Cut)?;
        if length_in(*length, usize::MAX)? != payload.len() {
            return Err(FrameError::Cut);
        }
        let checked = self.0.next(*length, payload).verify_slice(tag);
        checked.map(|()| payload).map_err(|_| FrameError::Forged)
    }
}

impl Direction {
    fn new(key: &AgentKey, side: Side, nonces: &Nonces) -> Self {
        let name: &[u8] = match side {
            Side::Campaign => b"ringway lab agent 1: frames of the campaign",
            Side::Agent => b"ringway lab agent 1: frames of the agent",
        };
        let parts = keyed(key.bytes()).chain_update(name).chain_update([0]);
        let derived = parts.chain_update(nonces.campaign).chain_update(nonces.agent).finalize();
        Self { mac: keyed(&derived.into_bytes().into()), number: 0 }
    }

    fn next(&mut self, length: [u8; LENGTH_BYTES], payload: &[u8]) -> Hmac<Sha256> {
        let number = self.number.to_be_bytes();
        self.number = self.number.saturating_add(1);
        self.mac.clone().chain_update(number).chain_update(length).chain_update(payload)
    }
}

/// HMAC with a key of 32 bytes, which fill a block of SHA-256 with zeros.
fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    Hmac::new(&block.into())
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAgent => "it does not speak the protocol of `ringway lab agent` of this version",
            Self::TooLong => "a frame is longer than permitted",
            Self::Cut => "a frame was cut off",
            Self::Forged => "a frame has a wrong authentication: the keys differ, or it was changed",
        })
    }
}

impl std::error::Error for FrameError {}

const MAGIC: &[u8; 20] = b"ringway-lab-agent/2\n";
const NONCE_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn nonces(agent: u8) -> Nonces {
        Nonces { campaign: [1; NONCE_BYTES], agent: [agent; NONCE_BYTES] }
    }

    fn pair(key: &AgentKey) -> (Sealer, Opener) {
        let nonces = nonces(2);
        (Sealer::new(key, Side::Campaign, &nonces), Opener::new(key, Side::Campaign, &nonces))
    }

    #[test]
    fn frames_are_opened_in_their_order() {
        let key = AgentKey::generate().unwrap();
        let (mut sealer, mut opener) = pair(&key);
        for payload in [&b"one"[..], b"", b"three"] {
            let frame = sealer.seal(payload);
            assert_eq!(frame.len(), LENGTH_BYTES + payload.len() + TAG_BYTES);
            assert_eq!(opener.open(&frame), Ok(payload));
        }
    }

    #[test]
    fn another_key_connection_direction_or_number_is_refused() {
        let key = AgentKey::generate().unwrap();
        let (mut sealer, _) = pair(&key);
        let frame = sealer.seal(b"stop");
        let refuses = |mut opener: Opener| opener.open(&frame) == Err(FrameError::Forged);
        assert!(refuses(Opener::new(&AgentKey::generate().unwrap(), Side::Campaign, &nonces(2))));
        assert!(refuses(Opener::new(&key, Side::Campaign, &nonces(3))));
        // The agent's own frames are not sent back to it.
        assert!(refuses(Opener::new(&key, Side::Agent, &nonces(2))));
        let (_, mut opener) = pair(&key);
        assert!(opener.open(&frame).is_ok());
        // A replay.
        assert_eq!(opener.open(&frame), Err(FrameError::Forged));
    }

    #[test]
    fn each_changed_or_missing_byte_is_found() {
        let key = AgentKey::generate().unwrap();
        let (mut sealer, _) = pair(&key);
        let frame = sealer.seal(b"payload");
        for index in 0..frame.len() {
            let mut changed = frame.clone();
            changed[index] ^= 0x10;
            assert!(pair(&key).1.open(&changed).is_err(), "byte {index}");
            assert_eq!(pair(&key).1.open(&frame[..index]), Err(FrameError::Cut), "{index} bytes");
        }
        assert_eq!(pair(&key).1.open(&[&frame[..], b"x"].concat()), Err(FrameError::Cut));
    }

    #[test]
    fn a_length_is_checked_before_anything_is_read() {
        assert_eq!(length_in(256_u32.to_be_bytes(), 256), Ok(256));
        assert_eq!(length_in(257_u32.to_be_bytes(), 256), Err(FrameError::TooLong));
        assert_eq!(length_in([0xff; 4], 1 << 20), Err(FrameError::TooLong));
    }

    #[test]
    fn a_greeting_has_the_random_bytes_of_its_side() {
        let nonce = [7; NONCE_BYTES];
        let greeting = greeting(&nonce);
        assert_eq!(nonce_in(&greeting), Ok(nonce));
        assert_eq!(nonce_in(&[b'x'; GREETING_BYTES]), Err(FrameError::NotAgent));
    }
}

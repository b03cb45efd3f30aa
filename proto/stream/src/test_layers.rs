//! Layers for tests: with a handshake like TLS, with message boundaries like WebSocket, and one over the other.

use crate::{Decoded, Encoded, Layer, LayerError};
use alloc::vec::Vec;

/// Layer in which each side sends [`KEY`] first, the client before the server; then all bytes are XORed with its bytes in
/// turn.
pub(crate) struct Xor {
    is_client: bool,
    /// Number of received bytes of the peer's key.
    key_bytes: usize,
    received: usize,
    sent: usize,
    /// Messages that are held until the end of the handshake.
    waiting: Vec<u8>,
}

impl Xor {
    pub(crate) fn client() -> Self {
        Self { is_client: true, key_bytes: 0, received: 0, sent: 0, waiting: Vec::new() }
    }

    pub(crate) fn server() -> Self {
        Self { is_client: false, ..Self::client() }
    }
}

impl Layer for Xor {
    fn start(&mut self, wire: &mut Vec<u8>) {
        if self.is_client {
            wire.extend_from_slice(KEY);
        }
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        for byte in bytes {
            if self.key_bytes < KEY.len() {
                if *byte != KEY[self.key_bytes] {
                    return Err(LayerError("not the key"));
                }
                self.key_bytes += 1;
                if self.key_bytes == KEY.len() {
                    if !self.is_client {
                        wire.extend_from_slice(KEY);
                    }
                    let waiting = core::mem::take(&mut self.waiting);
                    encrypt(&waiting, &mut self.sent, wire);
                }
            } else {
                decoded(Decoded::Bytes(&[byte ^ KEY[self.received % KEY.len()]]));
                self.received += 1;
            }
        }
        Ok(())
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        if self.is_handshaking() {
            self.waiting.extend_from_slice(message);
        } else {
            encrypt(message, &mut self.sent, wire);
        }
        Ok(Encoded::Appended)
    }

    fn is_handshaking(&self) -> bool {
        self.key_bytes < KEY.len()
    }

    fn held_bytes(&self) -> usize {
        self.waiting.len()
    }
}

/// Layer with two bytes of length before each message; a length of 0 ends the stream.
pub(crate) struct LengthPrefix {
    held: Vec<u8>,
}

impl LengthPrefix {
    pub(crate) fn new() -> Self {
        Self { held: Vec::new() }
    }
}

impl Layer for LengthPrefix {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        _wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        self.held.extend_from_slice(bytes);
        while let Some(&[high, low]) = self.held.first_chunk() {
            let end = 2 + usize::from(u16::from_be_bytes([high, low]));
            if end == 2 {
                decoded(Decoded::StreamEnd);
                return Ok(());
            }
            if end > 2 + MESSAGE_BYTES_MAX {
                return Err(LayerError("too large"));
            }
            let Some(message) = self.held.get(2..end) else { return Ok(()) };
            decoded(Decoded::Bytes(message.strip_suffix(b"\n").unwrap_or(message)));
            decoded(Decoded::MessageEnd);
            self.held.drain(..end);
        }
        Ok(())
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        wire.extend_from_slice(&length_prefixed(message));
        Ok(Encoded::Appended)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        wire.extend_from_slice(&[0, 0]);
    }

    fn is_handshaking(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        self.held.capacity()
    }
}

/// Second layer over the first, as WebSocket over TLS.
pub(crate) struct Over<A, B>(pub(crate) A, pub(crate) B);

impl<A: Layer, B: Layer> Layer for Over<A, B> {
    fn start(&mut self, wire: &mut Vec<u8>) {
        self.0.start(wire);
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let (mut upper, mut is_end) = (Vec::new(), false);
        let mut lower = |part: Decoded<'_>| match part {
            Decoded::Bytes(bytes) => upper.extend_from_slice(bytes),
            Decoded::MessageStart | Decoded::MessageEnd | Decoded::Ping => {}
            Decoded::StreamEnd => is_end = true,
        };
        let result = self.0.decode(bytes, &mut lower, wire);
        let mut own = Vec::new();
        self.1.decode(&upper, decoded, &mut own)?;
        if !own.is_empty() {
            self.0.encode(&own, wire)?;
        }
        if is_end {
            decoded(Decoded::StreamEnd);
        }
        result
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        let mut own = Vec::new();
        match self.1.encode(message, &mut own)? {
            Encoded::Unchanged => self.0.encode(message, wire),
            Encoded::Appended => self.0.encode(&own, wire),
        }
    }

    fn is_handshaking(&self) -> bool {
        self.0.is_handshaking() || self.1.is_handshaking()
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes() + self.1.held_bytes()
    }
}

pub(crate) fn xor(bytes: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    encrypt(bytes, &mut 0, &mut wire);
    wire
}

pub(crate) fn length_prefixed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn encrypt(bytes: &[u8], at: &mut usize, wire: &mut Vec<u8>) {
    wire.extend(bytes.iter().enumerate().map(|(index, byte)| byte ^ KEY[(*at + index) % KEY.len()]));
    *at += bytes.len();
}

pub(crate) const KEY: &[u8] = b"secret";

const MESSAGE_BYTES_MAX: usize = 1000;

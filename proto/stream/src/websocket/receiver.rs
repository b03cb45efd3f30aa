//! Received frames, and the validation of UTF-8 that arrives in pieces (RFC 6455 §8.1).
//!
//! ```text
//! header --complete--> payload --last byte--> header
//!    |                    |                     (a fragmented message stays begun between its frames)
//!    +--- violation ------+---> error: Close with its status code
//! ```

use super::frame::{
    CONTROL_BYTES_MAX, CloseCode, HEADER_BYTES_MAX, Opcode, Prefix, Violation, apply_mask, may_be_sent,
};
use ringway_sansio::Defence;

/// Reader of frames. It holds a begun header and a begun control frame; payload of messages is passed on as it comes.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// True if the peer is a client.
    expects_mask: bool,
    message_bytes_max: u64,
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    frame: Option<Frame>,
    message: Option<Message>,
    control: [u8; CONTROL_BYTES_MAX],
}

/// Frame whose header is complete.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: Opcode,
    is_final: bool,
    length: u64,
    /// Number of payload bytes received.
    position: u64,
    mask: [u8; 4],
}

/// Message whose last frame is not complete.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// `None` for a binary message.
    text: Option<Utf8>,
    /// Sum of the declared lengths.
    bytes: u64,
    fragments: u32,
}

/// Part of the received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Start,
    Bytes(&'a [u8]),
    End,
    /// Payload of a Ping.
    Ping(&'a [u8]),
    /// Status code of the peer's Close. Bytes behind it are ignored.
    Close(Option<u16>),
}

impl Receiver {
    pub(super) fn new(expects_mask: bool, message_bytes_max: usize) -> Self {
        Self {
            expects_mask,
            message_bytes_max: if Defence::WebSocketSize.is_on() {
                message_bytes_max as u64
            } else {
                u64::MAX
            },
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            frame: None,
            message: None,
            control: [0; CONTROL_BYTES_MAX],
        }
    }

    /// Handles received bytes: any part of a frame, or several frames.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        each: &mut dyn FnMut(Part<'_>),
    ) -> Result<(), Violation> {
        loop {
            let frame = match self.frame {
                Some(frame) => frame,
                None => match self.read_header(&mut bytes)? {
                    Some(frame) => self.begin(frame, each)?,
                    None => return Ok(()),
                },
            };
            let left = usize::try_from(frame.length - frame.position).unwrap_or(usize::MAX);
            let (payload, behind) = bytes.split_at(bytes.len().min(left));
            bytes = behind;
            let frame = self.read_payload(frame, payload, each)?;
            if frame.position < frame.length {
                self.frame = Some(frame);
                return Ok(());
            }
            self.frame = None;
            if self.end(frame, each)? == Flow::Closed {
                return Ok(());
            }
        }
    }

    /// Takes the bytes of a header. `None`: more are needed.
    fn read_header(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, Violation> {
        loop {
            let prefix = match self.header.first_chunk() {
                Some(&prefix) if self.header_bytes >= 2 => Some(Prefix::read(prefix, self.expects_mask)?),
                _ => None,
            };
            let needed = prefix.map_or(2, |prefix| prefix.header_bytes);
            if let Some(prefix) = prefix.filter(|_| self.header_bytes >= needed) {
                self.header_bytes = 0;
                let (length, mask) = prefix.read_rest(self.header.get(2..needed).unwrap_or_default())?;
                let Prefix { opcode, is_final, .. } = prefix;
                return Ok(Some(Frame { opcode, is_final, length, position: 0, mask }));
            }
            let [first, behind @ ..] = *bytes else { return Ok(None) };
            *bytes = behind;
            if let Some(byte) = self.header.get_mut(self.header_bytes) {
                *byte = *first;
                self.header_bytes += 1;
            }
        }
    }

    /// Checks the order and the sizes of a message's frames (RFC 6455 §5.4).
    fn begin(&mut self, frame: Frame, each: &mut dyn FnMut(Part<'_>)) -> Result<Frame, Violation> {
        let text = match frame.opcode {
            Opcode::Close | Opcode::Ping | Opcode::Pong => return Ok(frame),
            Opcode::Continuation if self.message.is_none() => {
                return Err(Violation::protocol("a continuation without a message"));
            }
            Opcode::Text | Opcode::Binary if self.message.is_some() => {
                return Err(Violation::protocol("a message begins before the end of another"));
            }
            Opcode::Text => Some(Utf8::default()),
            Opcode::Continuation | Opcode::Binary => None,
        };
        if self.message.is_none() {
            each(Part::Start);
        }
        let message = self.message.get_or_insert(Message { text, bytes: 0, fragments: 0 });
        message.bytes = message.bytes.saturating_add(frame.length);
        message.fragments += 1;
        if message.bytes > self.message_bytes_max {
            return Err(Violation(CloseCode::TooBig, "a message is over the size limit"));
        }
        if message.fragments > FRAGMENTS_MAX {
            return Err(Violation(CloseCode::PolicyViolation, "a message has too many fragments"));
        }
        Ok(frame)
    }

    /// Unmasks a part of the payload and passes it on. The only copy is the unmasked one, in pieces on the stack.
    fn read_payload(
        &mut self,
        mut frame: Frame,
        payload: &[u8],
        each: &mut dyn FnMut(Part<'_>),
    ) -> Result<Frame, Violation> {
        if frame.opcode.is_control() {
            let to = self.control.iter_mut().skip(frame.position as usize);
            to.zip(payload).for_each(|(to, from)| *to = *from);
            frame.position += payload.len() as u64;
            return Ok(frame);
        }
        if frame.mask == [0; 4] {
            self.pass(payload, each)?;
            frame.position += payload.len() as u64;
            return Ok(frame);
        }
        let mut piece = [0; PIECE_BYTES];
        for masked in payload.chunks(PIECE_BYTES) {
            let Some(piece) = piece.get_mut(..masked.len()) else { continue };
            piece.copy_from_slice(masked);
            apply_mask(piece, frame.mask, frame.position);
            frame.position += masked.len() as u64;
            self.pass(piece, each)?;
        }
        Ok(frame)
    }

    fn pass(&mut self, payload: &[u8], each: &mut dyn FnMut(Part<'_>)) -> Result<(), Violation> {
        let text = self.message.as_mut().and_then(|message| message.text.as_mut());
        if text.is_some_and(|text| !text.push(payload)) {
            return Err(INVALID_TEXT);
        }
        if !payload.is_empty() {
            each(Part::Bytes(payload));
        }
        Ok(())
    }

    /// Handles the end of a frame.
    fn end(&mut self, frame: Frame, each: &mut dyn FnMut(Part<'_>)) -> Result<Flow, Violation> {
        let control = self.control.get_mut(..frame.length as usize).unwrap_or_default();
        match frame.opcode {
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                if frame.is_final {
                    let message = self.message.take();
                    if message.and_then(|message| message.text).is_some_and(|text| !text.is_complete()) {
                        return Err(INVALID_TEXT);
                    }
                    each(Part::End);
                }
            }
            Opcode::Ping => {
                apply_mask(control, frame.mask, 0);
                each(Part::Ping(control));
            }
            Opcode::Pong => {}
            Opcode::Close => {
                apply_mask(control, frame.mask, 0);
                each(Part::Close(close_code(control)?));
                return Ok(Flow::Closed);
            }
        }
        Ok(Flow::Open)
    }
}

#[derive(PartialEq, Eq)]
enum Flow {
    Open,
    Closed,
}

/// Reads the payload of a Close frame (RFC 6455 §5.5.1).
fn close_code(payload: &[u8]) -> Result<Option<u16>, Violation> {
    match payload {
        [] => Ok(None),
        [_] => Err(Violation::protocol("a Close frame has half a status code")),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !may_be_sent(code) {
                return Err(Violation::protocol("a Close frame has an invalid status code"));
            }
            if core::str::from_utf8(reason).is_err() {
                return Err(INVALID_TEXT);
            }
            Ok(Some(code))
        }
    }
}

const INVALID_TEXT: Violation = Violation(CloseCode::InvalidText, "a text is not valid UTF-8");

/// Maximum number of frames of a message, so that a peer cannot send empty ones without end. Stacks that fragment use
/// frames of 1 KiB or more.
pub(super) const FRAGMENTS_MAX: u32 = 256;

/// Bytes that are unmasked at once.
const PIECE_BYTES: usize = 1024;

/// Validator of one text message. It holds at most the first three bytes of a character.
#[derive(Clone, Copy, Debug, Default)]
struct Utf8 {
    begun: [u8; 4],
    begun_bytes: usize,
}

impl Utf8 {
    /// Checks further bytes. False: no continuation makes the text valid.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> bool {
        while self.begun_bytes > 0 {
            let [next, rest @ ..] = bytes else { return true };
            bytes = rest;
            if let Some(byte) = self.begun.get_mut(self.begun_bytes) {
                *byte = *next;
                self.begun_bytes += 1;
            }
            match core::str::from_utf8(self.begun.get(..self.begun_bytes).unwrap_or_default()) {
                Ok(_) => self.begun_bytes = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match core::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                // One to three bytes: the start of a character.
                for (to, from) in self.begun.iter_mut().zip(bytes.iter().skip(error.valid_up_to())) {
                    *to = *from;
                    self.begun_bytes += 1;
                }
                true
            }
        }
    }

    /// True if the text may end here.
    const fn is_complete(&self) -> bool {
        self.begun_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_gives_the_result_of_the_whole() {
        let texts: [&[u8]; 14] = [
            b"",
            b"plain",
            "κόσμε é 🎵 \u{10ffff} \u{7ff}\u{800}\u{ffff}".as_bytes(),
            b"ab\xff",
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xf0\x80\x80\x80",
            b"\xe2\x82",
            b"\xf0\x9f\x8e",
            b"\x80",
            b"\xe2\x82\xac\xe2",
            b"\xe2a",
            b"\xf0\x9f\x8e\xb5\xb5",
        ];
        for text in texts {
            let expected = core::str::from_utf8(text).is_ok();
            for size in 1..=text.len().max(1) {
                let mut utf8 = Utf8::default();
                let is_valid = text.chunks(size).all(|chunk| utf8.push(chunk)) && utf8.is_complete();
                assert_eq!(is_valid, expected, "{text:x?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_impossible_character_is_refused_before_its_end() {
        let mut utf8 = Utf8::default();
        assert!(utf8.push(b"ok \xf0"));
        assert!(!utf8.push(b"\x80"), "an overlong form");
        let mut utf8 = Utf8::default();
        assert!(utf8.push(b"\xed") && !utf8.push(b"\xa0"), "a surrogate");
    }
}

//! The keyboard: PS/2 (Intel 8042), polled, scancode set 1, as the BIOS leaves it. A USB keyboard is one of these as long as
//! the BIOS plays one for it.

use pc_keyboard::layouts::Us104Key;
use pc_keyboard::{DecodedKey, EventDecoder, HandleControl, ScancodeSet as _, ScancodeSet1};

use crate::port::inb;

/// A keyboard with American letters.
pub(crate) struct Keyboard {
    codes: ScancodeSet1,
    keys: EventDecoder<Us104Key>,
}

impl Keyboard {
    /// Throws away what was typed before.
    pub(crate) fn new() -> Self {
        let keyboard = Self {
            codes: ScancodeSet1::new(),
            keys: EventDecoder::new(Us104Key, HandleControl::MapLettersToUnicode),
        };
        // More than any controller keeps; where there is none, every read says "full".
        for _ in 0..64 {
            if inb(STATUS) & FULL == 0 {
                break;
            }
            inb(DATA);
        }
        keyboard
    }

    /// The next key that was pressed: a character (control characters included) or a key without one.
    pub(crate) fn read(&mut self) -> Option<DecodedKey> {
        for _ in 0..BYTES_MAX {
            let status = inb(STATUS);
            // All bits set: there is no controller.
            if status & FULL == 0 || status == 0xFF {
                return None;
            }
            let byte = inb(DATA);
            if status & FROM_MOUSE != 0 {
                continue;
            }
            if let Ok(Some(event)) = self.codes.advance_state(byte)
                && let Some(key) = self.keys.process_keyevent(event)
            {
                return Some(key);
            }
        }
        None
    }
}

const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
const FULL: u8 = 1;
const FROM_MOUSE: u8 = 1 << 5;
/// Bytes looked at in one call: a key has six at most.
const BYTES_MAX: usize = 16;

//! Keys of a PC's keyboard: scan codes of set 1, as the keyboard controller hands them on.
//!
//! Letters and signs stand as on a US keyboard. Every sign that the screens ask for has another key as well, because it
//! stands elsewhere on other keyboards.

use super::Key;

/// Makes keys of scan codes. What is no known key is passed over.
#[derive(Clone, Debug)]
pub struct Ps2Keys {
    prefix: Prefix,
    /// Left and right Shift.
    shifts: [bool; 2],
    /// Left and right Ctrl.
    controls: [bool; 2],
    has_caps_lock: bool,
    has_num_lock: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    None,
    /// 0xe0: a key that the first PCs had not.
    Extended,
    /// 0xe1: so many codes belong to Pause.
    Pause(u8),
}

impl Ps2Keys {
    /// No key is held down, and the digits of the keypad are digits.
    pub const fn new() -> Self {
        Self {
            prefix: Prefix::None,
            shifts: [false; 2],
            controls: [false; 2],
            has_caps_lock: false,
            has_num_lock: true,
        }
    }

    /// Takes a byte of the keyboard controller.
    pub fn byte(&mut self, byte: u8) -> Option<Key> {
        let prefix = core::mem::replace(&mut self.prefix, Prefix::None);
        match (prefix, byte) {
            (Prefix::Pause(left), _) => {
                if left > 1 {
                    self.prefix = Prefix::Pause(left - 1);
                }
                None
            }
            (_, 0xe0) => {
                self.prefix = Prefix::Extended;
                None
            }
            (_, 0xe1) => {
                self.prefix = Prefix::Pause(2);
                None
            }
            (Prefix::None, _) => self.basic(byte),
            (Prefix::Extended, _) => self.extended(byte),
        }
    }

    fn basic(&mut self, byte: u8) -> Option<Key> {
        let (code, is_down) = (byte & 0x7f, byte & 0x80 == 0);
        match code {
            0x2a => self.shifts[0] = is_down,
            0x36 => self.shifts[1] = is_down,
            0x1d => self.controls[0] = is_down,
            0x3a => self.has_caps_lock ^= is_down,
            0x45 => self.has_num_lock ^= is_down,
            _ if is_down => return self.pressed(code),
            _ => {}
        }
        None
    }

    fn extended(&mut self, byte: u8) -> Option<Key> {
        let (code, is_down) = (byte & 0x7f, byte & 0x80 == 0);
        if code == 0x1d {
            self.controls[1] = is_down;
        }
        // Shift with the prefix is made up by the keyboard around keys that the first PCs had on the keypad.
        if !is_down {
            return None;
        }
        match code {
            0x1c => Some(Key::Enter),
            0x35 => Some(Key::Char('/')),
            _ => moves(code),
        }
    }

    fn pressed(&self, code: u8) -> Option<Key> {
        if self.controls.contains(&true) {
            return (code == 0x26).then_some(Key::Redraw);
        }
        match code {
            0x01 => return Some(Key::Escape),
            0x0e => return Some(Key::Backspace),
            0x0f => return Some(Key::Tab),
            0x1c => return Some(Key::Enter),
            0x37 => return Some(Key::Char('*')),
            0x4a => return Some(Key::Char('-')),
            0x4e => return Some(Key::Char('+')),
            0x3b..=0x44 => return Some(Key::Function(code - 0x3a)),
            0x57 | 0x58 => return Some(Key::Function(code - 0x4c)),
            0x47..=0x53 => return self.keypad(code),
            _ => {}
        }
        let plain = char::from(*UNSHIFTED.get(usize::from(code))?);
        let has_shift = self.shifts.contains(&true);
        let face = match (plain.is_ascii_alphabetic(), has_shift) {
            (true, _) if has_shift != self.has_caps_lock => plain.to_ascii_uppercase(),
            (false, true) => char::from(*SHIFTED.get(usize::from(code))?),
            _ => plain,
        };
        (face != NOTHING).then_some(Key::Char(face))
    }

    fn keypad(&self, code: u8) -> Option<Key> {
        let digit = char::from(*KEYPAD.get(usize::from(code.checked_sub(0x47)?))?);
        if self.has_num_lock && digit != NOTHING { Some(Key::Char(digit)) } else { moves(code) }
    }
}

impl Default for Ps2Keys {
    fn default() -> Self {
        Self::new()
    }
}

/// The keys between letters and keypad, and the keypad without Num Lock.
fn moves(code: u8) -> Option<Key> {
    let key = match code {
        0x47 => Key::Home,
        0x48 => Key::Up,
        0x49 => Key::PageUp,
        0x4b => Key::Left,
        0x4d => Key::Right,
        0x4f => Key::End,
        0x50 => Key::Down,
        0x51 => Key::PageDown,
        0x53 => Key::Delete,
        _ => return None,
    };
    Some(key)
}

/// Stands in the tables where a code has no character.
const NOTHING: char = '\0';
/// Characters by scan code, from 0.
const UNSHIFTED: &[u8; 58] = b"\0\x001234567890-=\0\0qwertyuiop[]\0\0asdfghjkl;'`\0\\zxcvbnm,./\0\0\0 ";
const SHIFTED: &[u8; 58] = b"\0\0!@#$%^&*()_+\0\0QWERTYUIOP{}\0\0ASDFGHJKL:\"~\0|ZXCVBNM<>?\0\0\0 ";
/// From code 0x47.
const KEYPAD: &[u8; 13] = b"789\x00456\x001230.";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Ps2Keys::new();
        bytes.iter().filter_map(|byte| decoder.byte(*byte)).collect()
    }

    fn text(bytes: &[u8]) -> String {
        let face = |key: &Key| match key {
            Key::Char(face) => *face,
            other => panic!("{other:?}"),
        };
        keys(bytes).iter().map(face).collect()
    }

    #[test]
    fn letters_digits_and_signs() {
        assert_eq!(text(&[0x1e, 0x9e, 0x30, 0xb0, 0x02, 0x0b, 0x35, 0x34, 0x0c, 0x39]), "ab10/.- ");
        assert_eq!(text(&[0x2a, 0x1e, 0x35, 0x03, 0x0c, 0xaa, 0x1e]), "A?@_a", "with Shift and without");
        assert_eq!(text(&[0x36, 0x10, 0xb6, 0x10]), "Qq", "the other Shift");
        assert_eq!(text(&[0x3a, 0xba, 0x1e, 0x02, 0x2a, 0x1e, 0xaa, 0x3a, 0x1e]), "A1aa", "Caps Lock");
    }

    #[test]
    fn keys_that_move() {
        use Key::{Down, End, Home, Left, PageDown, PageUp, Right, Up};
        let all = [0x48, 0x50, 0x4b, 0x4d, 0x49, 0x51, 0x47, 0x4f];
        let extended: Vec<u8> = all.iter().flat_map(|code| [0xe0, *code, 0xe0, code | 0x80]).collect();
        assert_eq!(keys(&extended), [Up, Down, Left, Right, PageUp, PageDown, Home, End]);
        assert_eq!(text(&all), "82469371", "the keypad has digits");
        let without: Vec<u8> = [0x45, 0xc5].into_iter().chain(all).collect();
        assert_eq!(keys(&without), [Up, Down, Left, Right, PageUp, PageDown, Home, End]);
        assert_eq!(
            keys(&[0xe0, 0x2a, 0xe0, 0x48, 0xe0, 0xaa, 0x1e]),
            [Up, Key::Char('a')],
            "no Shift is held"
        );
    }

    #[test]
    fn named_keys() {
        let expected = [Key::Escape, Key::Enter, Key::Enter, Key::Tab, Key::Backspace];
        assert_eq!(keys(&[0x01, 0x1c, 0xe0, 0x1c, 0x0f, 0x0e]), expected);
        assert_eq!(keys(&[0x3b, 0x44, 0x57, 0x58]), [1, 10, 11, 12].map(Key::Function));
        assert_eq!(keys(&[0x1d, 0x26, 0x1e, 0x9d, 0x26]), [Key::Redraw, Key::Char('l')], "Ctrl-L");
        assert_eq!(text(&[0xe0, 0x35, 0x37, 0x4e]), "/*+");
    }

    #[test]
    fn pause_and_nonsense_are_passed_over() {
        assert_eq!(keys(&[0xe1, 0x1d, 0x45, 0xe1, 0x9d, 0xc5, 0x1e]), [Key::Char('a')]);
        assert_eq!(keys(&[0xe0, 0x46, 0xfa, 0xfe, 0x00, 0x7f, 0x5b, 0x1e]), [Key::Char('a')]);
        let mut decoder = Ps2Keys::new();
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let found = [decoder.byte(first), decoder.byte(second)];
                let is_plain =
                    |key: Option<Key>| !matches!(key, Some(Key::Char(face)) if !(' '..='~').contains(&face));
                assert!(found.into_iter().all(is_plain), "{first:#x} {second:#x}");
            }
        }
    }
}

//! Keys, from a serial line or from a PC's keyboard, which delivers scan codes of set 1.
//!
//! The layout of the PC's keyboard is the US one. Every sign that the screens ask for has a second key, because other layouts have it elsewhere.

mod serial;

pub use serial::SerialKeys;

use pc_keyboard::layouts::Us104Key;
use pc_keyboard::{DecodedKey, HandleControl, KeyCode, Modifiers, PS2Keyboard, ScancodeSet1};

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// A letter, in lower case, with the control key.
    Ctrl(char),
    /// A printable character with the Alt key.
    Alt(char),
    /// Return.
    Enter,
    /// Escape.
    Escape,
    /// Backspace, or Delete where a terminal sends it for Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Tabulator.
    Tab,
    /// Tabulator with the shift key.
    BackTab,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// A function key, 1 to 12.
    Function(u8),
}

impl Key {
    /// Ctrl-L: draw everything again.
    pub const REDRAW: Self = Self::Ctrl('l');

    /// The letter of a control character, U+0001 to U+001A.
    fn control(code: u8) -> Self {
        Self::Ctrl(char::from(code | 0x60))
    }
}

/// Input from a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A key.
    Key(Key),
    /// The terminal says its size (see [`Terminal::set_size`](crate::Terminal::set_size)).
    Size {
        /// Its rows.
        rows: u16,
        /// Its columns.
        columns: u16,
    },
}

/// Decoder of scan codes. Unknown codes are ignored.
pub struct Ps2Keys(PS2Keyboard<Us104Key, ScancodeSet1>);

impl Ps2Keys {
    /// No key is held down, and Num Lock is on.
    pub const fn new() -> Self {
        Self(PS2Keyboard::new(ScancodeSet1::new(), Us104Key, HandleControl::MapLettersToUnicode))
    }

    /// Takes a byte of the keyboard controller.
    pub fn byte(&mut self, byte: u8) -> Option<Key> {
        let event = self.0.add_byte(byte).ok()??;
        match self.0.process_keyevent(event)? {
            DecodedKey::Unicode(c) => of_character(c, self.0.get_modifiers()),
            DecodedKey::RawKey(code) => of_code(code),
        }
    }
}

impl Default for Ps2Keys {
    fn default() -> Self {
        Self::new()
    }
}

fn of_character(character: char, held: &Modifiers) -> Option<Key> {
    Some(match character {
        // The layout makes control characters of letters only.
        '\u{1}'..='\u{1a}' if held.is_ctrl() => Key::control(character as u8),
        _ if held.is_ctrl() => return None,
        '\t' if held.is_shifted() => Key::BackTab,
        ' '..='~' if held.lalt => Key::Alt(character),
        '\n' => Key::Enter,
        '\t' => Key::Tab,
        '\u{8}' => Key::Backspace,
        '\u{1b}' => Key::Escape,
        '\u{7f}' => Key::Delete,
        ' '..='~' => Key::Char(character),
        _ => return None,
    })
}

fn of_code(code: KeyCode) -> Option<Key> {
    Some(match code {
        KeyCode::ArrowUp => Key::Up,
        KeyCode::ArrowDown => Key::Down,
        KeyCode::ArrowLeft => Key::Left,
        KeyCode::ArrowRight => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        code if (KeyCode::F1..=KeyCode::F12).contains(&code) => {
            Key::Function(code as u8 - KeyCode::F1 as u8 + 1)
        }
        _ => return None,
    })
}

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
        let with_ctrl = [Key::REDRAW, Key::Ctrl('a'), Key::Char('l')];
        assert_eq!(keys(&[0x1d, 0x26, 0x1e, 0x9d, 0x26]), with_ctrl);
        assert_eq!(keys(&[0x38, 0x02, 0xb8, 0x2a, 0x0f]), [Key::Alt('1'), Key::BackTab]);
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

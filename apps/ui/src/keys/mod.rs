//! Keys, from a serial line or from a PC's keyboard.

mod ps2;
mod serial;

pub use ps2::Ps2Keys;
pub use serial::SerialKeys;

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

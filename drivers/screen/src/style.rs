//! Colours and styles of characters.

/// A colour of a PC's text mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Colour {
    /// Black.
    Black,
    /// Dark blue.
    Blue,
    /// Dark green.
    Green,
    /// Dark cyan.
    Cyan,
    /// Dark red.
    Red,
    /// Dark magenta.
    Magenta,
    /// Brown.
    Brown,
    /// Light grey: what text has that says nothing special.
    LightGrey,
    /// Dark grey.
    DarkGrey,
    /// Light blue.
    LightBlue,
    /// Light green.
    LightGreen,
    /// Light cyan.
    LightCyan,
    /// Light red.
    LightRed,
    /// Light magenta.
    LightMagenta,
    /// Yellow.
    Yellow,
    /// White.
    White,
}

/// The two colours of a cell, as VGA's attribute byte: background in bits 4 to 6, character in bits 0 to 3. Bit 7 would
/// make it blink and is never set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(u8);

impl Style {
    /// A light background becomes its dark one.
    pub const fn new(front: Colour, back: Colour) -> Self {
        Self((back as u8 & 7) << 4 | front as u8)
    }

    /// VGA's attribute byte.
    pub const fn attribute(self) -> u8 {
        self.0
    }

    /// The character's colour, 0 to 15.
    pub(crate) const fn front(self) -> u8 {
        self.0 & 0x0f
    }

    /// The background's colour, 0 to 7.
    pub(crate) const fn back(self) -> u8 {
        self.0 >> 4 & 7
    }

    /// Labels, and text that says nothing special.
    pub const PLAIN: Self = Self::new(Colour::LightGrey, Colour::Black);
    /// Values.
    pub const STRONG: Self = Self::new(Colour::White, Colour::Black);
    /// Less important text.
    pub const QUIET: Self = Self::new(Colour::DarkGrey, Colour::Black);
    /// Headings of columns, bars.
    pub const HEADING: Self = Self::new(Colour::Cyan, Colour::Black);
    /// The first line.
    pub const TITLE: Self = Self::new(Colour::White, Colour::Blue);
    /// The last line, and the page that is shown.
    pub const BAR: Self = Self::new(Colour::Black, Colour::LightGrey);
    /// A key, in the last line.
    pub const KEY: Self = Self::new(Colour::Blue, Colour::LightGrey);
    /// As it should be.
    pub const GOOD: Self = Self::new(Colour::LightGreen, Colour::Black);
    /// To be looked at.
    pub const WARNING: Self = Self::new(Colour::Yellow, Colour::Black);
    /// Not as it should be.
    pub const BAD: Self = Self::new(Colour::LightRed, Colour::Black);
    /// Alarm.
    pub const ALARM: Self = Self::new(Colour::White, Colour::Red);
}

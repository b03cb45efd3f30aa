//! Styles of characters, and the colours that each back end gives them.

/// Meaning of a character's colours. Each back end has its own look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Labels, and text that says nothing special.
    Plain,
    /// Values, headings of the phone's lists.
    Strong,
    /// Less important text.
    Quiet,
    /// Headings of columns, bars.
    Heading,
    /// The first line.
    Title,
    /// The last line, the page that is shown, the selected line of a list.
    Bar,
    /// A key, in the last line.
    Key,
    /// Text that can be edited.
    Field,
    /// As it should be.
    Good,
    /// To be looked at.
    Warning,
    /// Not as it should be.
    Bad,
    /// Alarm.
    Alarm,
}

/// Colours that a terminal is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Palette {
    /// The ones of a PC's text mode, on black.
    Pc,
    /// The terminal's own, which its user has chosen.
    Own,
}

impl Style {
    /// VGA's attribute byte: background in bits 4 to 6, character in bits 0 to 3. Bit 7 would make it blink and is never
    /// set.
    pub const fn attribute(self) -> u8 {
        match self {
            Self::Plain => 0x07,
            Self::Strong => 0x0f,
            Self::Quiet => 0x08,
            Self::Heading => 0x03,
            Self::Title => 0x1f,
            Self::Bar => 0x70,
            Self::Key => 0x71,
            Self::Field => 0x30,
            Self::Good => 0x0a,
            Self::Warning => 0x0e,
            Self::Bad => 0x0c,
            Self::Alarm => 0x4f,
        }
    }

    /// Parameters of the SGR command (ECMA-48 §8.3.117) with a terminal's own colours.
    pub(crate) const fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Strong => "0;1",
            Self::Quiet => "0;90",
            Self::Heading => "0;36",
            Self::Title => "0;97;44",
            Self::Bar => "0;7",
            Self::Key => "0;7;1",
            Self::Field => "0;4",
            Self::Good => "0;1;32",
            Self::Warning => "0;1;33",
            Self::Bad => "0;1;31",
            Self::Alarm => "0;1;30;43",
        }
    }

    /// A style in which a blank looks the same.
    pub(crate) const fn of_blank(self) -> Self {
        match self {
            Self::Plain
            | Self::Strong
            | Self::Quiet
            | Self::Heading
            | Self::Good
            | Self::Warning
            | Self::Bad => Self::Plain,
            Self::Bar | Self::Key => Self::Bar,
            Self::Title => Self::Title,
            Self::Field => Self::Field,
            Self::Alarm => Self::Alarm,
        }
    }
}

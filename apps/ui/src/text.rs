//! Text that is safe to show. What comes from the network may hold escape sequences, characters that turn the reading
//! direction around, letters nobody sees and marks piled up by the thousand. Text made safe and short, to keep; code
//! page 437, the character set of a PC's text mode.
//!
//! Only 0x20 to 0x7e and 0x80 to 0xfe are used: lower codes are pictures on a PC and control characters on a terminal.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use unicode_width::UnicodeWidthChar;

/// Text with nothing in it that a terminal would obey. There is no other way to make one than [`Shown::new`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shown(String);

impl Shown {
    /// `text` up to `chars_max` characters. What a terminal or a reader's eye would obey is shown as U+FFFD.
    pub(crate) fn new(text: &str, chars_max: usize) -> Self {
        let mut shown = String::new();
        let mut marks = 0;
        for (index, c) in text.chars().enumerate() {
            if index == chars_max {
                shown.push('…');
                break;
            }
            if is_joiner(c) {
                continue;
            }
            if is_obeyed(c) {
                marks = 0;
                shown.push(char::REPLACEMENT_CHARACTER);
            } else if c.width() == Some(0) {
                marks += 1;
                if marks <= MARKS_MAX && !shown.is_empty() {
                    shown.push(c);
                }
            } else {
                marks = 0;
                shown.push(c);
            }
        }
        Self(shown)
    }

    /// The same of bytes that should be UTF-8.
    pub(crate) fn from_bytes(bytes: &[u8], chars_max: usize) -> Self {
        // A character has at most four bytes: what is behind that many cannot be needed.
        let enough = bytes.get(..chars_max.saturating_add(1).saturating_mul(4)).unwrap_or(bytes);
        Self::new(&String::from_utf8_lossy(enough), chars_max)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// True for a character that a person may type into a field.
pub(crate) fn is_typeable(c: char) -> bool {
    matches!(c, ' '..='~') || !is_obeyed(c)
}

/// Columns of a character: 0, 1 or 2.
pub(crate) fn width_of(c: char) -> usize {
    if c.is_ascii() { 1 } else { c.width().unwrap_or(0) }
}

/// Number of columns of `text`: the sum of its characters, because each has cells of its own.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// `text` in at most `columns`; what is cut is marked with `…`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += width_of(c);
        if used > columns {
            break;
        }
        short.push(c);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// The part of `text` that fits `columns`, up to a blank, and the rest.
pub(crate) fn split(text: &str, columns: usize) -> (&str, &str) {
    let (mut used, mut at) = (0, None);
    for (index, c) in text.char_indices() {
        used += width_of(c);
        if used > columns {
            let (first, rest) = text.split_at_checked(at.unwrap_or(index)).unwrap_or((text, ""));
            return (first, rest.trim_start());
        }
        if c == ' ' {
            at = Some(index);
        }
    }
    (text, "")
}

/// `text` in exactly `columns`.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let mut padded = cut(text, columns);
    padded.extend(core::iter::repeat_n(' ', columns.saturating_sub(width(&padded))));
    padded
}

/// Accents and vowel signs that may stand on one letter; more are left out.
const MARKS_MAX: usize = 2;

/// Variation selectors and the zero-width joiner of emoji. Without them each part of a cluster is drawn separately.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{200d}')
}

/// True for control and format characters (Unicode's Cc, Cf, Zl, Zp), and for selectors that change the width of a letter.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Up to `N` characters of code page 437, without control characters. Longer text ends with `~`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clip<const N: usize> {
    codes: [u8; N],
    length: usize,
}

impl<const N: usize> Clip<N> {
    /// An empty text.
    pub const EMPTY: Self = Self { codes: [0; N], length: 0 };

    /// From bytes that should be UTF-8; invalid bytes, and characters that code page 437 lacks, are `?`.
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        let mut clip = Self::EMPTY;
        each_code(text.as_ref(), |code| clip.push(code));
        clip
    }

    /// From a formatted value.
    pub fn of(value: impl fmt::Display) -> Self {
        let mut clip = Self::EMPTY;
        // Writing into a clip does not fail; a value whose formatting fails has written a part.
        let _ = fmt::write(&mut clip, format_args!("{value}"));
        clip
    }

    /// The characters, as codes of code page 437.
    pub fn codes(&self) -> &[u8] {
        self.codes.get(..self.length).unwrap_or_default()
    }

    /// False: there is no room for more, and the end is marked.
    fn push(&mut self, code: u8) -> bool {
        if let Some(place) = self.codes.get_mut(self.length) {
            *place = code;
            self.length += 1;
            return true;
        }
        if let Some(last) = self.codes.last_mut() {
            *last = CUT as u8;
        }
        false
    }
}

impl<const N: usize> fmt::Write for Clip<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        each_code(text.as_bytes(), |code| self.push(code));
        Ok(())
    }
}

/// Passes the code of each character to `take` until it returns false. All text gets into cells through this function.
pub(crate) fn each_code(text: &[u8], mut take: impl FnMut(u8) -> bool) {
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            if !take(code(c)) {
                return;
            }
        }
        if !chunk.invalid().is_empty() && !take(UNKNOWN) {
            return;
        }
    }
}

/// Replacement for characters that code page 437 lacks.
pub(crate) const UNKNOWN: u8 = b'?';
/// Character of a blank cell.
pub(crate) const BLANK: u8 = b' ';

/// The code of a character; [`UNKNOWN`] for one without a code, control characters included.
pub(crate) fn code(c: char) -> u8 {
    match c {
        ' '..='~' => c as u8,
        _ => {
            let place = HIGH.iter().position(|high| *high == c);
            place.and_then(|place| u8::try_from(place + FIRST_HIGH).ok()).unwrap_or(UNKNOWN)
        }
    }
}

/// The code of a character, or of one that looks like it.
pub(crate) fn similar(c: char) -> u8 {
    match c {
        '…' => b'~',
        '•' | '∙' => code('∙'),
        '▁' | '▂' => b'_',
        '▃' | '▅' => code('▄'),
        '▆' | '▇' => code('█'),
        '►' => b'>',
        '◄' => b'<',
        '—' | '–' => b'-',
        '’' | '‘' => b'\'',
        '“' | '”' => b'"',
        _ => code(c),
    }
}

/// The character of a code.
pub(crate) fn character(code: u8) -> char {
    match code {
        b' '..=b'~' => char::from(code),
        _ => {
            let place = usize::from(code).checked_sub(FIRST_HIGH);
            place.and_then(|place| HIGH.get(place)).copied().unwrap_or(char::from(UNKNOWN))
        }
    }
}

/// Mark of text that was cut.
pub(crate) const CUT: char = '~';
const FIRST_HIGH: usize = 0x80;

/// 0x80 to 0xfe. The last, 0xff, is left out: it looks like a blank.
#[rustfmt::skip]
const HIGH: [char; 127] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', '¢', '£', '¥', '₧', 'ƒ',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '⌐', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■',
];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let hostile = "\u{1b}[2J\u{1b}]0;gone\u{7}bob\u{202e}moc\u{200b}.\u{9b}31m\r\n\u{e0041}\u{2066}";
        let shown = Shown::new(hostile, 100);
        assert!(!shown.as_str().chars().any(is_obeyed), "{shown:?}");
        assert_eq!(shown.as_str().chars().count(), hostile.chars().count());
        assert!(shown.as_str().contains("[2J") && shown.as_str().contains("bob"));
    }

    #[test]
    fn every_control_character_is_replaced() {
        for code in (0..0x20).chain(0x7f..0xa0) {
            let c = char::from_u32(code).unwrap();
            assert_eq!(Shown::new(&c.to_string(), 1).as_str(), "\u{fffd}", "{code:#x}");
        }
    }

    #[test]
    fn marks_do_not_pile_up_and_length_has_an_end() {
        let tower = format!("a{}", "\u{301}".repeat(10_000));
        assert_eq!(Shown::new(&tower, 20_000).as_str(), "a\u{301}\u{301}");
        assert_eq!(Shown::new(&"x".repeat(10_000), 5).as_str(), "xxxxx…");
        assert_eq!(Shown::from_bytes(b"a\xff\xfeb", 10).as_str(), "a\u{fffd}\u{fffd}b");
        assert_eq!(Shown::from_bytes("ééééé".as_bytes(), 2).as_str(), "éé…");
    }

    #[test]
    fn width_counts_columns_not_letters() {
        assert_eq!(cut("山田太郎", 5), "山田…");
        assert_eq!(pad("山田太郎", 6), "山田… ");
        assert_eq!(pad("ab", 4), "ab  ");
        // Each character of a cluster has columns of its own, as in the cells.
        for (name, columns) in [("👍🏽", 4), ("🇩🇪", 2), ("❤\u{fe0f}", 1), ("👩\u{200d}🔬", 4), ("한글", 4)]
        {
            assert_eq!(width(Shown::new(name, 10).as_str()), columns, "{name}");
        }
        assert_eq!(
            (cut("abc", 3).as_str(), cut("abc", 2).as_str(), cut("abc", 0).as_str()),
            ("abc", "a…", "")
        );
    }

    #[test]
    fn long_text_is_marked_and_bad_text_is_replaced() {
        assert_eq!(Clip::<4>::new("bob").codes(), b"bob");
        assert_eq!(Clip::<4>::new("bobb").codes(), b"bobb");
        assert_eq!(Clip::<4>::new("bobby").codes(), b"bob~");
        assert_eq!(Clip::<9>::new(b"a\xff\xfeb\x1b[2J").codes(), b"a??b?[2J");
        assert_eq!(Clip::<9>::new("Zoë").codes(), b"Zo\x89");
        assert_eq!(Clip::<0>::new("x").codes(), b"");
        assert_eq!(Clip::<5>::of(format_args!("{}-{}", 12, "x")).codes(), b"12-x");
    }

    #[test]
    fn every_code_is_its_characters_and_no_other() {
        for value in (0x20..=0x7e).chain(0x80..=0xfe) {
            assert_eq!(code(character(value)), value, "{value:#x}");
            assert!(!character(value).is_control());
        }
        let places =
            [('é', 0x82), ('░', 0xb0), ('└', 0xc0), ('─', 0xc4), ('█', 0xdb), ('ß', 0xe1), ('■', 0xfe)];
        for (c, value) in places {
            assert_eq!(code(c), value, "{c}");
        }
    }

    #[test]
    fn what_has_no_code_is_a_question_mark() {
        for c in "\0\u{7}\u{8}\t\n\r\u{1b}\u{7f}\u{80}\u{9b}\u{a0}\u{202e}\u{200b}山\u{301}\u{feff}😀".chars()
        {
            assert_eq!(code(c), UNKNOWN, "{c:?}");
        }
        for value in (0..0x20).chain([0x7f, 0xff]) {
            assert_eq!(character(value), '?', "{value:#x}");
        }
    }
}

//! Code page 437, the character set of a PC's text mode.
//!
//! Only 0x20 to 0x7e and 0x80 to 0xfe are used: lower codes are pictures on a PC and control characters on a terminal.

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

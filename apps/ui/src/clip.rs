//! Text made safe and short, to keep.

use crate::cp437;
use core::fmt;

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
            if !take(cp437::code(c)) {
                return;
            }
        }
        if !chunk.invalid().is_empty() && !take(cp437::UNKNOWN) {
            return;
        }
    }
}

/// Mark of text that was cut.
pub(crate) const CUT: char = '~';

#[cfg(test)]
mod tests {
    use super::*;

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
}

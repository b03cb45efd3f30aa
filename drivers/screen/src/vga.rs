//! VGA text memory.

use crate::cells::Cells;
use alloc::boxed::Box;
use alloc::vec;

/// Copy of VGA's text memory. Writing to it is slow (it is not cached): only changed words are written.
#[derive(Clone, Debug)]
pub struct Vga {
    /// Words in the memory; `None`: unknown.
    words: Box<[Option<u16>]>,
}

impl Vga {
    /// A memory with unknown contents: the first drawing writes all of it.
    pub fn new() -> Self {
        Self { words: vec![None; Cells::COUNT].into_boxed_slice() }
    }

    /// Marks the memory as overwritten: the next drawing writes all of it.
    pub fn redraw(&mut self) {
        self.words.fill(None);
    }

    /// Calls `put` for each word that changed, with its index in the memory (in words, from 0) and its value, the
    /// character in the low byte and the attribute in the high one.
    pub fn draw(&mut self, cells: &Cells, mut put: impl FnMut(usize, u16)) {
        for (index, (known, cell)) in self.words.iter_mut().zip(cells.all()).enumerate() {
            let word = u16::from_be_bytes([cell.style().attribute(), cell.code()]);
            if *known != Some(word) {
                *known = Some(word);
                put(index, word);
            }
        }
    }
}

impl Default for Vga {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Style;
    use alloc::vec::Vec;

    fn drawn(vga: &mut Vga, cells: &Cells) -> Vec<(usize, u16)> {
        let mut words = Vec::new();
        vga.draw(cells, |index, word| words.push((index, word)));
        words
    }

    #[test]
    fn only_changes_are_written() {
        let (mut vga, mut cells) = (Vga::new(), Cells::new());
        let first = drawn(&mut vga, &cells);
        assert_eq!(first.len(), 2000);
        assert!(first.iter().enumerate().all(|(at, word)| *word == (at, 0x0720)));
        assert_eq!(drawn(&mut vga, &cells), []);
        cells.text(78, 1, 2, Style::TITLE, "é");
        assert_eq!(drawn(&mut vga, &cells), [(158, 0x1f82)]);
        cells.text(78, 1, 2, Style::BAD, "é");
        assert_eq!(drawn(&mut vga, &cells), [(158, 0x0c82)]);
        assert_eq!(drawn(&mut vga, &cells), []);
        vga.redraw();
        assert_eq!(drawn(&mut vga, &cells).len(), 2000);
    }
}

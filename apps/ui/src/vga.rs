//! VGA text memory.

use crate::cells::{Cell, Cells};
use alloc::boxed::Box;
use alloc::vec;

/// Copy of VGA's text memory. Writing to it is slow (it is not cached): only changed words are written.
#[derive(Clone, Debug)]
pub struct Vga {
    /// Cells in the memory; `None`: unknown.
    shown: Box<[Option<Cell>]>,
    /// Index of the cell that is shown as the cursor.
    cursor: Option<usize>,
}

impl Vga {
    /// A memory with unknown contents: the first drawing writes all of it.
    pub fn new() -> Self {
        Self { shown: vec![None; Cells::COUNT].into_boxed_slice(), cursor: None }
    }

    /// Marks the memory as overwritten: the next drawing writes all of it.
    pub fn redraw(&mut self) {
        self.shown.fill(None);
    }

    /// Calls `put` for each word that changed, with its index in the memory (in words, from 0) and its value, the
    /// character in the low byte and the attribute in the high one. The cursor's cell has its colours exchanged.
    pub fn draw(&mut self, cells: &Cells, mut put: impl FnMut(usize, u16)) {
        let before = core::mem::replace(&mut self.cursor, cells.cursor());
        if before != self.cursor
            && let Some(shown) = before.and_then(|index| self.shown.get_mut(index))
        {
            *shown = None;
        }
        for (index, (shown, cell)) in self.shown.iter_mut().zip(cells.all()).enumerate() {
            let is_cursor = self.cursor == Some(index) && before != self.cursor;
            if *shown != Some(*cell) || is_cursor {
                *shown = Some(*cell);
                let attribute = cell.style().attribute();
                let attribute = match self.cursor == Some(index) {
                    true => (attribute & 0x07) << 4 | attribute >> 4,
                    false => attribute,
                };
                put(index, u16::from_be_bytes([attribute, cell.code()]));
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
        cells.text(78, 1, 2, Style::Title, "é");
        assert_eq!(drawn(&mut vga, &cells), [(158, 0x1f82)]);
        cells.text(78, 1, 2, Style::Bad, "é");
        assert_eq!(drawn(&mut vga, &cells), [(158, 0x0c82)]);
        assert_eq!(drawn(&mut vga, &cells), []);
        vga.redraw();
        assert_eq!(drawn(&mut vga, &cells).len(), 2000);
    }
}

//! One line that a person types into.

use crate::keys::Key;
use crate::text::{self, is_typeable};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The longest text of a field, in characters.
const CHARS_MAX: usize = 512;

/// A text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    chars: Vec<char>,
    /// Index of the character behind the cursor; at most their number.
    cursor: usize,
}

impl Field {
    /// A field that holds `text`, the cursor behind it.
    pub(crate) fn new(text: &str) -> Self {
        let mut field = Self::default();
        field.insert(text);
        field
    }

    /// Inserts what was typed or pasted; line ends, controls and what is too long are left out.
    pub(crate) fn insert(&mut self, text: &str) {
        for c in text.chars().filter(|c| is_typeable(*c)) {
            if self.chars.len() < CHARS_MAX {
                self.chars.insert(self.cursor, c);
                self.cursor += 1;
            }
        }
    }

    /// Does what `key` does in a text; false: nothing, the key means something else.
    pub(crate) fn press(&mut self, key: Key) -> bool {
        let end = self.chars.len();
        match key {
            Key::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(end),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = end,
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            Key::Delete if self.cursor < end => {
                self.chars.remove(self.cursor);
            }
            Key::Ctrl('u') => *self = Self::default(),
            Key::Backspace | Key::Delete => {}
            Key::Ctrl(_)
            | Key::Alt(_)
            | Key::Function(_)
            | Key::Enter
            | Key::Escape
            | Key::Tab
            | Key::BackTab
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown => return false,
        }
        true
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    /// The part of it that is visible in `columns`, and the column of the cursor.
    pub(crate) fn window(&self, columns: usize) -> (String, usize) {
        Self::window_of(&self.chars, self.cursor, columns)
    }

    /// The same with a dot for each character.
    pub(crate) fn hidden_window(&self, columns: usize) -> (String, usize) {
        Self::window_of(&vec!['•'; self.chars.len()], self.cursor, columns)
    }

    fn window_of(chars: &[char], cursor: usize, columns: usize) -> (String, usize) {
        let before: String = chars.iter().take(cursor).collect();
        let mut left: &str = &before;
        // The cursor needs a column too.
        while text::width(left) + 1 > columns && !left.is_empty() {
            left = left.strip_prefix(|_: char| true).unwrap_or_default();
        }
        let column = text::width(left);
        let mut seen = left.to_owned();
        for c in chars.iter().skip(cursor) {
            seen.push(*c);
            if text::width(&seen) > columns {
                seen.pop();
                break;
            }
        }
        (seen, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_text_is_edited_in_its_middle() {
        let mut field = Field::new("sip:bo@x");
        for key in [Key::Left, Key::Left, Key::Char('b'), Key::End, Key::Char('y')] {
            assert!(field.press(key));
        }
        assert_eq!(field.text(), "sip:bob@xy");
        for key in [Key::Home, Key::Delete, Key::End, Key::Backspace, Key::Right] {
            assert!(field.press(key));
        }
        assert_eq!(field.text(), "ip:bob@x");
        assert!(!field.press(Key::Enter) && field.press(Key::Ctrl('u')) && field.is_empty());
        assert!(field.press(Key::Backspace) && field.press(Key::Delete) && field.press(Key::Left));
    }

    #[test]
    fn what_is_pasted_has_no_controls_and_an_end() {
        let mut field = Field::default();
        field.insert(&format!("a\u{1b}[31m\nb\u{202e}{}", "é".repeat(10_000)));
        assert!(field.text().starts_with("a[31mbé"));
        assert_eq!(field.text().chars().count(), CHARS_MAX);
    }

    #[test]
    fn the_cursor_is_always_in_the_window() {
        let mut field = Field::new("山田太郎@example.org");
        assert_eq!(field.window(8), ("ple.org".to_owned(), 7));
        field.press(Key::Home);
        assert_eq!(field.window(8), ("山田太郎".to_owned(), 0));
        assert_eq!(field.hidden_window(4), ("••••".to_owned(), 0));
        assert_eq!(field.window(0), (String::new(), 0));
    }
}

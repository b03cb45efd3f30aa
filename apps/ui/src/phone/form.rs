//! A few fields under each other, one of which takes the keys; a field is one line that a person types into.

use crate::keys::Key;
use crate::text::{self, is_typeable};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// One line of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Text(Field),
    /// A password: only its length is seen.
    Hidden(Field),
    /// One of a few words.
    Choice {
        words: &'static [&'static str],
        chosen: usize,
    },
}

/// Effect of a key on a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressed {
    /// The form took it.
    Taken,
    /// The person is done.
    Submit,
    /// The person does not want it after all.
    Cancel,
    /// It means nothing here.
    Ignored,
}

/// The fields; one of them has the focus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Each with its label; at least one.
    pub(crate) entries: Vec<(&'static str, Entry)>,
    pub(crate) focus: usize,
    /// The error in it.
    pub(crate) error: Option<String>,
}

impl Form {
    pub(crate) fn new(entries: Vec<(&'static str, Entry)>) -> Self {
        Self { entries, focus: 0, error: None }
    }

    pub(crate) fn press(&mut self, key: Key) -> Pressed {
        let count = self.entries.len().max(1);
        match key {
            Key::Enter => return Pressed::Submit,
            Key::Escape => return Pressed::Cancel,
            Key::Down | Key::Tab => self.focus = (self.focus + 1) % count,
            Key::Up | Key::BackTab => self.focus = (self.focus + count - 1) % count,
            _ => return self.press_focused(key),
        }
        Pressed::Taken
    }

    pub(crate) fn paste(&mut self, text: &str) {
        match self.entries.get_mut(self.focus) {
            Some((_, Entry::Text(field) | Entry::Hidden(field))) => field.insert(text),
            Some((_, Entry::Choice { .. })) | None => {}
        }
    }

    /// The text of an entry; of a choice, its word.
    pub(crate) fn text(&self, index: usize) -> String {
        match self.entries.get(index) {
            Some((_, Entry::Text(field) | Entry::Hidden(field))) => field.text(),
            Some((_, Entry::Choice { words, chosen })) => {
                words.get(*chosen).copied().unwrap_or_default().to_owned()
            }
            None => String::new(),
        }
    }

    /// Complains about an entry and puts the cursor there.
    pub(crate) fn complain(&mut self, index: usize, error: impl Into<String>) {
        self.focus = index;
        self.error = Some(error.into());
    }

    fn press_focused(&mut self, key: Key) -> Pressed {
        let taken = match self.entries.get_mut(self.focus) {
            Some((_, Entry::Text(field) | Entry::Hidden(field))) => field.press(key),
            Some((_, Entry::Choice { words, chosen })) => match key {
                Key::Right | Key::Char(' ') => {
                    *chosen = (*chosen + 1) % words.len().max(1);
                    true
                }
                Key::Left => {
                    *chosen = (*chosen + words.len().saturating_sub(1)) % words.len().max(1);
                    true
                }
                // Any other letter typed at a choice is not for the screen behind it.
                Key::Char(c) => {
                    if let Some(place) = words.iter().position(|word| word.starts_with(c)) {
                        *chosen = place;
                    }
                    true
                }
                _ => false,
            },
            None => false,
        };
        if taken { Pressed::Taken } else { Pressed::Ignored }
    }
}

/// A choice that begins at `word`.
pub(crate) fn choice(words: &'static [&'static str], word: &str) -> Entry {
    Entry::Choice { words, chosen: words.iter().position(|known| *known == word).unwrap_or(0) }
}

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

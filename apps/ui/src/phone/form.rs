//! A few fields under each other, one of which takes the keys.

use super::field::Field;
use crate::keys::Key;
use alloc::borrow::ToOwned;
use alloc::string::String;
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

//! Typed values from TOML, with the line of each, and the suggestion for a misspelled word.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Range, RangeInclusive};
use core::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as it was given; or `command line`.
    pub file: String,
    /// Line, from 1; 0 on a command line.
    pub line: usize,
    /// `[section] key`, or the text in its position; the word of a command line; empty when the file is not TOML.
    pub key: String,
    /// The fault, and the remedy.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, key, message } = self;
        match (line, key.as_str()) {
            (0, key) => write!(f, "{file}: {key}: {message}"),
            (line, "") => write!(f, "{file}:{line}: {message}"),
            (line, key) => write!(f, "{file}:{line}: {key}: {message}"),
        }
    }
}

/// Like [`read_document`], with all keys that `read` asked for.
#[cfg(feature = "keys")]
pub fn read_document_with_keys<T>(
    text: &str,
    file: Option<&str>,
    read: impl FnOnce(&mut Reader<'_>, &mut Section<'_, '_>) -> T,
) -> Result<(T, crate::Keys), Vec<ConfigError>> {
    read_with(text, file, read).map(|(values, reader)| (values, reader.keys))
}

/// Reads a whole file: `read` takes the values, from the top. All errors are returned, by line; keys that `read` did
/// not take are errors too. Without `file` the errors name the file that is read by default.
pub fn read_document<T>(
    text: &str,
    file: Option<&str>,
    read: impl FnOnce(&mut Reader<'_>, &mut Section<'_, '_>) -> T,
) -> Result<T, Vec<ConfigError>> {
    read_with(text, file, read).map(|(values, _)| values)
}

fn read_with<'a, T>(
    text: &'a str,
    file: Option<&str>,
    read: impl FnOnce(&mut Reader<'_>, &mut Section<'_, '_>) -> T,
) -> Result<(T, Reader<'a>), Vec<ConfigError>> {
    let mut reader = Reader::new(text, file);
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reader.error(at, "", format!("not TOML: {}; correct the line", error.message()));
            return Err(reader.errors());
        }
    };
    let mut top = Section::top(table.get_ref());
    let values = read(&mut reader, &mut top);
    top.finish(&mut reader);
    if reader.errors.is_empty() { Ok((values, reader)) } else { Err(reader.errors()) }
}

/// Maximum number of sections in a list whose keys are noted each. A longer list is one key, with a hash as its value.
#[cfg(feature = "keys")]
const KEYS_OF_SECTIONS_MAX: usize = 1000;
/// Maximum number of errors of a file.
const ERRORS_MAX: usize = 1000;

/// A file that is being read: finds the line of a byte and collects errors.
pub struct Reader<'a> {
    file: String,
    text: &'a str,
    errors: Vec<ConfigError>,
    #[cfg(feature = "keys")]
    keys: crate::Keys,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, file: Option<&str>) -> Self {
        let file = file.unwrap_or("ringway.toml").to_owned();
        Self {
            file,
            text,
            errors: Vec::new(),
            #[cfg(feature = "keys")]
            keys: crate::Keys::default(),
        }
    }

    /// Adds an error at a byte of the text, unless there are 1,000 already: nobody reads more, and each costs a search of its line.
    pub fn error(&mut self, at: usize, key: impl Into<String>, message: impl Into<String>) {
        if self.errors.len() >= ERRORS_MAX {
            return;
        }
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        self.errors.push(ConfigError {
            file: self.file.clone(),
            line,
            key: key.into().replace(char::is_control, " "),
            message: message.into().replace(char::is_control, " "),
        });
    }

    /// The errors, in the order of their lines.
    fn errors(mut self) -> Vec<ConfigError> {
        self.errors.sort_by_key(|error| error.line);
        self.errors
    }
}

/// A section, or the top of the file, while its keys are read one by one.
pub struct Section<'t, 'i> {
    /// Empty: the top of the file.
    name: &'static str,
    /// Path of its keys in a document, as in `tls.domain.1`; empty at the top.
    #[cfg(feature = "keys")]
    key_path: String,
    table: Option<&'t DeTable<'i>>,
    /// The keys asked for so far.
    known: Vec<&'static str>,
    /// Keys that are not supported on this machine.
    refused: Vec<&'static str>,
    /// The keys that are sections.
    #[cfg(feature = "keys")]
    parts: Vec<&'static str>,
    /// The section is one of a list that is one key, with a hash as its value.
    #[cfg(feature = "keys")]
    is_hashed: bool,
}

impl<'t, 'i> Section<'t, 'i> {
    fn top(table: &'t DeTable<'i>) -> Self {
        Self::with("", Some(table))
    }

    fn with(name: &'static str, table: Option<&'t DeTable<'i>>) -> Self {
        Self {
            name,
            #[cfg(feature = "keys")]
            key_path: name.to_owned(),
            table,
            known: Vec::new(),
            refused: Vec::new(),
            #[cfg(feature = "keys")]
            parts: Vec::new(),
            #[cfg(feature = "keys")]
            is_hashed: false,
        }
    }

    /// The section below this one, with its path.
    #[cfg(feature = "keys")]
    fn below(&self, section: Self, item: Option<usize>) -> Self {
        let mut key_path = self.path_of(section.name);
        if let Some(index) = item {
            let name = section.entry("name").and_then(|(_, value)| value.get_ref().as_str());
            key_path.push('.');
            match name {
                Some(name) => key_path.push_str(name),
                None => key_path.push_str(&format!("{}", index + 1)),
            }
        }
        Self { key_path, is_hashed: section.is_hashed || self.is_hashed, ..section }
    }

    #[cfg(not(feature = "keys"))]
    fn below(&self, section: Self, _item: Option<usize>) -> Self {
        section
    }

    /// Path of a key in the document, as in `auth.realm`.
    #[cfg(feature = "keys")]
    fn path_of(&self, key: &str) -> String {
        if self.key_path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key_path) }
    }

    /// Notes the default of a key whose value is not in the document, for [`Keys`](crate::Keys).
    #[cfg(feature = "keys")]
    pub fn note_default(&self, reader: &mut Reader<'_>, key: &str, default: impl FnOnce() -> String) {
        if self.place(key).is_none() && !self.is_hashed {
            reader.keys.note(self.path_of(key), Some(default()));
        }
    }

    /// Does nothing: the keys are not collected here.
    #[cfg(not(feature = "keys"))]
    pub fn note_default(&self, _: &mut Reader<'_>, _: &str, _: impl FnOnce() -> String) {}

    /// Notes the values of all keys that were asked for.
    #[cfg(feature = "keys")]
    fn note_keys(&self, reader: &mut Reader<'_>) {
        if self.is_hashed {
            return;
        }
        for key in self.known.iter().filter(|key| !self.parts.contains(key)) {
            match self.entry(key) {
                Some((_, value)) => {
                    reader.keys.note(self.path_of(key), crate::keys::written(value.get_ref()));
                }
                None => reader.keys.note_unset(self.path_of(key)),
            }
        }
    }

    /// The section `name`, which may be left out.
    pub fn section(&mut self, reader: &mut Reader<'_>, name: &'static str) -> Self {
        let table = match self.value(name).map(|value| (value.get_ref(), value.span())) {
            None => None,
            Some((DeValue::Table(table), _)) => Some(table),
            Some((_, span)) => {
                reader.error(
                    span.start,
                    name,
                    format!("is a section; write {name} = {{ … }} with its keys, or [{name}] on a line of its own if no other section has it"),
                );
                None
            }
        };
        #[cfg(feature = "keys")]
        self.parts.push(name);
        self.below(Self::with(name, table), None)
    }

    /// The same section, which errors name so: a section of a section has its whole name, as in `tls.acme`.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The sections `[[name]]`, each with its byte offset.
    pub fn sections(&mut self, reader: &mut Reader<'_>, name: &'static str) -> Vec<(Self, usize)> {
        let value = self.value(name);
        #[cfg(feature = "keys")]
        self.parts.push(name);
        let Some(value) = value else { return Vec::new() };
        let mut sections = Vec::new();
        let mut is_wrong = true;
        if let DeValue::Array(items) = value.get_ref() {
            is_wrong = false;
            #[cfg(feature = "keys")]
            let is_hashed = items.len() > KEYS_OF_SECTIONS_MAX;
            #[cfg(feature = "keys")]
            if is_hashed && !self.is_hashed {
                let written =
                    format!("\"{} sections, {:016x}\"", items.len(), crate::keys::hash_of(value.get_ref()));
                reader.keys.note(self.path_of(name), Some(written));
            }
            for item in items {
                match item.get_ref() {
                    DeValue::Table(table) => {
                        let section = Self::with(name, Some(table));
                        #[cfg(feature = "keys")]
                        let section = Self { is_hashed, ..section };
                        sections.push((self.below(section, Some(sections.len())), item.span().start));
                    }
                    _ => is_wrong = true,
                }
            }
        }
        if is_wrong {
            let message = format!("is a list of sections; write [[{name}]] on a line of its own before each");
            reader.error(value.span().start, name, message);
        }
        sections
    }

    /// Byte offset of the value of `key`, if the section has it.
    pub fn place(&self, key: &str) -> Option<usize> {
        self.entry(key).map(|(span, _)| span.start)
    }

    /// Name of `key` in errors.
    pub fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("[{}] {key}", self.name) }
    }

    /// The value of `key`, if it is there.
    pub fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.entry(key).map(|(_, value)| value)
    }

    /// True or false.
    pub fn switch(&mut self, reader: &mut Reader<'_>, key: &'static str, default: bool) -> bool {
        let Some(value) = self.value(key) else {
            self.note_default(reader, key, || format!("{default}"));
            return default;
        };
        match value.get_ref() {
            DeValue::Boolean(is_on) => *is_on,
            other => {
                reader.error(value.span().start, self.path(key), wrong_type("true or false", other));
                default
            }
        }
    }

    /// A whole number within `range`.
    pub fn number(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> u32 {
        let Some(value) = self.value(key) else {
            self.note_default(reader, key, || format!("{default}"));
            return default;
        };
        let at = value.span().start;
        let DeValue::Integer(integer) = value.get_ref() else {
            reader.error(at, self.path(key), wrong_type("a whole number", value.get_ref()));
            return default;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        match number.and_then(|number| u32::try_from(number).ok()).filter(|number| range.contains(number)) {
            Some(number) => number,
            None => {
                let (least, most) = (range.start(), range.end());
                reader.error(
                    at,
                    self.path(key),
                    format!("{integer} is out of range; give {least} to {most}"),
                );
                default
            }
        }
    }

    /// A time in whole seconds within `range`.
    pub fn seconds(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        default: Duration,
        range: RangeInclusive<u32>,
    ) -> Duration {
        let default_s = u32::try_from(default.as_secs()).unwrap_or(u32::MAX);
        Duration::from_secs(u64::from(self.number(reader, key, default_s, range)))
    }

    /// A number within `range`, whole or not.
    pub fn decimal(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        let value = self.value(key)?;
        self.one_decimal(reader, key, value, &range)
    }

    /// A list of numbers within `range`, whole or not.
    pub fn decimals(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        range: RangeInclusive<f64>,
    ) -> Option<Vec<f64>> {
        let value = self.value(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            let message = wrong_type("a list of numbers, as [1, 2.5]", value.get_ref());
            reader.error(value.span().start, self.path(key), message);
            return None;
        };
        Some(items.iter().filter_map(|item| self.one_decimal(reader, key, item, &range)).collect())
    }

    /// A string, and its byte offset.
    pub fn text(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<(&'t str, usize)> {
        let value = self.value(key)?;
        self.string(reader, key, value)
    }

    /// A string, or a whole number as it is written, and its byte offset.
    pub fn text_or_number(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<(&'t str, usize)> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => Some((number.as_str(), value.span().start)),
            _ => self.string(reader, key, value),
        }
    }

    /// A list of strings, each with its byte offset.
    pub fn texts(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<Vec<(&'t str, usize)>> {
        let Some(value) = self.value(key) else {
            self.note_default(reader, key, || "[]".to_owned());
            return None;
        };
        let DeValue::Array(items) = value.get_ref() else {
            let message = wrong_type("a list of strings, as [\"…\", \"…\"]", value.get_ref());
            reader.error(value.span().start, self.path(key), message);
            return None;
        };
        Some(items.iter().filter_map(|item| self.string(reader, key, item)).collect())
    }

    /// One of a few words.
    pub fn word<T: Copy + PartialEq>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        default: T,
        words: &[(&str, T)],
    ) -> T {
        let Some((text, at)) = self.text(reader, key) else {
            if let Some((word, _)) = words.iter().find(|(_, meaning)| *meaning == default) {
                self.note_default(reader, key, || format!("{word:?}"));
            }
            return default;
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => *meaning,
            None => {
                reader.error(at, self.path(key), format!("{text:?} is unknown; give {}", one_of(words)));
                default
            }
        }
    }

    /// Adds an error for a key or a section that this machine does not support, for the reason `why`.
    pub fn refuse(&mut self, reader: &mut Reader<'_>, key: &'static str, why: &str) {
        self.refused.push(key);
        if let Some(at) = self.place(key) {
            let path = if self.is_section(key) { format!("[{key}]") } else { self.path(key) };
            reader.error(at, path, format!("is not supported here: {why}; remove it"));
        }
    }

    /// Adds an error for each key that was not read.
    pub fn finish(self, reader: &mut Reader<'_>) {
        #[cfg(feature = "keys")]
        self.note_keys(reader);
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if !self.known.contains(&name) && !self.refused.contains(&name) {
                let known = self.known.join(", ");
                let meant = meant(name, &self.known);
                let message = format!("unknown key; {meant}take it out, or give one of: {known}");
                let path = if self.is_section(name) { format!("[{name}]") } else { self.path(name) };
                reader.error(key.span().start, path, message);
            }
        }
    }

    /// True if `key` is at the top of the file and names a section.
    fn is_section(&self, key: &str) -> bool {
        let is_table = |value: &Spanned<DeValue<'_>>| matches!(value.get_ref(), DeValue::Table(_));
        self.name.is_empty() && self.entry(key).is_some_and(|(_, value)| is_table(value))
    }

    fn string(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Option<(&'t str, usize)> {
        match value.get_ref() {
            DeValue::String(text) => Some((text, value.span().start)),
            other => {
                reader.error(value.span().start, self.path(key), wrong_type("a string in quotes", other));
                None
            }
        }
    }

    fn one_decimal(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        value: &Spanned<DeValue<'i>>,
        range: &RangeInclusive<f64>,
    ) -> Option<f64> {
        let number = match value.get_ref() {
            DeValue::Integer(integer) => {
                i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64)
            }
            DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
            other => {
                reader.error(value.span().start, self.path(key), wrong_type("a number", other));
                return None;
            }
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let message = format!("is out of range; give {} to {}", range.start(), range.end());
            reader.error(value.span().start, self.path(key), message);
        }
        number
    }

    fn entry(&self, key: &str) -> Option<(Range<usize>, &'t Spanned<DeValue<'i>>)> {
        self.table?.iter().find(|(name, _)| name.get_ref() == key).map(|(name, value)| (name.span(), value))
    }
}

/// Suggestion for an unknown key, where the build has room for it.
#[cfg(feature = "nearest")]
fn meant(name: &str, known: &[&str]) -> String {
    nearest(name, known).map_or_else(String::new, |known| format!("did you mean `{known}`? Otherwise "))
}

#[cfg(not(feature = "nearest"))]
const fn meant(_: &str, _: &[&str]) -> &'static str {
    ""
}

fn wrong_type(wanted: &str, found: &DeValue<'_>) -> String {
    format!("is of type {} here; give {wanted}", found.type_str())
}

/// `"a", "b" or "c"`.
fn one_of<T>(words: &[(&str, T)]) -> String {
    let quoted: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The word of `words` that is the most similar to `word`, if one is similar enough to be meant.
///
/// ```
/// use ringway_settings::nearest;
///
/// assert_eq!(nearest("lisen", &["listen", "domains"]), Some("listen"));
/// assert_eq!(nearest("color", &["listen", "domains"]), None);
/// ```
pub fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(CHARS_MAX).collect();
    let distances = words.iter().map(|known| (distance(&word, known), *known));
    let (edits, known) = distances.min_by_key(|(edits, _)| *edits)?;
    let longest = word.len().max(known.chars().count());
    (3 * edits <= longest).then_some(known)
}

/// Number of characters to insert, delete or replace (Levenshtein distance).
fn distance(word: &[char], known: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (line, letter) in known.chars().take(CHARS_MAX).enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (cell, own) in row.iter_mut().zip(core::iter::once(None).chain(word.iter().map(Some))) {
            let above = *cell;
            *cell = match own {
                None => left,
                Some(own) => (diagonal + usize::from(*own != letter)).min(above + 1).min(left + 1),
            };
            (diagonal, left) = (above, *cell);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Characters that are compared.
const CHARS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_single_changes() {
        for (word, known, edits) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            let word: Vec<char> = word.chars().collect();
            assert_eq!(distance(&word, known), edits, "{word:?} {known}");
        }
    }

    #[test]
    fn only_a_similar_word_is_suggested() {
        let known = ["scenario", "transports", "rates", "seconds"];
        assert_eq!(nearest("senario", &known), Some("scenario"));
        assert_eq!(nearest("second", &known), Some("seconds"));
        assert_eq!(nearest("rate", &known), Some("rates"));
        assert_eq!(nearest("x", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("rates", &[]), None);
    }
}

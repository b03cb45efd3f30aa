//! Keys of a document with their values, and the difference between two documents.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use toml::de::DeValue;

/// Keys that a document was asked for, each with the value in the document or its default.
///
/// The reader fills it, so a key that is read is in it. A key of a section in a list has the section's `name`, or its
/// position from 1: `neighbour.gate.uri`, `tls.domain.2.certificate`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys {
    values: BTreeMap<String, Option<String>>,
}

/// Key whose value differs between two documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// As in `auth.realm`.
    pub key: String,
    /// Value in the older document.
    pub old: ShownValue,
    /// Value in the newer document.
    pub new: ShownValue,
}

/// Value of a key for people and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownValue {
    /// There is none, or the key's section is not there.
    Unset,
    /// As TOML, at most 200 characters.
    Value(String),
    /// A password, token or other secret.
    Hidden,
}

impl Keys {
    /// Notes the value of a key. A later one replaces it.
    pub(crate) fn note(&mut self, key: String, value: Option<String>) {
        self.values.insert(key, value);
    }

    /// Notes that a key has no value, unless it has one.
    pub(crate) fn note_unset(&mut self, key: String) {
        self.values.entry(key).or_default();
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// All keys with their values, secrets too.
    pub fn values(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value.as_deref()))
    }

    /// Value of a key, also a secret; `None`: it has none.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.as_deref()
    }

    /// Keys whose values are secrets themselves, as a token is, and the name of a file is not.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let values = self.values().filter_map(|(key, value)| Some((key, value?)));
        values.filter(|(key, value)| is_own_secret(key, value)).map(|(key, _)| key)
    }

    /// All keys with their values, without secrets.
    pub fn shown(&self) -> impl Iterator<Item = (&str, ShownValue)> {
        self.values.iter().map(|(key, value)| (key.as_str(), ShownValue::of(key, value.clone())))
    }

    /// Keys whose values differ in `new`, in alphabetical order.
    pub fn changes_to(&self, new: &Self) -> Vec<KeyChange> {
        fn of<'k>(keys: &'k Keys, key: &str) -> Option<&'k String> {
            keys.values.get(key).and_then(Option::as_ref)
        }
        let only_new = new.values.keys().filter(|key| !self.values.contains_key(*key));
        let mut changes: Vec<KeyChange> = self
            .values
            .keys()
            .chain(only_new)
            .filter_map(|key| {
                let (old, new) = (of(self, key), of(new, key));
                let shown = |value: Option<&String>| ShownValue::of(key, value.cloned());
                (old != new).then(|| KeyChange { key: key.clone(), old: shown(old), new: shown(new) })
            })
            .collect();
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        changes
    }
}

impl FromIterator<(String, Option<String>)> for Keys {
    fn from_iter<T: IntoIterator<Item = (String, Option<String>)>>(values: T) -> Self {
        Self { values: values.into_iter().collect() }
    }
}

impl fmt::Debug for Keys {
    /// Without values: some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl ShownValue {
    fn of(key: &str, value: Option<String>) -> Self {
        match value {
            None => Self::Unset,
            Some(value) if is_secret(key) => match value.as_str() {
                "\"\"" => Self::Unset,
                _ => Self::Hidden,
            },
            Some(value) if has_password(&value) => Self::Hidden,
            Some(value) if value.chars().count() > SHOWN_CHARS_MAX => {
                let cut: String = value.chars().take(SHOWN_CHARS_MAX).collect();
                Self::Value(cut + "…")
            }
            Some(value) => Self::Value(value),
        }
    }

    /// The value, or `None` if it is unset or hidden.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unset | Self::Hidden => None,
        }
    }
}

impl fmt::Display for ShownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unset => "unset",
            Self::Value(value) => value,
            Self::Hidden => "(secret)",
        })
    }
}

impl fmt::Display for KeyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.old, &self.new) {
            (ShownValue::Hidden, ShownValue::Hidden) => write!(f, "{}: changed", self.key),
            (old, new) => write!(f, "{}: {old} → {new}", self.key),
        }
    }
}

/// True for a key whose value is for the administrator only. The name decides, so that it holds for keys that are added later.
pub fn is_secret(key: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or(key);
    ["password", "passphrase", "secret", "token"].iter().any(|word| name.contains(word))
}

/// True for a key whose value is a secret itself.
fn is_own_secret(key: &str, value: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or(key);
    matches!(name, "password" | "token") && value != "\"\"" || has_password(value)
}

/// True for a URL with a password, as `"postgres://user:password@host/name"`.
fn has_password(value: &str) -> bool {
    let authority = value.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.and_then(|authority| authority.rsplit_once('@')).is_some_and(|(login, _)| login.contains(':'))
}

/// A value as TOML in one spelling; `None` for a section.
pub(crate) fn written(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => number.to_string(),
            Err(_) => integer.as_str().to_owned(),
        },
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Boolean(is_on) => is_on.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(|item| written(item.get_ref())).collect();
            format!("[{}]", items?.join(", "))
        }
        DeValue::Table(_) => return None,
    })
}

/// Hash of a value, sections included (FNV-1a): it shows a change, and proves nothing.
pub(crate) fn hash_of(value: &DeValue<'_>) -> u64 {
    fn add(hash: u64, bytes: &[u8]) -> u64 {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        bytes.iter().chain(&[0xff]).fold(hash, step)
    }
    fn add_value(hash: u64, value: &DeValue<'_>) -> u64 {
        match value {
            DeValue::Table(table) => table.iter().fold(add(hash, b"{"), |hash, (key, value)| {
                add_value(add(hash, key.get_ref().as_bytes()), value.get_ref())
            }),
            DeValue::Array(items) => {
                items.iter().fold(add(hash, b"["), |hash, item| add_value(hash, item.get_ref()))
            }
            other => add(hash, written(other).unwrap_or_default().as_bytes()),
        }
    }
    add_value(0xcbf2_9ce4_8422_2325, value)
}

const SHOWN_CHARS_MAX: usize = 200;

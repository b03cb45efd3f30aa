//! Keys of TLS in experiment files.
//!
//! At the top: lists `versions` and `keys`, of which each combination is a variant. In a section `[[variant]]`: `version` and `key`. In both:
//! `suites`, in order of preference, `mutual` and `resumption`.

use crate::tls::{KeyKind, TlsUse};
use ringway_settings::{Reader, Section};
use ringway_tls::{Suite, TlsVersion};

/// Each combination of the versions and keys of the lists.
pub(super) fn read_lists(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    default: &TlsUse,
) -> Vec<TlsUse> {
    let versions = names(reader, top, "versions", &VERSIONS);
    let keys = names(reader, top, "keys", &KeyKind::ALL);
    let versions: Vec<Option<TlsVersion>> =
        if versions.is_empty() { vec![default.version] } else { versions.into_iter().map(Some).collect() };
    let keys = if keys.is_empty() { vec![default.key] } else { keys };
    let of = |&version: &Option<TlsVersion>| {
        keys.iter().map(move |&key| TlsUse { version, key, ..default.clone() }).collect::<Vec<_>>()
    };
    versions.iter().flat_map(of).collect()
}

/// Use of a section.
pub(super) fn read_one(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, default: TlsUse) -> TlsUse {
    let versions = VERSIONS.map(|(name, version)| (name, Some(version)));
    let version = section.word(reader, "version", default.version, &versions);
    let key = section.word(reader, "key", default.key, &KeyKind::ALL);
    TlsUse { version, key, ..default }
}

/// Keys at the top and in sections.
pub(super) fn read_switches(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    default: TlsUse,
) -> TlsUse {
    let is_mutual = section.switch(reader, "mutual", default.is_mutual);
    let is_resumed = section.switch(reader, "resumption", default.is_resumed);
    let mut suites = Vec::new();
    let texts = section.texts(reader, "suites");
    for (text, at) in texts.iter().flatten() {
        match Suite::by_name(text) {
            Some(suite) => suites.push(suite),
            None => {
                let why = format!("{text:?} is not a cipher suite; give a name of IANA or OpenSSL");
                reader.error(*at, section.path("suites"), why);
            }
        }
    }
    let suites = if texts.is_some() { suites } else { default.suites };
    TlsUse { is_mutual, is_resumed, suites, ..default }
}

/// Refuses keys of TLS at the top if no transport has it.
pub(super) fn check(reader: &mut Reader<'_>, top: &Section<'_, '_>, has_secure: bool) {
    for key in ["versions", "keys", "suites", "mutual", "resumption"] {
        if let Some(at) = top.place(key).filter(|_| !has_secure) {
            reader.error(at, key, "no transport has TLS; give \"tls\" to transports");
        }
    }
}

/// Refuses keys of TLS in a section whose transport has none.
pub(super) fn check_one(reader: &mut Reader<'_>, section: &Section<'_, '_>, is_secure: bool) {
    for key in ["version", "key", "suites", "mutual", "resumption"] {
        if let Some(at) = section.place(key).filter(|_| !is_secure) {
            reader.error(at, section.path(key), "the transport has no TLS; give transport = \"tls\"");
        }
    }
}

/// A list of names; empty without the key.
fn names<T: Copy>(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    key: &'static str,
    known: &[(&str, T)],
) -> Vec<T> {
    let texts = top.texts(reader, key).unwrap_or_default();
    let mut values = Vec::new();
    for (text, at) in texts {
        match known.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => values.push(*value),
            None => {
                let names: Vec<_> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
                reader.error(at, key, format!("{text:?} is not known; give {}", names.join(", ")));
            }
        }
    }
    values
}

const VERSIONS: [(&str, TlsVersion); 4] = [
    (TlsVersion::V1_0.name(), TlsVersion::V1_0),
    (TlsVersion::V1_1.name(), TlsVersion::V1_1),
    (TlsVersion::V1_2.name(), TlsVersion::V1_2),
    (TlsVersion::V1_3.name(), TlsVersion::V1_3),
];

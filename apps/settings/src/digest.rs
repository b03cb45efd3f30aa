//! Keys of `[auth]` for the forms of digest and the realms.

use crate::{Reader, Section};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use ringway_server::{DigestPolicy, NoncePolicy, Realms};

/// Reads `nonce_use`, `auth_int` and `danger_rfc2069`.
pub(crate) fn read_policy(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    default: DigestPolicy,
) -> DigestPolicy {
    DigestPolicy {
        nonces: section.word(reader, "nonce_use", default.nonces, &NONCE_USES),
        auth_int: section.switch(reader, "auth_int", default.auth_int),
        danger_rfc2069: section.switch(reader, "danger_rfc2069", default.danger_rfc2069),
    }
}

/// Reads `realm`, and the sections `[[auth.domain]]` of some of `domains`.
pub(crate) fn read_realms(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    default: Realms,
    domains: &[String],
) -> Realms {
    let mut realms = match section.text(reader, "realm") {
        None => {
            section.note_default(reader, "realm", || format!("{:?}", default.general()));
            default
        }
        Some((text, at)) => {
            if let Err(message) = check_realm(text) {
                reader.error(at, section.path("realm"), message);
            }
            text.into()
        }
    };
    let key = section.path("domain");
    for (mut domain, at) in section.sections(reader, "domain") {
        match (domain.text(reader, "name"), domain.text(reader, "realm")) {
            (Some((name, name_at)), Some((realm, realm_at))) => {
                if let Err(message) = check_realm(realm) {
                    reader.error(realm_at, format!("{key}.realm"), message);
                } else if !domains.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                    let message =
                        format!("{name:?} is not among domains; add it there, or remove this section");
                    reader.error(name_at, format!("{key}.name"), message);
                } else if !realms.add(name, realm.to_owned()) {
                    let message = format!("{name:?} is there twice; remove one of the sections");
                    reader.error(name_at, format!("{key}.name"), message);
                }
            }
            (Some(_), None) | (None, _) => reader.error(at, key.clone(), "needs name and realm"),
        }
        domain.finish(reader);
    }
    realms
}

/// Checks a realm; the error is the remedy.
pub(crate) fn check_realm(text: &str) -> Result<(), &'static str> {
    let is_bad = |c: char| c.is_control() || c == '"' || c == '\\';
    if text.is_empty() || text.len() > REALM_BYTES_MAX || text.contains(is_bad) {
        return Err("give 1 to 255 bytes without quotes, backslashes and control characters");
    }
    Ok(())
}

/// Spelling of the uses of a nonce.
const NONCE_USES: [(&str, NoncePolicy); 2] = [("count", NoncePolicy::Count), ("once", NoncePolicy::Once)];
const REALM_BYTES_MAX: usize = 255;

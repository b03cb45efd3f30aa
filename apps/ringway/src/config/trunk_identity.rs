//! `identity`, `normalise`, `country` and `national_prefix` of a `[[trunk]]`: who calls, as a carrier reads it, and how it writes numbers.

use super::{Reader, Section};
use ringway_server::{CallerPrivacy, IdentityTemplate, NumberForm, TrunkIdentity};

/// Values of the keys.
pub(super) struct IdentityKeys {
    pub(super) identity: TrunkIdentity,
    /// `None`: the key `privacy` of the trunk.
    pub(super) privacy: Option<CallerPrivacy>,
    pub(super) numbers_in: NumberForm,
    pub(super) numbers_out: NumberForm,
}

/// Reads the keys of a trunk; what cannot be used is an error.
pub(super) fn read(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> IdentityKeys {
    let mut identity_of = section.section(reader, "identity");
    let from = template(reader, &mut identity_of, "from");
    let asserted = template(reader, &mut identity_of, "asserted");
    let remote_party = template(reader, &mut identity_of, "remote_party");
    let privacy = match identity_of.text(reader, "privacy") {
        None => None,
        Some(("caller", _)) => Some(CallerPrivacy::None),
        Some(("id", _)) => Some(CallerPrivacy::Id),
        Some((other, at)) => {
            let message = format!("{other:?} is no privacy; give \"caller\", who decides then, or \"id\"");
            reader.error(at, identity_of.path("privacy"), message);
            None
        }
    };
    identity_of.finish(reader);
    let country = digits(reader, section, "country", 1..=4);
    let prefix = digits(reader, section, "national_prefix", 0..=3).unwrap_or_else(|| "0".to_owned());
    let mut normalise = section.section(reader, "normalise");
    let mut form = |key| number_form(reader, &mut normalise, key, (country.as_deref(), &prefix));
    let (numbers_in, numbers_out) = (form("in"), form("out"));
    normalise.finish(reader);
    let identity = TrunkIdentity { from, asserted, remote_party };
    IdentityKeys { identity, privacy, numbers_in, numbers_out }
}

fn template(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
) -> Option<IdentityTemplate> {
    let (text, at) = section.text(reader, key)?;
    match IdentityTemplate::parse(text) {
        Ok(template) => Some(template),
        Err(why) => {
            let message = format!(
                "{text:?} {why}; write a user and a host as \"{{number}}@{{domain}}\", from {{user}}, {{number}}, {{domain}} and text"
            );
            reader.error(at, section.path(key), message);
            None
        }
    }
}

fn number_form(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    (country, prefix): (Option<&str>, &str),
) -> NumberForm {
    let Some((text, at)) = section.text(reader, key) else { return NumberForm::Unchanged };
    match (text, country) {
        ("unchanged", _) => NumberForm::Unchanged,
        ("e164", _) => NumberForm::E164,
        ("plain", _) => NumberForm::Plain,
        ("00", _) => NumberForm::DoubleZero,
        ("national", Some(country)) => {
            NumberForm::National { country: country.to_owned(), prefix: prefix.to_owned() }
        }
        ("national", None) => {
            let message = "\"national\" needs the code of the country; add country = \"49\" to the trunk";
            reader.error(at, section.path(key), message);
            NumberForm::Unchanged
        }
        (other, _) => {
            let message = format!(
                "{other:?} is no form of numbers; give \"e164\" (+49301234), \"plain\" (49301234), \"00\" (0049301234), \"national\" (0301234) or \"unchanged\""
            );
            reader.error(at, section.path(key), message);
            NumberForm::Unchanged
        }
    }
}

/// A key with so many digits.
fn digits(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    len: std::ops::RangeInclusive<usize>,
) -> Option<String> {
    let (text, at) = section.text(reader, key)?;
    if !len.contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let message = format!("{text:?} is not {} to {} digits; write as \"49\"", len.start(), len.end());
        reader.error(at, section.path(key), message);
    }
    Some(text.to_owned())
}

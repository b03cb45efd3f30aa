//! `identity`, `normalise`, `country` and `national_prefix` of a `[[trunk]]`: who calls, as a carrier reads it, and how it writes numbers.
//! `[[dialing]]`: how users write them.

use super::{Reader, Section};
use ringway_server::{CallerPrivacy, Config, Dialing, IdentityTemplate, NumberForm, TrunkIdentity};

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
    let diversion = template(reader, &mut identity_of, "diversion");
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
    let [numbers_in, numbers_out] = forms(reader, section, "00");
    let identity = TrunkIdentity { from, asserted, remote_party, diversion };
    IdentityKeys { identity, privacy, numbers_in, numbers_out }
}

/// Reads `[[dialing]]` into `server`.
pub(super) fn read_dialing(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, server: &mut Config) {
    let (domains, has_trunks) = (&server.domains, !server.trunking.trunks.is_empty());
    let mut all: Vec<Dialing> = Vec::new();
    for (mut section, at) in top.sections(reader, "dialing") {
        if all.len() >= DIALING_MAX {
            reader.error(at, "dialing", "the list is too long; give at most 1000 sections");
            break;
        }
        let named = section.text(reader, "domain");
        let domain = named.map(|(name, _)| name.to_ascii_lowercase());
        let is_known = domain.as_ref().is_none_or(|domain| domains.contains(domain));
        let place = named.map_or(at, |(_, at)| at);
        if !is_known {
            let message = format!("{:?} is none of `domains`", domain.as_deref().unwrap_or_default());
            reader.error(place, section.path("domain"), message);
        } else if all.iter().any(|other| other.domain.is_none() || other.domain == domain) {
            let message =
                "has a section before; the first one of a domain counts, one without `domain` is for all";
            reader.error(place, section.path("domain"), message);
        }
        let international = digits(reader, &mut section, "international_prefix", 1..=4);
        let [called, callers] = forms(reader, &mut section, international.as_deref().unwrap_or("00"));
        if callers.changes() && !has_trunks {
            reader.error(at, section.path("normalise"), "`out` needs a [[trunk]]; take it out");
        }
        section.finish(reader);
        all.push(Dialing { domain, called, callers });
    }
    server.trunking.dialing = all;
}

/// `normalise` with the keys that `"national"` needs: forms of numbers in and out.
fn forms(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, international: &str) -> [NumberForm; 2] {
    let country = digits(reader, section, "country", 1..=4);
    let prefix = digits(reader, section, "national_prefix", 0..=3).unwrap_or_else(|| "0".to_owned());
    let national = country.map(|country| {
        let international = international.to_owned();
        NumberForm::National { country, prefix, international }
    });
    let mut normalise = section.section(reader, "normalise");
    let forms = ["in", "out"].map(|key| number_form(reader, &mut normalise, key, national.as_ref()));
    normalise.finish(reader);
    forms
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
    national: Option<&NumberForm>,
) -> NumberForm {
    let Some((text, at)) = section.text(reader, key) else { return NumberForm::Unchanged };
    match (text, national) {
        ("unchanged", _) => NumberForm::Unchanged,
        ("e164", _) => NumberForm::E164,
        ("plain", _) => NumberForm::Plain,
        ("00", _) => NumberForm::DoubleZero,
        ("national", Some(national)) => national.clone(),
        ("national", None) => {
            let message = "\"national\" needs the code of the country; add country = \"49\" to its section";
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

/// Maximum number of sections `[[dialing]]`.
const DIALING_MAX: usize = 1000;

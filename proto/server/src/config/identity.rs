//! The caller's identity as a trunk gets it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sip::Uri;

/// Header fields with the caller's identity towards a trunk; `None`: that of the caller, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrunkIdentity {
    /// From.
    pub from: Option<IdentityTemplate>,
    /// P-Asserted-Identity (RFC 3325); `None`: [`Trunk::caller`](crate::Trunk::caller).
    pub asserted: Option<IdentityTemplate>,
    /// Remote-Party-ID.
    pub remote_party: Option<IdentityTemplate>,
    /// User who forwarded a call, in Diversion (RFC 5806) and History-Info (RFC 7044); `None`: its address here.
    pub diversion: Option<IdentityTemplate>,
}

/// Template of a URI without its scheme: text, `{user}`, `{number}` and `{domain}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    User,
    Number,
    Domain,
}

/// Values of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentityValues<'a> {
    /// User part of the caller.
    pub(crate) user: &'a [u8],
    /// The caller's number, in the form of the trunk.
    pub(crate) number: Option<&'a [u8]>,
    /// Domain of the caller's number at the trunk.
    pub(crate) domain: &'a [u8],
}

impl IdentityTemplate {
    /// Reads a template as `{number}@{domain}`.
    ///
    /// # Errors
    /// The fault: an unknown name in braces, a scheme, or a text that makes no URI of a user.
    pub fn parse(text: &str) -> Result<Self, String> {
        if ["sip:", "sips:", "tel:"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err("begins with a scheme; leave that out".into());
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}').ok_or("has a brace that is not closed")?;
            parts.push(Part::Text(before.as_bytes().into()));
            parts.push(match name {
                "user" => Part::User,
                "number" => Part::Number,
                "domain" => Part::Domain,
                other => return Err(alloc::format!("has {{{other}}}, which is no value")),
            });
            rest = behind;
        }
        parts.push(Part::Text(rest.as_bytes().into()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        let template = Self { parts };
        let sample = IdentityValues { user: b"user", number: Some(b"+1"), domain: b"example.org" };
        match template.uri(&sample) {
            Some(_) if text.len() <= TEMPLATE_BYTES_MAX => Ok(template),
            Some(_) | None => Err("makes no URI of a user".into()),
        }
    }

    /// The URI; `None`: a value is missing, or it is no URI of a user.
    pub(crate) fn uri(&self, values: &IdentityValues<'_>) -> Option<Vec<u8>> {
        let mut uri = b"sip:".to_vec();
        for part in &self.parts {
            uri.extend_from_slice(match part {
                Part::Text(text) => text,
                Part::User => values.user,
                Part::Number => values.number?,
                Part::Domain => values.domain,
            });
        }
        let is_plain = uri.iter().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(byte));
        let has_user = || {
            Uri::parse(&uri)
                .is_ok_and(|uri| uri.user().is_some_and(|user| !user.is_empty()) && uri.headers().is_empty())
        };
        (is_plain && uri.len() <= URI_BYTES_MAX && has_user()).then_some(uri)
    }
}

/// Maximum length of a template.
const TEMPLATE_BYTES_MAX: usize = 200;
/// Maximum length of a URI that a template makes.
pub(crate) const URI_BYTES_MAX: usize = 250;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_makes_a_uri_of_its_values() {
        let values = IdentityValues { user: b"alice", number: Some(b"+49301"), domain: b"carrier.example" };
        let without = IdentityValues { number: None, ..values };
        for (text, uri) in [
            ("{number}@{domain}", "sip:+49301@carrier.example"),
            ("{user}@{domain};user=phone", "sip:alice@carrier.example;user=phone"),
            ("acct-7@sip.carrier.example", "sip:acct-7@sip.carrier.example"),
            ("00{number}@{domain}:5070", "sip:00+49301@carrier.example:5070"),
        ] {
            let template = IdentityTemplate::parse(text).unwrap();
            assert_eq!(template.uri(&values), Some(uri.as_bytes().to_vec()));
            assert_eq!(template.uri(&without).is_none(), text.contains("{number}"), "{text}");
        }
    }

    #[test]
    fn templates_that_make_no_uri_are_errors() {
        for text in [
            "",
            "sip:{number}@{domain}",
            "{domain}",
            "{nmber}@h",
            "{user@h",
            "<{user}@h>",
            "{user}@h h",
            "{user}@",
            "{user}@h?a=b",
            &"x".repeat(300),
        ] {
            assert!(IdentityTemplate::parse(text).is_err(), "{text:?}");
        }
        let hostile = IdentityTemplate::parse("{user}@{domain}").unwrap();
        for user in [&b"a>b"[..], b"a b", b"", b"a\r\nVia: x"] {
            let values = IdentityValues { user, number: None, domain: b"h" };
            assert_eq!(hostile.uri(&values), None, "{user:?}");
        }
    }
}

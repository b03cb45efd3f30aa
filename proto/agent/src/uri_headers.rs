//! Headers of a URI that a request is formed from (RFC 3261 §19.1.1, §19.1.5): `sip:bob@example.org?Subject=Lunch`.

use crate::RouteError;
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Uri, grammar};

/// Header fields for a request.
pub(crate) type HeaderFields = Vec<(HeaderName, Vec<u8>)>;

/// Splits a URI from its headers, which become header fields of the request. A URI may come from a web page or a message:
/// only fields are taken that neither route the request nor say something about its sender.
pub(crate) fn without_headers<'u>(uri: &Uri<'u>) -> Result<(&'u [u8], HeaderFields), RouteError> {
    let headers = uri.headers();
    let bytes = uri.as_bytes();
    let end = match headers.len() {
        0 => bytes.strip_suffix(b"?").unwrap_or(bytes).len(),
        len => bytes.len().saturating_sub(len + 1),
    };
    let mut fields = HeaderFields::new();
    for header in headers.split(|&byte| byte == b'&').filter(|_| !headers.is_empty()) {
        let (name, value) = field(header)?;
        if fields.iter().any(|(known, _)| *known == name) {
            return Err(RouteError::Headers);
        }
        fields.push((name, value));
    }
    Ok((bytes.get(..end).unwrap_or_default(), fields))
}

/// A header field from `name=value`.
fn field(header: &[u8]) -> Result<(HeaderName, Vec<u8>), RouteError> {
    let at = header.iter().position(|&byte| byte == b'=').ok_or(RouteError::Headers)?;
    let (name, value) = header.split_at_checked(at).ok_or(RouteError::Headers)?;
    let name = grammar::unescaped(name);
    let known = HeaderName::from_bytes(&name);
    if !TAKEN.contains(&known) {
        return Err(RouteError::Header(match known {
            _ if name.eq_ignore_ascii_case(b"body") => "a body",
            HeaderName::Other => "a header field",
            // Each name but `Other` is ASCII.
            named => core::str::from_utf8(named.as_bytes()).unwrap_or_default(),
        }));
    }
    let value = grammar::unescaped(value.get(1..).unwrap_or_default()).into_owned();
    let is_line = value.iter().all(|&byte| byte >= b' ' && byte != 127);
    if !is_line || value.len() > VALUE_BYTES_MAX || core::str::from_utf8(&value).is_err() {
        return Err(RouteError::Headers);
    }
    Ok((known, value))
}

/// Header fields that a URI may set: they describe a call to people.
const TAKEN: [HeaderName; 2] = [HeaderName::Subject, HeaderName::Priority];

/// Maximum length of a value, so that the request still fits into a datagram.
const VALUE_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn split(uri: &str) -> Result<(&[u8], HeaderFields), RouteError> {
        without_headers(&Uri::parse(uri.as_bytes()).unwrap())
    }

    #[test]
    fn subject_and_priority_are_taken_without_escapes() {
        assert_eq!(split("sip:b@h;x=y"), Ok((&b"sip:b@h;x=y"[..], Vec::new())));
        let (uri, fields) =
            split("sip:b@h:5070;transport=tcp?subject=Lunch%20%26%20tea&Priority=urgent").unwrap();
        assert_eq!(uri, b"sip:b@h:5070;transport=tcp");
        let expected: [(HeaderName, &[u8]); 2] =
            [(HeaderName::Subject, b"Lunch & tea"), (HeaderName::Priority, b"urgent")];
        assert!(
            fields
                .iter()
                .zip(expected)
                .all(|((name, value), (wanted, text))| (*name, &value[..]) == (wanted, text))
        );
        assert_eq!(fields.len(), 2);
        assert_eq!(split("sip:b@h?s=compact").map(|(_, fields)| fields.len()), Ok(1));
        assert_eq!(split("sip:b@h?Subject=").map(|(_, fields)| fields[0].1.len()), Ok(0));
    }

    #[test]
    fn other_headers_are_refused_by_name() {
        for name in [
            "From",
            "Call-ID",
            "CSeq",
            "Via",
            "Record-Route",
            "Route",
            "Accept",
            "Allow",
            "Contact",
            "Organization",
            "Supported",
            "User-Agent",
            "Content-Type",
            "Date",
            "Timestamp",
            "Require",
            "To",
            "Authorization",
            "Replaces",
            "Refer-To",
            "Content-Length",
        ] {
            let uri = alloc::format!("sip:b@h?Subject=x&{name}=y");
            assert_eq!(split(&uri), Err(RouteError::Header(name)), "{name}");
        }
        assert_eq!(split("sip:b@h?Rout%65=x"), Err(RouteError::Header("Route")));
        assert_eq!(split("sip:b@h?Body=x"), Err(RouteError::Header("a body")));
        assert_eq!(split("sip:b@h?X-Own=x"), Err(RouteError::Header("a header field")));
        for malformed in
            ["?Subject=a&subject=b", "?Subject=a%0d%0aRoute:%20x", "?Subject=%00", "?Subject", "?Subject=a&"]
        {
            assert_eq!(split(&alloc::format!("sip:b@h{malformed}")), Err(RouteError::Headers), "{malformed}");
        }
        let long = alloc::format!("sip:b@h?Subject={}", "a".repeat(VALUE_BYTES_MAX + 1));
        assert_eq!(split(&long), Err(RouteError::Headers));
    }
}

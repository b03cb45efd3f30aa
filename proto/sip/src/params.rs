//! Parameters: `;name=value` lists of headers and URIs.

use crate::Malformed;
use crate::grammar::{PARAM_NAME, PARAM_VALUE, class_len, is_lws, quoted_len, trim, unquote};

/// The parameters behind a header value or in a URI, as they stand, from the first `;` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(&'a [u8]);

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// The name, in the case it was written in; names compare without regard to case.
    pub name: &'a [u8],
    /// The value as written, quotes included; `None` for a flag.
    pub value: Option<&'a [u8]>,
}

impl<'a> Params<'a> {
    /// Checks `bytes`, which is empty or begins with `;`: no empty parameter, no stray separator, each quote closed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::check(bytes, |_, _| Ok(()))
    }

    /// Checks `bytes` as [`parse`](Self::parse) does and finds the value of the parameter `name` on the way. That one may
    /// not stand twice or without a value, for then two readers could understand two different things.
    pub(crate) fn parse_with(bytes: &'a [u8], name: &[u8]) -> Result<(Self, Option<&'a [u8]>), Malformed> {
        let mut found = None;
        let params = Self::check(bytes, |param, _| {
            if param.name.eq_ignore_ascii_case(name) {
                let value = param.value.map(unquote).ok_or(Malformed)?;
                if found.replace(value).is_some() {
                    return Err(Malformed);
                }
            }
            Ok(())
        })?;
        Ok((params, found))
    }

    /// Hands each parameter to `check`, with the bytes that follow it.
    pub(crate) fn check(
        bytes: &'a [u8],
        mut check: impl FnMut(&Param<'a>, &'a [u8]) -> Result<(), Malformed>,
    ) -> Result<Self, Malformed> {
        let mut rest = trim(bytes);
        while !rest.is_empty() {
            let (param, after) = next_param(rest).ok_or(Malformed)?;
            check(&param, after)?;
            rest = after;
        }
        Ok(Self(bytes))
    }

    /// Wraps bytes that were checked when they came; reading them ends at the first malformed parameter.
    pub const fn unchecked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes as they stand.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The parameters in order; ends at one that is malformed.
    pub fn iter(&self) -> impl Iterator<Item = Param<'a>> + use<'a> {
        let mut rest = trim(self.0);
        core::iter::from_fn(move || {
            let (param, after) = next_param(rest)?;
            rest = after;
            Some(param)
        })
    }

    /// The first parameter with this name.
    pub fn find(&self, name: &[u8]) -> Option<Param<'a>> {
        self.iter().find(|param| param.name.eq_ignore_ascii_case(name))
    }

    /// The value of the first parameter with this name, without quotes.
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.find(name).and_then(|param| param.value).map(unquote)
    }

    /// True when a parameter of this name is there, with or without a value.
    pub fn has(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }
}

/// The parameter at the start of `rest` (which begins with `;`), and what follows it, trimmed.
fn next_param(rest: &[u8]) -> Option<(Param<'_>, &[u8])> {
    let rest = skip_lws(rest.strip_prefix(b";")?);
    let (name, mut rest) = rest.split_at_checked(class_len(rest, PARAM_NAME))?;
    if name.is_empty() {
        return None;
    }
    rest = skip_lws(rest);
    let Some(after) = rest.strip_prefix(b"=") else {
        return (rest.is_empty() || rest.starts_with(b";")).then_some((Param { name, value: None }, rest));
    };
    let after = skip_lws(after);
    let len = match after.first() {
        Some(b'"') => quoted_len(after)?,
        _ => class_len(after, PARAM_VALUE),
    };
    let (value, rest) = after.split_at_checked(len)?;
    let rest = skip_lws(rest);
    let ends = rest.is_empty() || rest.starts_with(b";");
    (ends && !value.is_empty()).then_some((Param { name, value: Some(value) }, rest))
}

fn skip_lws(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_lws(*first)
    {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_quotes_flags_and_white_space() {
        let params = Params::parse(b" ; lr;a = b ;\r\n c=\"x;y\\\"z\"").unwrap();
        assert!(params.has(b"LR"));
        assert_eq!(params.value(b"a"), Some(&b"b"[..]));
        assert_eq!(params.value(b"c"), Some(&b"x;y\\\"z"[..]));
        assert_eq!(params.iter().count(), 3);
    }

    #[test]
    fn stray_separators_and_open_quotes_are_malformed() {
        for bad in [&b";"[..], b";;a", b";a;", b";a=", b";a=\"b", b"a", b";a b", b";=b"] {
            assert_eq!(Params::parse(bad), Err(Malformed), "{:?}", core::str::from_utf8(bad));
        }
        assert!(Params::parse(b"").is_ok());
    }
}

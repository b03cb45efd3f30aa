//! Parameters: `;name=value` lists of headers and URIs.

use crate::Malformed;
use crate::grammar::{
    PARAM_NAME, class_len, is_same_name, param_value_len, quoted_len, trim, trim_start, unquote,
};

/// The parameters of a header value or of a URI, as written, from the first `;` on.
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
        let (params, rest) = Self::split(bytes, |_, _| Ok(()))?;
        Self::whole(params, rest)
    }

    /// Splits a value from the parameters that follow it: a media type, a disposition, a Call-ID.
    pub fn after(value: &'a [u8]) -> Result<(&'a [u8], Self), Malformed> {
        let at = memchr::memchr(b';', value).unwrap_or(value.len());
        let (value, params) = value.split_at_checked(at).ok_or(Malformed)?;
        Ok((trim(value), Self::parse(params)?))
    }

    /// Checks `bytes` as [`parse`](Self::parse) does and finds the value of the parameter `name`. That parameter must
    /// not be without a value or have two, since two readers could then understand two different things. The same value
    /// twice is one: some programs append a tag to a To that has it.
    #[inline]
    pub(crate) fn parse_with(bytes: &'a [u8], name: &[u8]) -> Result<(Self, Option<&'a [u8]>), Malformed> {
        let mut found = None;
        let (params, rest) = Self::split(bytes, |param, _| {
            if is_same_name(param.name, name) {
                let value = param.value.map(unquote).ok_or(Malformed)?;
                if found.replace(value).is_some_and(|earlier| earlier != value) {
                    return Err(Malformed);
                }
            }
            Ok(())
        })?;
        Ok((Self::whole(params, rest)?, found))
    }

    /// The parameters at the start of `bytes`, and what follows them without white space before it. Hands each to `check`,
    /// with the bytes behind it.
    #[inline]
    pub(crate) fn split(
        bytes: &'a [u8],
        mut check: impl FnMut(&Param<'a>, &'a [u8]) -> Result<(), Malformed>,
    ) -> Result<(Self, &'a [u8]), Malformed> {
        let mut rest = trim_start(bytes);
        while let [b';', param_on @ ..] = rest {
            let (param, after) = split_param(param_on).ok_or(Malformed)?;
            check(&param, after)?;
            rest = after;
        }
        let params = bytes.get(..bytes.len() - rest.len()).ok_or(Malformed)?;
        Ok((Self(params), rest))
    }

    fn whole(params: Self, rest: &[u8]) -> Result<Self, Malformed> {
        if rest.is_empty() { Ok(params) } else { Err(Malformed) }
    }

    /// Wraps bytes that were checked when they came; reading them ends at the first malformed parameter.
    pub const fn unchecked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes as written.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The parameters in order; ends at one that is malformed.
    pub fn iter(&self) -> impl Iterator<Item = Param<'a>> + use<'a> {
        let mut rest = trim(self.0);
        core::iter::from_fn(move || {
            let [b';', param_on @ ..] = rest else { return None };
            let (param, after) = split_param(param_on)?;
            rest = after;
            (after.is_empty() || after.starts_with(b";")).then_some(param)
        })
    }

    /// The first parameter with this name.
    pub fn find(&self, name: &[u8]) -> Option<Param<'a>> {
        self.iter().find(|param| is_same_name(param.name, name))
    }

    /// The value of the first parameter with this name, without quotes.
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.find(name).and_then(|param| param.value).map(unquote)
    }

    /// True if there is a parameter of this name, with or without a value.
    pub fn has(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }
}

/// The parameter at the start of `bytes`, behind its `;`, and what follows it without white space before it.
#[inline]
fn split_param(bytes: &[u8]) -> Option<(Param<'_>, &[u8])> {
    let bytes = trim_start(bytes);
    let (name, rest) = bytes.split_at_checked(class_len(bytes, PARAM_NAME))?;
    if name.is_empty() {
        return None;
    }
    let rest = trim_start(rest);
    let [b'=', value_on @ ..] = rest else { return Some((Param { name, value: None }, rest)) };
    let value_on = trim_start(value_on);
    let len = match value_on.first() {
        Some(b'"') => quoted_len(value_on)?,
        _ => param_value_len(value_on),
    };
    let (value, rest) = value_on.split_at_checked(len)?;
    (!value.is_empty()).then_some((Param { name, value: Some(value) }, trim_start(rest)))
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
    fn a_value_is_split_from_its_parameters() {
        let (value, params) = Params::after(b" multipart/mixed ; boundary=\"a;b\"").unwrap();
        assert_eq!((value, params.value(b"Boundary")), (&b"multipart/mixed"[..], Some(&b"a;b"[..])));
        assert_eq!(Params::after(b"session").map(|(value, _)| value), Ok(&b"session"[..]));
        assert_eq!(Params::after(b"session;;x"), Err(Malformed));
    }

    #[test]
    fn stray_separators_and_open_quotes_are_malformed() {
        for bad in [&b";"[..], b";;a", b";a;", b";a=", b";a=\"b", b"a", b";a b", b";=b"] {
            assert_eq!(Params::parse(bad), Err(Malformed), "{:?}", core::str::from_utf8(bad));
        }
        assert!(Params::parse(b"").is_ok());
    }
}

//! Via (RFC 3261 §20.42, RFC 3581).

use crate::grammar::{TOKEN, class_len, is_lws, is_same_name, number, trim, trim_end, trim_start, unquote};
use crate::{Host, Malformed, Params};

/// One Via value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// `UDP`, `TCP`, or any other token, as written.
    pub transport: &'a [u8],
    /// The host of sent-by.
    pub host: Host<'a>,
    /// The port of sent-by, when given.
    pub port: Option<u16>,
    /// All parameters.
    pub params: Params<'a>,
    /// The `branch` parameter.
    pub branch: Option<&'a [u8]>,
    raw: &'a [u8],
    rport: Rport<'a>,
    received: Option<&'a [u8]>,
    has_received: bool,
    is_ambiguous: bool,
}

/// The `rport` parameter (RFC 3581).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rport<'a> {
    Absent,
    /// The sender requests it; its value is inserted at this offset.
    Wanted(usize),
    Given(&'a [u8]),
}

impl<'a> Via<'a> {
    /// Parses one Via value (not a comma-separated list: see [`split_value`](crate::grammar::split_value)).
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        match Self::split(trim(value))? {
            (via, []) => Ok(via),
            _ => Err(Malformed),
        }
    }

    /// The value at the start of a line, and what follows it: nothing, or a comma and further values.
    pub(crate) fn split(line: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let rest = match line.split_first_chunk() {
            Some((b"SIP/2.0/", rest)) => trim_start(rest),
            _ => sent_protocol(line)?,
        };
        let (transport, after) = rest.split_at_checked(class_len(rest, TOKEN)).ok_or(Malformed)?;
        if transport.is_empty() || !after.first().is_some_and(|&byte| is_lws(byte)) {
            return Err(Malformed);
        }
        let (host, rest) = Host::split(trim_start(after))?;
        let (port, params_on) = split_port(trim_start(rest))?;
        let (mut branch, mut rport, mut received) = (None, Rport::Absent, None);
        let (mut has_received, mut is_ambiguous) = (false, false);
        let (params, after) = Params::split(params_on, |param, rest| {
            if is_same_name(param.name, b"branch") {
                // Two branches, or one without a value, could be understood in two ways.
                let value = param.value.map(unquote).ok_or(Malformed)?;
                let is_other = branch.replace(value).is_some_and(|earlier| earlier != value);
                return if is_other { Err(Malformed) } else { Ok(()) };
            }
            if is_same_name(param.name, b"rport") && rport == Rport::Absent {
                let place = line.len() - rest.len();
                rport = param.value.map_or(Rport::Wanted(place), |value| Rport::Given(unquote(value)));
            } else if is_same_name(param.name, b"received") {
                has_received = true;
                let value = param.value.map(unquote);
                is_ambiguous |= received.is_some() && value.is_some() && received != value;
                received = received.or(value);
            }
            Ok(())
        })?;
        if !matches!(after, [] | [b',', ..]) {
            return Err(Malformed);
        }
        let raw = trim_end(line.get(..line.len() - after.len()).ok_or(Malformed)?);
        let params = Params::unchecked(trim_end(params.as_bytes()));
        Ok((
            Self { transport, host, port, params, branch, raw, rport, received, has_received, is_ambiguous },
            after,
        ))
    }

    /// The value as written.
    pub(crate) const fn as_bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// True when the branch promises to be unique (RFC 3261 §8.1.1.7): it begins with the magic cookie and has more.
    pub fn has_unique_branch(&self) -> bool {
        self.branch.is_some_and(|branch| {
            branch.len() > COOKIE.len()
                && branch.get(..COOKIE.len()).is_some_and(|start| start.eq_ignore_ascii_case(COOKIE))
        })
    }

    /// True when the sender asks for the answer at the port it sent from (RFC 3581 §3).
    pub const fn wants_rport(&self) -> bool {
        matches!(self.rport, Rport::Wanted(_))
    }

    /// The value as written, cut where the value of the `rport` that asks belongs; `None` when none asks.
    pub(crate) fn cut_at_rport(&self) -> Option<(&'a [u8], &'a [u8])> {
        match self.rport {
            Rport::Wanted(place) => Some(self.raw.split_at_checked(place).unwrap_or((self.raw, b""))),
            Rport::Absent | Rport::Given(_) => None,
        }
    }

    /// The source address that the receiver of the request added.
    pub const fn received(&self) -> Option<&'a [u8]> {
        self.received
    }

    /// True with two different `received`: a client wrote one, and a proxy added its own.
    pub const fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// True with a `received`, readable or not.
    pub(crate) const fn has_received(&self) -> bool {
        self.has_received
    }

    /// True if `rport` has a value, which the receiver of the request added.
    pub(crate) const fn has_rport_value(&self) -> bool {
        matches!(self.rport, Rport::Given(_))
    }

    /// The port the request was seen to come from.
    pub fn rport(&self) -> Option<u16> {
        match self.rport {
            Rport::Given(value) => number(value).and_then(|port| u16::try_from(port).ok()),
            Rport::Absent | Rport::Wanted(_) => None,
        }
    }

    /// True with an `rport`, asking or telling.
    pub const fn has_rport(&self) -> bool {
        !matches!(self.rport, Rport::Absent)
    }
}

/// Prefix of a branch of an RFC 3261 element (the magic cookie).
const COOKIE: &[u8] = b"z9hG4bK";

/// The rest after `SIP/2.0/` in an unusual spelling.
fn sent_protocol(value: &[u8]) -> Result<&[u8], Malformed> {
    let rest = expect(value, b"SIP")?;
    let rest = expect(rest, b"/")?;
    let rest = expect(rest, b"2.0")?;
    expect(rest, b"/")
}

fn expect<'a>(bytes: &'a [u8], word: &[u8]) -> Result<&'a [u8], Malformed> {
    let start = bytes.get(..word.len()).ok_or(Malformed)?;
    if !start.eq_ignore_ascii_case(word) {
        return Err(Malformed);
    }
    let rest = bytes.get(word.len()..).ok_or(Malformed)?;
    match rest.first() {
        Some(&byte) if is_lws(byte) => Ok(trim_start(rest)),
        _ => Ok(rest),
    }
}

/// `[ COLON port ]`, where COLON may have white space around it, and what follows without white space before it.
#[inline]
fn split_port(bytes: &[u8]) -> Result<(Option<u16>, &[u8]), Malformed> {
    let [b':', on @ ..] = bytes else { return Ok((None, bytes)) };
    let (port, after) = crate::uri::split_port(trim_start(on))?;
    Ok((Some(port), trim_start(after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_may_stand_nearly_everywhere() {
        let via = Via::parse(b"SIP  / 2.0\r\n / TCP     spindle.example.com   ;\r\n branch  =   z9hG4bK9ikj8  ;\r\n received=192.0.2.2").unwrap();
        assert_eq!(via.transport, b"TCP");
        assert_eq!(via.branch, Some(&b"z9hG4bK9ikj8"[..]));
        assert_eq!(via.received(), Some(&b"192.0.2.2"[..]));
        assert!(via.has_unique_branch());
    }

    #[test]
    fn two_addresses_are_ambiguous() {
        for (params, expected) in [
            (";received=192.0.2.2", false),
            (";received=192.0.2.2;branch=z9hG4bK1;received=192.0.2.2", false),
            (";received=192.0.2.2;branch=z9hG4bK1;Received=192.0.2.3", true),
        ] {
            let via = alloc::format!("SIP/2.0/UDP host{params}");
            assert_eq!(Via::parse(via.as_bytes()).unwrap().is_ambiguous(), expected, "{params}");
        }
    }

    #[test]
    fn sent_by_forms() {
        let via = Via::parse(b"SIP/2.0/UDP [2001:db8::9:1]:5070;rport;branch=z9hG4bK").unwrap();
        assert_eq!(via.host.as_bytes(), b"[2001:db8::9:1]");
        assert_eq!(via.port, Some(5070));
        assert!(via.wants_rport() && !via.has_unique_branch());
        let via = Via::parse(b"SIP/2.0/UDP host : 5060;rport=9").unwrap();
        assert_eq!((via.port, via.rport(), via.wants_rport()), (Some(5060), Some(9), false));
    }

    #[test]
    fn what_is_no_via() {
        for bad in [
            &b"SIP/2.0/UDP"[..],
            b"SIP/2.0/UDP ",
            b"SIP/1.0/UDP host",
            b"SIP/2.0/UDP host:99999",
            b"SIP/2.0/UDP host:",
            b"SIP/2.0/UDP 192.0.2.15;;,;,,",
            b"SIP/2.0/UDP [::1",
            b"SIP/2.0/ host",
            b"",
        ] {
            assert_eq!(Via::parse(bad), Err(Malformed), "{:?}", core::str::from_utf8(bad));
        }
    }
}

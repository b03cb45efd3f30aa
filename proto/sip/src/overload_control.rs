//! Parameters of a Via for overload control (RFC 7339 §4, RFC 7415 §3.2).

use crate::grammar::{number, trim};
use crate::write::write_via_without;
use crate::{Via, write_number};
use alloc::vec::Vec;

/// Request of a server to a client to send fewer requests, in the top Via of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverloadControl {
    /// Reduction of the requests that the client sends.
    pub reduction: Reduction,
    /// Time in milliseconds for which it is in effect; 0: no requests are to be withheld.
    pub validity_ms: u64,
    /// Number that rises from one state of the server to the next, in hundred-thousandths.
    pub sequence: u64,
}

/// Reduction of the requests to a server, by the scheme that it chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// So many percent are withheld, 0 to 100 (RFC 7339 §7).
    Loss(u8),
    /// No more are sent than so many a second (RFC 7415).
    Rate(u32),
}

impl OverloadControl {
    /// Default of `oc-validity` in milliseconds (RFC 7339 §4.3).
    const VALIDITY_MS: u64 = 500;

    /// Reads the parameters of the top Via of a response. `None`: the server does not support overload control, or a value is not valid.
    pub fn of_response(via: &Via<'_>) -> Option<Self> {
        let value = number(via.params.value(b"oc")?)?;
        let algorithm = via.params.value(b"oc-algo").map_or(&b"loss"[..], trim);
        let reduction = if algorithm.eq_ignore_ascii_case(b"loss") {
            Reduction::Loss(u8::try_from(value).ok().filter(|percent| *percent <= 100)?)
        } else if algorithm.eq_ignore_ascii_case(b"rate") {
            Reduction::Rate(u32::try_from(value).unwrap_or(u32::MAX))
        } else {
            return None;
        };
        let validity_ms = match via.params.value(b"oc-validity") {
            Some(value) => number(value)?,
            None => Self::VALIDITY_MS,
        };
        let sequence = match via.params.value(b"oc-seq") {
            Some(value) => read_sequence(value)?,
            None => 0,
        };
        Some(Self { reduction, validity_ms, sequence })
    }

    /// True for the top Via of a request whose client supports the loss-based scheme, which is mandatory for those that support any
    /// (RFC 7339 §4.2).
    pub fn is_supported(via: &Via<'_>) -> bool {
        via.params.find(b"oc").is_some_and(|oc| oc.value.is_none())
            && via.params.value(b"oc-algo").is_some_and(|algorithms| {
                algorithms.split(|&byte| byte == b',').any(|name| trim(name).eq_ignore_ascii_case(b"loss"))
            })
    }

    /// Appends the parameters for a request: the loss-based scheme, or both, loss preferred.
    pub fn write_support(out: &mut Vec<u8>, with_rate: bool) {
        out.extend_from_slice(if with_rate { b";oc;oc-algo=\"loss,rate\"" } else { b";oc;oc-algo=\"loss\"" });
    }

    /// Appends the top Via of a response with these parameters in place of those that it has.
    pub fn write_via(&self, via: &Via<'_>, out: &mut Vec<u8>) {
        write_via_without(out, via, &NAMES);
        let (value, algorithm) = match self.reduction {
            Reduction::Loss(percent) => (u64::from(percent), "loss"),
            Reduction::Rate(per_second) => (u64::from(per_second), "rate"),
        };
        out.extend_from_slice(b";oc=");
        write_number(out, value);
        out.extend_from_slice(b";oc-algo=\"");
        out.extend_from_slice(algorithm.as_bytes());
        out.extend_from_slice(b"\";oc-validity=");
        write_number(out, self.validity_ms);
        out.extend_from_slice(b";oc-seq=");
        write_number(out, self.sequence / SEQUENCE_PARTS);
        out.push(b'.');
        let mut divisor = SEQUENCE_PARTS / 10;
        while divisor > 0 {
            write_number(out, self.sequence / divisor % 10);
            divisor /= 10;
        }
    }
}

/// RFC 7339 §9: `1*12DIGIT "." 1*5DIGIT`, in hundred-thousandths.
fn read_sequence(value: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', value);
    let (whole, part) = value.split_at_checked(point.unwrap_or(value.len()))?;
    if whole.len() > 12 || part.len() > 6 {
        return None;
    }
    let mut sequence = number(whole)? * SEQUENCE_PARTS;
    let mut unit = SEQUENCE_PARTS / 10;
    for digit in part.iter().skip(1) {
        sequence += u64::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?) * unit;
        unit /= 10;
    }
    Some(sequence)
}

/// Parts of one in a sequence number.
const SEQUENCE_PARTS: u64 = 100_000;

/// Names of the parameters.
const NAMES: [&[u8]; 4] = [b"oc", b"oc-algo", b"oc-validity", b"oc-seq"];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn control(reduction: Reduction, validity_ms: u64, sequence: u64) -> Option<OverloadControl> {
        Some(OverloadControl { reduction, validity_ms, sequence })
    }

    /// The messages of RFC 7339 §6 and RFC 7415 §4.
    #[test]
    fn the_examples_of_the_rfcs_are_read() {
        for request in [
            "SIP/2.0/TLS p1.example.net;\r\n  branch=z9hG4bK2d4790.1;oc;oc-algo=\"loss,A\"",
            "SIP/2.0/TLS p1.example.net;\r\n  branch=z9hG4bK2d4790.1;received=192.0.2.111;\r\n  oc;oc-algo=\"loss,rate\"",
        ] {
            assert!(OverloadControl::is_supported(&Via::parse(request.as_bytes()).unwrap()), "{request}");
        }
        let begin = "SIP/2.0/TLS p1.example.net;\r\n  branch=z9hG4bK2d4790.3;received=192.0.2.111;\r\n  ";
        for (params, expected) in [
            ("oc=0;oc-algo=\"loss\";oc-validity=0", control(Reduction::Loss(0), 0, 0)),
            (
                "oc=20;oc-algo=\"loss\";oc-validity=500;\r\n  oc-seq=1282321615.782",
                control(Reduction::Loss(20), 500, 128_232_161_578_200),
            ),
            (
                "oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=1282321892.439",
                control(Reduction::Loss(0), 0, 128_232_189_243_900),
            ),
            (
                "oc=0;oc-algo=\"rate\";oc-validity=0;\r\n  oc-seq=1282321615.781",
                control(Reduction::Rate(0), 0, 128_232_161_578_100),
            ),
            (
                "oc=150;oc-algo=\"rate\";oc-validity=1000;\r\n  oc-seq=1282321615.782",
                control(Reduction::Rate(150), 1000, 128_232_161_578_200),
            ),
        ] {
            let via = alloc::format!("{begin}{params}");
            assert_eq!(
                OverloadControl::of_response(&Via::parse(via.as_bytes()).unwrap()),
                expected,
                "{params}"
            );
        }
    }

    #[test]
    fn what_is_not_valid_asks_for_nothing() {
        for params in [
            "",
            ";oc",
            ";oc;oc-algo=\"loss,rate\"",
            ";oc=101;oc-algo=\"loss\"",
            ";oc=-1",
            ";oc=20;oc-algo=\"A\"",
            ";oc=20;oc-validity=x",
            ";oc=20;oc-seq=1.x",
            ";oc=20;oc-seq=1234567890123.1",
            ";oc=20;oc-seq=1.123456",
            ";oc=99999999999999999999",
        ] {
            let via = alloc::format!("SIP/2.0/UDP h;branch=z9hG4bK1{params}");
            assert_eq!(OverloadControl::of_response(&Via::parse(via.as_bytes()).unwrap()), None, "{params}");
        }
        for params in ["", ";oc", ";oc;oc-algo=\"rate\"", ";oc=5;oc-algo=\"loss\"", ";oc-algo=\"loss\""] {
            let via = alloc::format!("SIP/2.0/UDP h;branch=z9hG4bK1{params}");
            assert!(!OverloadControl::is_supported(&Via::parse(via.as_bytes()).unwrap()), "{params}");
        }
    }

    #[test]
    fn the_parameters_of_a_response_replace_those_of_the_request() {
        let control = control(Reduction::Loss(20), 500, 128_232_161_578_200).unwrap();
        let mut out = Vec::new();
        let via = "SIP/2.0/TLS p1.example.net;branch=z9hG4bK2d4790.3;oc;oc-algo=\"loss,A\";received=192.0.2.111;OC-Seq=9.9";
        control.write_via(&Via::parse(via.as_bytes()).unwrap(), &mut out);
        let expected = "SIP/2.0/TLS p1.example.net;branch=z9hG4bK2d4790.3;received=192.0.2.111\
            ;oc=20;oc-algo=\"loss\";oc-validity=500;oc-seq=1282321615.78200";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        assert_eq!(OverloadControl::of_response(&Via::parse(&out).unwrap()), Some(control));
        for with_rate in [false, true] {
            let mut support = via.split(";oc;").next().unwrap().as_bytes().to_vec();
            OverloadControl::write_support(&mut support, with_rate);
            assert!(OverloadControl::is_supported(&Via::parse(&support).unwrap()));
        }
    }
}

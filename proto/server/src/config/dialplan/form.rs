//! Forms in which carriers and users write telephone numbers.

use super::Number;
use alloc::string::String;

/// Numbers as the users of a domain write them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialing {
    /// The domain, in lower case; `None`: each.
    pub domain: Option<String>,
    /// Form of the numbers that its users call.
    pub called: NumberForm,
    /// Form of the callers' numbers that its users get.
    pub callers: NumberForm,
}

/// Form of the numbers of a trunk, or of the users of a domain. Inside, a number of E.164 has a `+`; what is none, such as a service code, stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumberForm {
    /// As they are.
    #[default]
    Unchanged,
    /// `+49301234`.
    E164,
    /// `49301234`.
    Plain,
    /// `0049301234`.
    DoubleZero,
    /// `0301234` in one country, and digits such as `00` before the code of another one.
    National {
        /// Code of the country, as `49`.
        country: String,
        /// Digits before the area code, as `0`; empty: none.
        prefix: String,
        /// Digits before the code of another country, as `00`.
        international: String,
    },
}

impl NumberForm {
    /// The number of E.164 that a trunk writes in this form.
    pub fn read(&self, number: &Number) -> Number {
        let digits = number.as_bytes();
        let strip = |prefix: &[u8], add: &[u8]| {
            let is_long = digits.len() >= prefix.len() + SUBSCRIBER_DIGITS_MIN;
            (is_long && digits.starts_with(prefix)).then(|| number.changed(prefix.len(), add)).flatten()
        };
        let is_number = digits.iter().all(u8::is_ascii_digit);
        let read = match self {
            _ if !is_number => None,
            Self::Unchanged | Self::E164 => None,
            Self::Plain if digits.len() >= GLOBAL_DIGITS_MIN && !digits.starts_with(b"0") => strip(b"", b"+"),
            Self::Plain => None,
            Self::DoubleZero => strip(b"00", b"+"),
            Self::National { country, prefix, international } => strip(international.as_bytes(), b"+")
                .or_else(|| {
                    let is_area_code = prefix.is_empty() || digits.get(prefix.len()) != Some(&b'0');
                    let add = [b"+", country.as_bytes()].concat();
                    is_area_code.then(|| strip(prefix.as_bytes(), &add)).flatten()
                }),
        };
        read.unwrap_or(*number)
    }

    /// The form of a number for a trunk.
    pub fn write(&self, number: &Number) -> Number {
        let replace = |code: &[u8], add: &[u8]| {
            number.as_bytes().starts_with(code).then(|| number.changed(code.len(), add)).flatten()
        };
        let written = match self {
            _ if !number.is_global() => None,
            Self::Unchanged | Self::E164 => None,
            Self::Plain => replace(b"+", b""),
            Self::DoubleZero => replace(b"+", b"00"),
            Self::National { country, prefix, international } => {
                let code = [b"+", country.as_bytes()].concat();
                replace(&code, prefix.as_bytes()).or_else(|| replace(b"+", international.as_bytes()))
            }
        };
        written.unwrap_or(*number)
    }

    /// True if numbers have another form inside.
    pub const fn changes(&self) -> bool {
        !matches!(self, Self::Unchanged)
    }
}

/// Minimum number of digits of a number with the code of its country: fewer are a service, such as `116117`.
const GLOBAL_DIGITS_MIN: usize = 8;
/// Minimum number of digits behind a prefix: fewer are a service code, such as `0800` without a number.
const SUBSCRIBER_DIGITS_MIN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_are_read_and_written_in_the_form_of_the_trunk() {
        let of = |country: &str, prefix: &str, international: &str| {
            let [country, prefix, international] = [country, prefix, international].map(Into::into);
            NumberForm::National { country, prefix, international }
        };
        let national = || of("49", "0", "00");
        for (form, outside, inside) in [
            (NumberForm::Unchanged, "030123456", "030123456"),
            (NumberForm::E164, "+4930123456", "+4930123456"),
            (NumberForm::Plain, "4930123456", "+4930123456"),
            (NumberForm::DoubleZero, "004930123456", "+4930123456"),
            (national(), "030123456", "+4930123456"),
            (national(), "0012015550123", "+12015550123"),
            (of("47", "", "00"), "22334455", "+4722334455"),
            (of("1", "1", "011"), "12015550123", "+12015550123"),
            (of("1", "1", "011"), "01144201234567", "+44201234567"),
        ] {
            assert_eq!(form.read(&number(outside)), number(inside), "{form:?} {outside}");
            assert_eq!(form.write(&number(inside)), number(outside), "{form:?} {inside}");
        }
    }

    #[test]
    fn what_is_no_subscriber_number_stays() {
        let national =
            NumberForm::National { country: "49".into(), prefix: "0".into(), international: "00".into() };
        for text in ["110", "112", "*21*5#", "0110", "00", "+4930123456", "11833"] {
            assert_eq!(national.read(&number(text)), number(text), "{text}");
        }
        for (form, text) in [
            (NumberForm::Plain, "110"),
            (NumberForm::Plain, "11833"),
            (NumberForm::Plain, "116117"),
            (NumberForm::Plain, "030123456"),
            (NumberForm::DoubleZero, "030123456"),
            (NumberForm::E164, "0049301234567"),
        ] {
            assert_eq!(form.read(&number(text)), number(text), "{form:?} {text}");
        }
        assert_eq!(national.write(&number("112")), number("112"));
        // A number that would be too long stays as it is.
        let long = number("+1234567890123456789012345678901");
        assert_eq!(NumberForm::DoubleZero.write(&long), long);
    }
}

//! SIP URIs of a telephone number (ENUM, RFC 6116).

use crate::expression::Substitution;
use crate::locator::{Naptr, Question, by_order, is_name};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::NumberTarget;

/// Search for the URIs of one number, in one zone after another.
///
/// ```
/// use ringway_resolve::{Naptr, NumberSearch, Question};
/// use ringway_sansio::NumberTarget;
///
/// let zones = ["e164.arpa".into()].into();
/// let mut search = NumberSearch::new(NumberTarget { digits: "4416".into(), zones, source: None });
/// assert_eq!(search.question(), Some(Question::Naptr("6.1.4.4.e164.arpa".into())));
/// let (flags, service, regexp) = ("u", "E2U+sip", r"!^\+44(.*)$!sip:\1@example.com!");
/// search.on_naptr([Naptr { order: 1, preference: 1, flags, service, regexp, replacement: "." }]);
/// assert_eq!(*search.into_uris(), [Box::from("sip:16@example.com")]);
/// ```
#[derive(Debug)]
pub struct NumberSearch {
    target: NumberTarget,
    /// Index of the zone of the present question.
    zone: usize,
    uris: Vec<Box<str>>,
}

impl NumberSearch {
    /// Maximum number of URIs.
    pub const URIS_MAX: usize = 4;

    /// Starts the search. Anything but 1 to 15 digits has no URI.
    pub fn new(target: NumberTarget) -> Self {
        let digits = target.digits.as_bytes();
        let is_number =
            (1..=NumberTarget::DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        let zone = if is_number { 0 } else { NumberTarget::ZONES_MAX };
        Self { target, zone, uris: Vec::new() }
    }

    /// The lookup that the search waits for; `None` at its end.
    pub fn question(&self) -> Option<Question> {
        if self.zone >= NumberTarget::ZONES_MAX || !self.uris.is_empty() {
            return None;
        }
        let zone = self.target.zones.get(self.zone)?;
        let mut name = String::with_capacity(2 * self.target.digits.len() + zone.len());
        for digit in self.target.digits.chars().rev() {
            name.push(digit);
            name.push('.');
        }
        name.push_str(zone);
        is_name(&name).then(|| Question::Naptr(name.into()))
    }

    /// Handles the NAPTR records of the last question; none: the name has no records, or the lookup failed.
    ///
    /// Of the records that give a SIP URI those of the lowest order count (RFC 3403 §4.1). Records that lead to other names
    /// (RFC 6116 §3.2: non-terminal) are refused.
    pub fn on_naptr<'r>(&mut self, records: impl IntoIterator<Item = Naptr<'r>>) {
        if self.question().is_none() {
            return;
        }
        self.zone += 1;
        let number = ["+", &self.target.digits].concat();
        let mut order = None;
        for record in by_order(records) {
            if order.is_some_and(|order| order != record.order) || self.uris.len() >= Self::URIS_MAX {
                return;
            }
            if let Some(uri) = uri_of(&record, &number) {
                order = Some(record.order);
                self.uris.push(uri.into());
            }
        }
    }

    /// The URIs in the order of preference.
    pub fn into_uris(self) -> Box<[Box<str>]> {
        self.uris.into()
    }
}

/// The SIP URI that a record has for a number.
fn uri_of(record: &Naptr<'_>, number: &str) -> Option<String> {
    if !record.flags.eq_ignore_ascii_case("u") || !is_sip_service(record.service) {
        return None;
    }
    let uri = Substitution::parse(record.regexp).ok()?.apply(number)?;
    let has_scheme = |scheme: &str| uri.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
    let is_uri =
        (has_scheme("sip:") || has_scheme("sips:")) && uri.bytes().all(|byte| byte.is_ascii_graphic());
    is_uri.then_some(uri)
}

/// True for `E2U+sip`, alone or among other services, each with any subtypes (RFC 6116 §3.4.3), and for `sip+E2U`, which RFC
/// 2916 had.
fn is_sip_service(service: &str) -> bool {
    let mut parts = service.split('+');
    let is_sip = |part: &str| part.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("sip"));
    match parts.next() {
        Some(first) if first.eq_ignore_ascii_case("E2U") => parts.any(is_sip),
        Some(first) => is_sip(first) && parts.next().is_some_and(|it| it.eq_ignore_ascii_case("E2U")),
        None => false,
    }
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;

//! Silence in place of refusals. Refusing takes a fifth of a call; where more is refused than handled, a part of the new requests is dropped
//! before it is parsed, and what is left is refused or admitted as before.
//!
//! Without this, a server that cannot even refuse all that comes admits nothing: everything waits longer than the longest limit.

use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sip::{HeaderName, peek_fields};

/// Requests that were admitted and refused, those of the last periods counting less and less, and the parts of the new ones that are dropped.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    ends_at: Instant,
    admitted: u32,
    refused: u32,
    kinds: [KindCount; KINDS],
}

#[derive(Clone, Copy, Debug, Default)]
struct KindCount {
    /// New requests that were refused or dropped.
    refused: u32,
    /// Part that is dropped, in 256ths.
    silent: u16,
}

/// Number of kinds of new requests.
const KINDS: usize = 4;

/// Kind of a new request, in the order in which they are dropped: those of sources that send many first, registrations last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(usize);

impl Kind {
    pub(super) const fn of(is_register: bool, is_of_many_requests: bool) -> Self {
        Self(match (is_of_many_requests, is_register) {
            (true, false) => 0,
            (true, true) => 1,
            (false, false) => 2,
            (false, true) => 3,
        })
    }
}

impl Refusals {
    /// True if a part of the new requests is dropped now.
    pub(super) fn is_silent(&mut self, now: Instant) -> bool {
        self.renew(now);
        self.kinds.iter().any(|kind| kind.silent > 0)
    }

    /// True if more was refused than may be.
    pub(super) const fn is_over(&self) -> bool {
        self.refused > self.allowed()
    }

    /// True if a late request of this kind is dropped, which is counted. Requests with the same `hash` are dropped alike.
    pub(super) fn drops(&mut self, kind: Kind, hash: u8) -> bool {
        let Some(count) = self.kinds.get_mut(kind.0) else { return false };
        let is_dropped = u16::from(hash) < count.silent;
        count.refused += u32::from(is_dropped);
        self.refused += u32::from(is_dropped);
        is_dropped
    }

    /// Counts a request that was handled.
    pub(super) fn admitted(&mut self, now: Instant) {
        self.renew(now);
        self.admitted += 1;
    }

    /// Counts a request that was refused.
    pub(super) fn refused(&mut self, now: Instant, kind: Kind) {
        self.renew(now);
        if let Some(count) = self.kinds.get_mut(kind.0) {
            count.refused += 1;
        }
        self.refused += 1;
    }

    /// Begins a period when the last one is over.
    fn renew(&mut self, now: Instant) {
        if now < self.ends_at {
            return;
        }
        if now > self.ends_at + PERIOD * 4 {
            *self = Self { ends_at: now + PERIOD, ..Self::default() };
            return;
        }
        let mut over = self.refused.saturating_sub(self.allowed());
        for kind in &mut self.kinds {
            let dropped = over.min(kind.refused);
            over -= dropped;
            let part = (u64::from(dropped) * 256).checked_div(u64::from(kind.refused)).unwrap_or_default();
            *kind = KindCount { refused: kind.refused / 4 * 3, silent: part as u16 };
        }
        let part = |count: u32| count / 4 * 3;
        (self.ends_at, self.refused, self.admitted) = (now + PERIOD, part(self.refused), part(self.admitted));
    }

    const fn allowed(&self) -> u32 {
        self.admitted.saturating_mul(REFUSED_EACH).saturating_add(REFUSED_MIN)
    }
}

/// Time after which the parts are computed again.
const PERIOD: Duration = Duration::from_millis(100);

/// Requests that are refused for each that is handled. Two of these are a call, which takes as long as five refusals.
const REFUSED_EACH: u32 = 1;

/// Requests that are refused in any case, of four periods.
const REFUSED_MIN: u32 = 200;

/// A request that was not parsed, by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unparsed<'m> {
    pub(super) is_register: bool,
    pub(super) call_id: &'m [u8],
}

impl<'m> Unparsed<'m> {
    /// Reads the fields of a request that belongs to no dialog and has no credentials; `None` for any other one.
    pub(super) fn new_request(bytes: &'m [u8]) -> Option<Self> {
        if IN_DIALOG.iter().any(|method| bytes.starts_with(method)) {
            return None;
        }
        let (mut call_id, mut has_to) = (None, false);
        for (name, value) in peek_fields(bytes) {
            match name {
                HeaderName::To if has_tag(value) => return None,
                HeaderName::To => has_to = true,
                HeaderName::CallId => call_id = Some(value),
                HeaderName::Authorization | HeaderName::ProxyAuthorization => return None,
                _ => {}
            }
        }
        let is_register = bytes.starts_with(b"REGISTER ");
        has_to.then_some(Self { is_register, call_id: call_id? })
    }
}

fn has_tag(value: &[u8]) -> bool {
    value.windows(4).any(|part| part.eq_ignore_ascii_case(b";tag"))
}

/// Methods that are part of what was begun before.
const IN_DIALOG: [&[u8]; 6] = [b"ACK ", b"BYE ", b"CANCEL ", b"PRACK ", b"UPDATE ", b"INFO "];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    const NOW: Instant = Instant::from_secs(100);
    const LIGHT: Kind = Kind::of(false, false);
    const HEAVY: Kind = Kind::of(false, true);

    /// Counts new requests of kinds for ten periods, of which some are admitted; returns the part that is dropped then.
    fn silent(refusals: &mut Refusals, kinds: &[(Kind, u32)], admitted: u32) -> [u16; KINDS] {
        for period in 0..10 {
            let now = NOW + PERIOD * period;
            refusals.is_silent(now);
            for (kind, count) in kinds {
                for number in 0..*count {
                    let hash = (number * 256 / count) as u8;
                    if number < admitted {
                        refusals.admitted(now);
                    } else if !refusals.drops(*kind, hash) {
                        refusals.refused(now, *kind);
                    }
                }
            }
        }
        refusals.is_silent(NOW + PERIOD * 10);
        refusals.kinds.map(|kind| kind.silent)
    }

    #[test]
    fn what_can_be_refused_is_refused() {
        let mut refusals = Refusals::default();
        assert_eq!(silent(&mut refusals, &[(LIGHT, 60)], 10), [0; KINDS]);
        assert!(!refusals.is_over());
    }

    #[test]
    fn a_part_is_dropped_where_refusing_takes_too_much_and_first_of_those_who_send_much() {
        let mut refusals = Refusals::default();
        let [heavy, _, light, _] = silent(&mut refusals, &[(HEAVY, 1000)], 10);
        assert!(heavy > 230 && light == 0, "{heavy}, {light}");
        let mut refusals = Refusals::default();
        let [heavy, _, light, _] = silent(&mut refusals, &[(HEAVY, 1000), (LIGHT, 50)], 10);
        assert!(heavy > 230 && light == 0, "{heavy}, {light}");
        assert!(!refusals.is_silent(NOW + PERIOD * 20), "it is over");
    }

    #[test]
    fn only_a_request_outside_of_dialogs_and_without_credentials_is_new() {
        let request = |start: &str, to: &str, more: &str| {
            format!(
                "{start} SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nt : {to}\r\nCALL-ID:  a1 \r\n{more}\r\nTo: x;tag=body\r\n"
            )
        };
        let new = |text: &str| {
            Unparsed::new_request(text.as_bytes()).map(|of| (of.is_register, of.call_id.to_vec()))
        };
        let (bob, one) = ("<sip:bob@h>", Some((false, b"a1".to_vec())));
        assert_eq!(new(&request("INVITE sip:bob@h", bob, "")), one);
        assert_eq!(new(&request("REGISTER sip:h", bob, "")), Some((true, b"a1".to_vec())));
        for (start, to, more) in [
            ("INVITE sip:bob@h", "<sip:bob@h>;tag=1", ""),
            ("INVITE sip:bob@h", "<sip:bob@h>\r\n ;TAG=1", ""),
            ("INVITE sip:bob@h", bob, "Proxy-Authorization: Digest x\r\n"),
            ("ACK sip:bob@h", bob, ""),
            ("CANCEL sip:bob@h", bob, ""),
        ] {
            assert_eq!(new(&request(start, to, more)), None, "{start} {to} {more}");
        }
        for text in
            ["", "\n", "INVITE", "INVITE sip:bob@h SIP/2.0\r\n\r\n", "INVITE x\r\nTo: <sip:bob@h>\r\n\r\n"]
        {
            assert_eq!(new(text), None, "{text:?}");
        }
    }
}

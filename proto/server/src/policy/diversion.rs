//! Header fields of a diverted INVITE: History-Info (RFC 7044) and Diversion (RFC 5806).

use crate::Config;
use crate::report::DiversionReason;
use alloc::vec::Vec;
use ringway_sip::grammar::number_u32;
use ringway_sip::{HeaderName, Message, NameAddr, Scheme, Uri, write_number};

/// Values that a diversion adds to a request; each is empty if it cannot be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DivertedLines {
    /// Value of History-Info, behind those of the request.
    pub(crate) history: Vec<u8>,
    /// Value of Diversion, before those of the request.
    pub(crate) diversion: Vec<u8>,
}

/// Diversion of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diverted<'a> {
    pub(crate) message: &'a Message<'a>,
    /// Request-URI.
    pub(crate) from: Uri<'a>,
    /// URI in place of the Request-URI, in the lines.
    pub(crate) shown: Option<&'a [u8]>,
    /// New target.
    pub(crate) to: &'a [u8],
    pub(crate) reason: DiversionReason,
    /// The header fields of the request stay in it.
    pub(crate) is_believed: bool,
    /// The target is outside the server's domains.
    pub(crate) leaves: bool,
}

/// Number of times that a call was diverted, by its Diversion and its History-Info. The sender may have changed it.
pub(crate) fn diversions_of(message: &Message<'_>) -> u32 {
    let counted = message.values(HeaderName::Diversion).map(|value| {
        let counter = NameAddr::parse(value).ok().and_then(|value| value.params.value(b"counter"));
        counter.and_then(number_u32).map_or(1, |counter| counter.clamp(1, COUNTER_MAX))
    });
    let counted = counted.fold(0, u32::saturating_add);
    let is_mapped = |value: &[u8]| NameAddr::parse(value).is_ok_and(|entry| entry.params.has(b"mp"));
    let mapped = message.values(HeaderName::HistoryInfo).filter(|value| is_mapped(value)).count();
    counted.max(u32::try_from(mapped).unwrap_or(u32::MAX))
}

impl Diverted<'_> {
    /// Lines that are added to the request.
    pub(crate) fn lines(&self) -> DivertedLines {
        let is_writable = |uri: &[u8]| {
            uri.len() <= URI_BYTES_MAX
                && uri.iter().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(byte))
        };
        let mut lines = DivertedLines::default();
        if is_writable(self.from.as_bytes()) && is_writable(self.to) {
            self.write_history(&mut lines.history);
            self.write_diversion(&mut lines.diversion);
        }
        lines
    }

    /// RFC 7044 §9.1, §9.2: an entry for the Request-URI, if the previous hop added none, and one for the target.
    fn write_history(&self, out: &mut Vec<u8>) {
        let mut index = Vec::new();
        let is_listed = match self.last_entry() {
            LastEntry::None => {
                index.extend_from_slice(b"1");
                false
            }
            LastEntry::Entry { index: last, is_request_uri } => {
                index.extend_from_slice(last);
                // §10.3 rule 6: there was a hop without an entry.
                index.extend_from_slice(if is_request_uri { b"" } else { b".0" });
                is_request_uri
            }
            LastEntry::Unusable => return,
        };
        if !is_listed {
            out.push(b'<');
            self.write_from(out);
            // §5: a `tel:` URI has no headers.
            let has_headers = self.shown.is_some() || self.from.is_sip();
            if let Some(status) = self.reason.response().filter(|_| has_headers && !self.is_private()) {
                out.extend_from_slice(b"?Reason=SIP%3Bcause%3D");
                out.extend_from_slice(status);
            }
            out.extend_from_slice(b">;index=");
            out.extend_from_slice(&index);
            out.extend_from_slice(b", ");
        }
        out.push(b'<');
        out.extend_from_slice(self.to);
        out.extend_from_slice(b">;index=");
        out.extend_from_slice(&index);
        out.extend_from_slice(b".1;mp=");
        out.extend_from_slice(&index);
    }

    fn write_diversion(&self, out: &mut Vec<u8>) {
        out.push(b'<');
        self.write_from(out);
        out.extend_from_slice(b">;reason=");
        out.extend_from_slice(self.reason.name().as_bytes());
        // The lines of a sender that is not believed are removed: this one has their number too.
        let removed = if self.is_believed { 0 } else { diversions_of(self.message) };
        out.extend_from_slice(b";counter=");
        write_number(out, u64::from(removed.saturating_add(1).min(COUNTER_MAX)));
        if self.is_private() {
            out.extend_from_slice(b";privacy=full");
        }
    }

    /// The URI of the user whose forward or phone diverts the call.
    fn write_from(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.is_private() {
            true => ANONYMOUS,
            false => self.shown.unwrap_or(self.from.as_bytes()),
        });
    }

    /// RFC 7044 §10.1.2: entries of our domains are anonymized where the request leaves them.
    fn is_private(&self) -> bool {
        let mut privacy =
            self.message.values(HeaderName::Privacy).flat_map(|value| value.split(|&b| b == b';'));
        let asks = |value: &[u8]| {
            let value = value.trim_ascii();
            value.eq_ignore_ascii_case(b"history") || value.eq_ignore_ascii_case(b"header")
        };
        self.leaves && privacy.any(asks)
    }

    fn last_entry(&self) -> LastEntry<'_> {
        if !self.is_believed || !self.message.has(HeaderName::HistoryInfo) {
            return LastEntry::None;
        }
        let mut values = self.message.values(HeaderName::HistoryInfo);
        let Some(last) = values.by_ref().take(ENTRIES_MAX).last() else { return LastEntry::None };
        if values.next().is_some() {
            return LastEntry::Unusable;
        }
        let Ok(entry) = NameAddr::parse(last) else { return LastEntry::Unusable };
        let is_index = |index: &&[u8]| {
            index.len() <= INDEX_BYTES_MAX
                && index.split(|&byte| byte == b'.').all(|number| number_u32(number).is_some())
        };
        let Some(index) = entry.params.value(b"index").filter(is_index) else { return LastEntry::Unusable };
        let uri = entry.uri.as_bytes();
        let bare = uri.split(|&byte| byte == b'?').next().unwrap_or(uri);
        let is_request_uri = Uri::parse(bare).is_ok_and(|uri| uri.equals(&self.from));
        LastEntry::Entry { index, is_request_uri }
    }
}

/// Last entry of a received History-Info.
enum LastEntry<'a> {
    None,
    Entry {
        index: &'a [u8],
        /// It is for the Request-URI.
        is_request_uri: bool,
    },
    /// It cannot be extended: it is malformed, or too long.
    Unusable,
}

const ANONYMOUS: &[u8] = b"sip:anonymous@anonymous.invalid";

/// Maximum length of the URIs: lines with longer ones could exceed what forwarding may add.
const URI_BYTES_MAX: usize = 512;
/// Maximum length of a received index.
const INDEX_BYTES_MAX: usize = 64;
/// Maximum number of received entries that are extended.
const ENTRIES_MAX: usize = 32;
/// Maximum `counter` of one Diversion (RFC 5806 §4 permits two digits).
const COUNTER_MAX: u32 = 99;

/// Target of a diversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DivertedTo {
    pub(crate) uri: Vec<u8>,
    /// True if it is outside the server's domains.
    pub(crate) leaves: bool,
}

impl DivertedTo {
    /// Target for a request with a Request-URI of `scheme`; `None`: the request cannot go there.
    pub(crate) fn new(config: &Config, scheme: Scheme, uri: &[u8], reason: DiversionReason) -> Option<Self> {
        let parsed = Uri::parse(uri).ok()?;
        let leaves = config.domain_of(&parsed).is_none();
        let mut to = Vec::with_capacity(uri.len() + ADDED_BYTES);
        match (scheme, parsed.scheme()) {
            // RFC 5630 §5.3: never downgraded. A user of ours has an address of either scheme.
            (Scheme::Sips, Scheme::Sip) if leaves => return None,
            (Scheme::Sips, Scheme::Sip) => {
                to.extend_from_slice(b"sips:");
                to.extend_from_slice(uri.get(4..)?);
            }
            (_, _) => to.extend_from_slice(uri),
        }
        match reason {
            DiversionReason::Forward(_) => {
                to.extend_from_slice(b";cause=");
                to.extend_from_slice(reason.cause());
            }
            // A contact of a phone is used as it is.
            DiversionReason::Redirect => {}
        }
        Some(Self { uri: to, leaves })
    }
}

/// Length of an `s` and of `;cause=486`.
const ADDED_BYTES: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use ringway_sip::Limits;
    use ringway_users::Condition;

    const BUSY: DiversionReason = DiversionReason::Forward(Condition::Busy);

    fn invite(lines: &str) -> Vec<u8> {
        let start = "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n";
        let ids = "From: <sip:a@b>;tag=x\r\nTo: <sip:bob@example.org>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n";
        format!("{start}{ids}{lines}\r\n").into_bytes()
    }

    fn lines_with(lines: &str, reason: DiversionReason, is_believed: bool, leaves: bool) -> (String, String) {
        let bytes = invite(lines);
        let message = Message::parse(&bytes, &Limits::default()).unwrap();
        let from = Uri::parse(b"sip:bob@example.org").unwrap();
        let to = b"sip:carol@example.org;cause=486";
        let diverted = Diverted { message: &message, from, shown: None, to, reason, is_believed, leaves };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let lines = diverted.lines();
        (text(lines.history), text(lines.diversion))
    }

    fn history(lines: &str) -> String {
        lines_with(lines, BUSY, true, false).0
    }

    #[test]
    fn a_first_diversion_has_an_entry_for_each_of_both_targets() {
        assert_eq!(
            lines_with("", BUSY, true, false),
            (
                "<sip:bob@example.org?Reason=SIP%3Bcause%3D486>;index=1, \
                 <sip:carol@example.org;cause=486>;index=1.1;mp=1"
                    .into(),
                "<sip:bob@example.org>;reason=user-busy;counter=1".into()
            )
        );
        let always = lines_with("", DiversionReason::Forward(Condition::Always), true, false);
        assert!(always.0.starts_with("<sip:bob@example.org>;index=1, "), "{}", always.0);
    }

    #[test]
    fn the_history_of_a_believed_sender_is_extended() {
        let last =
            "History-Info: <sip:x@y>;index=1, <sip:bob@Example.org?Reason=SIP%3Bcause%3D302>;index=1.4\r\n";
        assert_eq!(history(last), "<sip:carol@example.org;cause=486>;index=1.4.1;mp=1.4");
        let other = "History-Info: <sip:dave@example.org>;index=1.2\r\n";
        assert!(history(other).ends_with(">;index=1.2.0.1;mp=1.2.0"), "{}", history(other));
        let from_stranger = lines_with(last, BUSY, false, false).0;
        assert!(from_stranger.ends_with(">;index=1.1;mp=1"), "{from_stranger}");
    }

    #[test]
    fn a_history_that_is_malformed_or_too_long_is_not_extended() {
        for bad in
            ["<sip:x@y>", "<sip:x@y>;index=1.x", "<sip:x@y>;index=", ">;index=1", "<sip:x@y>;index=1..2"]
        {
            assert_eq!(history(&format!("History-Info: {bad}\r\n")), "", "{bad}");
        }
        let index = "1.".repeat(40);
        assert_eq!(history(&format!("History-Info: <sip:x@y>;index={index}1\r\n")), "");
        let entries = "<sip:x@y>;index=1,".repeat(32);
        assert_eq!(history(&format!("History-Info: {entries}<sip:x@y>;index=1\r\n")), "");
    }

    #[test]
    fn a_call_that_leaves_our_domains_and_asks_for_privacy_names_nobody() {
        for (privacy, leaves, is_named) in [
            ("Privacy: id; History\r\n", true, false),
            ("Privacy: header\r\n", true, false),
            ("Privacy: history\r\n", false, true),
            ("Privacy: none\r\n", true, true),
        ] {
            let (history, diversion) = lines_with(privacy, BUSY, true, leaves);
            assert_eq!(history.contains("bob"), is_named, "{history}");
            assert_eq!(diversion.contains("bob"), is_named, "{diversion}");
            assert_eq!(diversion.ends_with(";privacy=full"), !is_named, "{diversion}");
        }
    }

    #[test]
    fn diversions_are_counted_by_both_fields() {
        let count = |lines: &str| {
            let bytes = invite(lines);
            diversions_of(&Message::parse(&bytes, &Limits::default()).unwrap())
        };
        assert_eq!(count(""), 0);
        assert_eq!(count("Diversion: <sip:a@b>, <sip:c@d>;counter=3\r\nDiversion: <sip:e@f>\r\n"), 5);
        assert_eq!(count("History-Info: <sip:a@b>;index=1, <sip:c@d>;index=1.1;mp=1\r\n"), 1);
        assert_eq!(count("Diversion: <sip:a@b>;counter=4294967295, <sip:a@b>;counter=0, <<\r\n"), 101);
    }
}

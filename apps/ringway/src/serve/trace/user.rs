//! The user whose requests a trace follows, and the header of a message, line by line, without a check of the rest;
//! Call-IDs of the user's messages.

use memchr::memmem::Finder;
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::{HeaderName, Message, NameAddr, Start, Uri};
use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// User of a trace, by name or by name and domain.
#[derive(Debug)]
pub(super) struct TracedUser {
    name: Vec<u8>,
    domain: Option<Vec<u8>>,
    finder: Finder<'static>,
}

impl TracedUser {
    /// User named `name` or `name@domain`; `None`: no user can have that name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, domain) = split(text);
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        if text.len() > NAME_BYTES_MAX || !is_word(name) || !domain.is_none_or(is_word) {
            return None;
        }
        let name = name.as_bytes().to_vec();
        let finder = Finder::new(&name).into_owned();
        Some(Self { name, domain: domain.map(|domain| domain.as_bytes().to_vec()), finder })
    }

    /// True for the same name and domain.
    pub(super) fn is(&self, text: &str) -> bool {
        let (name, domain) = split(text);
        self.name == name.as_bytes() && self.domain.as_deref() == domain.map(str::as_bytes)
    }

    /// False for most messages of other users, which are not read.
    pub(super) fn is_mentioned_in(&self, message: &[u8]) -> bool {
        self.finder.find(message).is_some()
    }

    /// The same for a parsed request, from the values that name users only.
    pub(super) fn may_be_in(&self, request: &Message<'_>) -> bool {
        let is_name = |uri: &Uri<'_>| uri.user() == Some(self.name.as_slice());
        let has_in = |name| request.lines_of(name).any(|value| self.is_mentioned_in(value));
        is_name(&request.from().uri)
            || is_name(&request.to().uri)
            || matches!(request.start(), Start::Request { uri, .. } if is_name(uri))
            || [HeaderName::Authorization, HeaderName::ProxyAuthorization, HeaderName::PAssertedIdentity]
                .into_iter()
                .any(has_in)
    }

    /// True if the message is from, to or about the user.
    pub(super) fn has(&self, message: &[u8]) -> bool {
        self.is_mentioned_in(message) && self.is_named_in(&Head::of(message))
    }

    fn is_named_in(&self, head: &Head<'_>) -> bool {
        let request_uri = head.first_line.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        // A response has its status there.
        Uri::parse(request_uri).is_ok_and(|uri| self.is_in(&uri))
            || head.fields().any(|(name, value)| match HeaderName::from_bytes(name) {
                HeaderName::From | HeaderName::To | HeaderName::PAssertedIdentity => {
                    NameAddr::parse(value).is_ok_and(|address| self.is_in(&address.uri))
                }
                HeaderName::Authorization | HeaderName::ProxyAuthorization => self.logs_in_by(value),
                _ => false,
            })
    }

    fn is_in(&self, uri: &Uri<'_>) -> bool {
        uri.user() == Some(self.name.as_slice())
            && self.domain.as_ref().is_none_or(|domain| uri.host().as_bytes().eq_ignore_ascii_case(domain))
    }

    fn logs_in_by(&self, value: &[u8]) -> bool {
        let Ok(Some(given)) = Credentials::parse(value) else { return false };
        let user = unescape(given.username);
        let domain = self.domain.as_ref().is_none_or(|domain| given.realm.eq_ignore_ascii_case(domain));
        *user == *self.name && domain
    }
}

/// Name, and domain if there is one.
fn split(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once('@').map_or((text, None), |(name, domain)| (name, Some(domain)))
}

/// Maximum length of a name with its domain.
const NAME_BYTES_MAX: usize = 128;

/// First line of a message, and its header fields as far as they can be told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) first_line: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        let end = memchr::memchr(b'\n', message).unwrap_or(message.len());
        let (first_line, rest) = message.split_at(end);
        Self { first_line: first_line.trim_ascii(), rest: rest.get(1..).unwrap_or_default() }
    }

    /// Names and values, until the body. A value that continues on further lines ends with its first one.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let lines = self.rest.split(|&byte| byte == b'\n').map(|line| line.trim_ascii_end());
        lines.take_while(|line| !line.is_empty()).take(LINES_MAX).filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            let (name, value) = line.split_at(colon);
            Some((name.trim_ascii(), value.get(1..).unwrap_or_default().trim_ascii()))
        })
    }
}

/// Finds the Call-ID of a message without reading all its header fields.
#[derive(Debug)]
pub(super) struct CallIdFinder {
    usual: Finder<'static>,
}

impl CallIdFinder {
    pub(super) fn new() -> Self {
        Self { usual: Finder::new(b"\nCall-ID:") }
    }

    /// The same, but for a message whose Call-ID has its compact name: then it is that of a message in its body, if there is one.
    pub(super) fn probable<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        match self.usual.find(message) {
            Some(at) => Some(self.value(message, at)),
            None => self.find(message),
        }
    }

    /// Call-ID; `None`: the message has none.
    pub(super) fn find<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        if let Some(at) = self.usual.find(message)
            && !is_in_body(message, at)
        {
            return Some(self.value(message, at));
        }
        let is_it = |name: &[u8]| name.eq_ignore_ascii_case(b"Call-ID") || name.eq_ignore_ascii_case(b"i");
        Head::of(message).fields().find(|(name, _)| is_it(name)).map(|(_, value)| value)
    }

    /// Value of the line that begins at `at`.
    fn value<'a>(&self, message: &'a [u8], at: usize) -> &'a [u8] {
        let value = message.get(at + self.usual.needle().len()..).unwrap_or_default();
        let end = memchr::memchr(b'\n', value).unwrap_or(value.len());
        value.get(..end).unwrap_or_default().trim_ascii()
    }
}

/// True if a header ends before `at`.
fn is_in_body(message: &[u8], at: usize) -> bool {
    let head = message.get(..at).unwrap_or_default();
    memchr::memchr_iter(b'\n', head).any(|end| {
        let next = head.get(end + 1..).unwrap_or_default();
        next.starts_with(b"\n") || next.starts_with(b"\r\n")
    })
}

/// Text of at most `bytes_max` bytes; bytes that are not UTF-8 are replaced.
pub(super) fn text(bytes: &[u8], bytes_max: usize) -> String {
    let cut = bytes.get(..bytes_max).unwrap_or(bytes);
    match String::from_utf8_lossy(cut) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

/// The last Call-IDs.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: HashSet<Arc<[u8]>>,
    by_age: VecDeque<Arc<[u8]>>,
    /// Forgotten ones that the filter still has.
    forgotten: usize,
}

/// Filter before [`Calls`], without a lock: most messages are other users'.
///
/// Peers can choose a Call-ID that passes it; the set decides then.
#[derive(Debug)]
pub(super) struct CallFilter {
    is_used: AtomicBool,
    bits: [AtomicU64; WORDS],
}

impl Calls {
    pub(super) fn has(&self, call_id: &[u8]) -> bool {
        !self.known.is_empty() && self.known.contains(call_id)
    }

    /// Learns a Call-ID; the oldest is forgotten for it. One that is too long is not learned.
    pub(super) fn learn(&mut self, call_id: &[u8], filter: &CallFilter) {
        if call_id.len() > CALL_ID_BYTES_MAX || self.has(call_id) {
            return;
        }
        if self.by_age.len() >= CALLS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
            self.forgotten += 1;
        }
        let call_id: Arc<[u8]> = call_id.into();
        self.by_age.push_back(Arc::clone(&call_id));
        self.known.insert(Arc::clone(&call_id));
        filter.add(&call_id);
        if self.forgotten >= FORGOTTEN_MAX {
            self.forgotten = 0;
            filter.fill(self.by_age.iter().map(|call_id| &**call_id));
        }
    }
}

impl CallFilter {
    pub(super) const fn new() -> Self {
        Self { is_used: AtomicBool::new(false), bits: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// True if it has any Call-ID.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// False if the Call-ID with this [`fingerprint`] was not learned.
    pub(super) fn may_have(&self, fingerprint: u64) -> bool {
        let (word, bit) = position(fingerprint);
        self.bits.get(word).is_some_and(|bits| bits.load(Ordering::Relaxed) & bit != 0)
    }

    fn add(&self, call_id: &[u8]) {
        let (word, bit) = position(fingerprint(call_id));
        if let Some(bits) = self.bits.get(word) {
            bits.fetch_or(bit, Ordering::Relaxed);
        }
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Forgets all but these.
    fn fill<'c>(&self, call_ids: impl Iterator<Item = &'c [u8]>) {
        let mut words = [0; WORDS];
        for call_id in call_ids {
            let (word, bit) = position(fingerprint(call_id));
            if let Some(bits) = words.get_mut(word) {
                *bits |= bit;
            }
        }
        self.bits.iter().zip(words).for_each(|(bits, word)| bits.store(word, Ordering::Relaxed));
    }
}

const fn position(fingerprint: u64) -> (usize, u64) {
    ((fingerprint >> 58) as usize % WORDS, 1 << (fingerprint >> 52 & 63))
}

/// Fast hash of a Call-ID.
pub(super) fn fingerprint(call_id: &[u8]) -> u64 {
    let (words, rest) = call_id.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let mut hash = call_id.len() as u64;
    for word in words.iter().chain([&last]) {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(MULTIPLIER);
    }
    hash
}

/// Maximum number of header lines that are read.
const LINES_MAX: usize = 256;
const WORDS: usize = 64;
/// An odd number whose bits are mixed.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Maximum number of Call-IDs of a trace.
const CALLS_MAX: usize = 1024;
/// Forgotten Call-IDs after which the filter is filled again.
const FORGOTTEN_MAX: usize = CALLS_MAX / 4;
/// Maximum length of a Call-ID that is learned.
const CALL_ID_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sip::Limits;

    #[test]
    fn a_message_is_the_users_by_each_of_its_names_and_by_no_other_mention() {
        let bob = TracedUser::parse("bob").unwrap();
        for (message, expected) in [
            ("INVITE sip:bob@h SIP/2.0\r\n\r\n", true),
            ("INVITE sip:a@h SIP/2.0\r\nf: \"x\" <sip:bob@h>;tag=1\r\n\r\n", true),
            ("SIP/2.0 200 OK\r\nTo: sip:bob@h\r\n\r\n", true),
            ("INVITE sip:a@h SIP/2.0\r\nP-Asserted-Identity: <sip:bob@h>\r\n\r\n", true),
            (
                "REGISTER sip:h SIP/2.0\r\nAuthorization: Digest username=\"bob\", realm=\"h\", nonce=\"n\", \
                 uri=\"sip:h\", response=\"0\"\r\n\r\n",
                true,
            ),
            ("INVITE sip:bobby@h SIP/2.0\r\nSubject: bob\r\nUser-Agent: sip:bob@h\r\n\r\n", false),
            ("MESSAGE sip:a@bob SIP/2.0\r\nFrom: <sip:b@h>\r\n\r\nTo: <sip:bob@h>", false),
            ("bob", false),
        ] {
            assert_eq!(bob.has(message.as_bytes()), expected, "{message}");
        }
        let usual = "Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\nCall-ID: x\r\nContent-Length: 0\r\n\r\n";
        for (head, expected) in [
            ("INVITE sip:bob@h SIP/2.0\r\nf: <sip:a@h>;tag=1\r\nt: <sip:c@h>\r\nCSeq: 1 INVITE\r\n", true),
            (
                "INVITE sip:a@h SIP/2.0\r\nf: \"x\" <sip:bob@h>;tag=1\r\nt: <sip:c@h>\r\nCSeq: 1 INVITE\r\n",
                true,
            ),
            ("INVITE sip:a@h SIP/2.0\r\nf: <sip:a@h>;tag=1\r\nt: sip:bob@h\r\nCSeq: 1 INVITE\r\n", true),
            (
                "INVITE sip:a@h SIP/2.0\r\nf: <sip:a@h>;tag=1\r\nt: <sip:a@h>\r\nCSeq: 1 INVITE\r\n\
                 P-Asserted-Identity: <sip:bob@h>\r\n",
                true,
            ),
            (
                "REGISTER sip:h SIP/2.0\r\nf: <sip:a@h>;tag=1\r\nt: <sip:a@h>\r\nCSeq: 1 REGISTER\r\n\
                 Authorization: Digest username=\"bob\", realm=\"h\", nonce=\"n\", uri=\"sip:h\", response=\"0\"\r\n",
                true,
            ),
            (
                "REGISTER sip:h SIP/2.0\r\nf: <sip:bobby@h>;tag=1\r\nt: <sip:a@bob>\r\nCSeq: 1 REGISTER\r\n\
                 Subject: bob\r\n",
                false,
            ),
        ] {
            let text = format!("{head}{usual}");
            let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
            assert_eq!((bob.may_be_in(&message), bob.has(text.as_bytes())), (expected, expected), "{text}");
        }
        let of_domain = TracedUser::parse("bob@h").unwrap();
        assert!(
            of_domain.has(b"INVITE sip:bob@H SIP/2.0\r\n\r\n")
                && !of_domain.has(b"INVITE sip:bob@i SIP/2.0\r\n\r\n")
        );
        for bad in ["", "@h", "bob@", "b b", "b\r\n", &"x".repeat(200)] {
            assert!(TracedUser::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_call_id_is_found_in_each_form_and_never_in_the_body() {
        let finder = CallIdFinder::new();
        for (message, call_id) in [
            (&b"BYE x SIP/2.0\r\nCall-ID: a@b\r\n\r\n"[..], Some(&b"a@b"[..])),
            (b"BYE x SIP/2.0\r\ni:c\r\n\r\n", Some(b"c")),
            (b"BYE x SIP/2.0\ncall-id : d \n\n", Some(b"d")),
            (b"BYE x SIP/2.0\r\nSubject: i\r\n\r\ni: body", None),
            (b"BYE x SIP/2.0\r\ni: x\r\n\r\na\r\nCall-ID: body\r\n", Some(b"x")),
            (b"\x00\xff", None),
            (b"", None),
        ] {
            assert_eq!(finder.find(message), call_id);
        }
    }

    #[test]
    fn the_filter_has_each_call_that_the_set_has_and_few_others() {
        let (mut calls, filter) = (Calls::default(), CallFilter::new());
        let call_id = |number: usize| format!("call-{number:08}-0123456789abcdef").into_bytes();
        assert!(!filter.is_used() && !filter.may_have(fingerprint(b"")));
        for number in 0..5000 {
            calls.learn(&call_id(number), &filter);
            assert!(filter.may_have(fingerprint(&call_id(number))));
        }
        assert!(
            (5000 - CALLS_MAX..5000)
                .all(|n| calls.has(&call_id(n)) && filter.may_have(fingerprint(&call_id(n))))
        );
        assert!(!calls.has(&call_id(5000 - CALLS_MAX - 1)));
        let passed = (10_000..20_000).filter(|n| filter.may_have(fingerprint(&call_id(*n)))).count();
        assert!(passed < 4000, "{passed}");
        calls.learn(&[b'x'; CALL_ID_BYTES_MAX + 1], &filter);
        assert_eq!(calls.known.len(), CALLS_MAX);
    }
}

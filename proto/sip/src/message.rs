//! Parsed messages.

use crate::grammar::{TOKEN, class_len, number, trim};
use crate::header::{CSeq, NameAddr, Via};
use crate::scan::is_visible;
use crate::{Fields, HeaderName, Limits, Malformed, Method, Reason, Uri};
use core::ops::Deref;

/// A request or response whose mandatory parts are there and well-formed; a view of the bytes it was read from. Other
/// fields are parsed on demand, through [`Fields`].
///
/// ```
/// use ringway_sip::{Limits, Message, Method};
///
/// let bytes = b"OPTIONS sip:bob@example.org SIP/2.0\r\n\
///     Via: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bK776asdhds\r\n\
///     From: <sip:alice@example.org>;tag=1928301774\r\n\
///     To: <sip:bob@example.org>\r\n\
///     Call-ID: a84b4c76e66710\r\n\
///     CSeq: 1 OPTIONS\r\n\
///     Max-Forwards: 70\r\n\r\n";
/// let message = Message::parse(bytes, &Limits::default()).expect("a valid request");
/// assert_eq!(message.method(), Method::Options);
/// assert_eq!(message.call_id(), b"a84b4c76e66710");
/// assert_eq!(message.max_forwards(), Some(70));
/// ```
#[derive(Clone, Debug)]
pub struct Message<'a> {
    fields: Fields<'a>,
    mandatory: Mandatory<'a>,
}

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// A request line.
    Request {
        /// The method.
        method: Method<'a>,
        /// The Request-URI.
        uri: Uri<'a>,
    },
    /// A status line.
    Response {
        /// 100 to 699.
        status: u16,
        /// The reason phrase up to the first control; it may be empty.
        reason: &'a [u8],
    },
}

/// A message that must not be processed, with the parts that could be read: enough for a response if it has a Via.
#[derive(Debug)]
pub struct Rejected<'a> {
    /// The first fault.
    pub reason: Reason,
    /// The parts that could be read.
    pub fields: Fields<'a>,
}

impl<'a> Message<'a> {
    /// Parses one message: a datagram, or a message from a [`StreamFramer`](crate::StreamFramer).
    ///
    /// Checked here: the first line; that every header line is one; Via, From, To, Call-ID and CSeq are there, once where
    /// they must be, and well-formed; CSeq's method is the request's; Max-Forwards is at most 255; Content-Length fits.
    /// Nothing is allocated and the work is linear in the bytes.
    #[allow(clippy::result_large_err, reason = "a box would allocate, and the good case is as large")]
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self, Rejected<'a>> {
        let mut fields = Fields::unread(bytes);
        let checked = match fields.fill(limits) {
            Some(reason) => Err(reason),
            None => Mandatory::read(&fields, limits),
        };
        match checked {
            Ok(mandatory) => Ok(Self { fields, mandatory }),
            Err(reason) => {
                // The version is checked first: the rest may follow the grammar of another SIP version.
                let reason = version_of(fields.start_line()).map_or(Reason::Version, |()| reason);
                Err(Rejected { reason, fields })
            }
        }
    }

    /// The first line.
    pub const fn start(&self) -> &Start<'a> {
        &self.mandatory.start
    }

    /// The request's method, or for a response that of its CSeq.
    pub const fn method(&self) -> Method<'a> {
        match self.mandatory.start {
            Start::Request { method, .. } => method,
            Start::Response { .. } => self.mandatory.cseq.method,
        }
    }

    /// The topmost Via.
    pub const fn via(&self) -> &Via<'a> {
        &self.mandatory.via
    }

    /// The rest of the line after the topmost Via: empty, or a comma and further values.
    pub(crate) const fn after_via(&self) -> &'a [u8] {
        self.mandatory.after_via
    }

    /// True when the topmost Via is the only one: the request came from its client and through no other proxy.
    pub const fn has_one_via(&self) -> bool {
        self.mandatory.after_via.is_empty() && !self.fields.is_repeated(HeaderName::Via)
    }

    /// From.
    pub const fn from(&self) -> &NameAddr<'a> {
        &self.mandatory.from
    }

    /// To.
    pub const fn to(&self) -> &NameAddr<'a> {
        &self.mandatory.to
    }

    /// Call-ID, compared byte by byte (RFC 3261 §20.8).
    pub const fn call_id(&self) -> &'a [u8] {
        self.mandatory.call_id
    }

    /// The same message with another [`call_id`](Self::call_id) than its bytes have: that of a peer's own for the dialog.
    pub fn with_call_id<'b>(&self, call_id: &'b [u8]) -> Message<'b>
    where
        'a: 'b,
    {
        let mut message: Message<'b> = self.clone();
        message.mandatory.call_id = call_id;
        message
    }

    /// CSeq.
    pub const fn cseq(&self) -> CSeq<'a> {
        self.mandatory.cseq
    }

    /// Max-Forwards, when there is one.
    pub const fn max_forwards(&self) -> Option<u8> {
        self.mandatory.max_forwards
    }
}

impl<'a> Deref for Message<'a> {
    type Target = Fields<'a>;

    fn deref(&self) -> &Fields<'a> {
        &self.fields
    }
}

/// The parts that every message must have, and Max-Forwards.
#[derive(Clone, Debug)]
struct Mandatory<'a> {
    start: Start<'a>,
    via: Via<'a>,
    /// The rest of the line after the topmost Via: empty, or a comma and further values.
    after_via: &'a [u8],
    from: NameAddr<'a>,
    to: NameAddr<'a>,
    call_id: &'a [u8],
    cseq: CSeq<'a>,
    max_forwards: Option<u8>,
}

impl<'a> Mandatory<'a> {
    fn read(fields: &Fields<'a>, limits: &Limits) -> Result<Self, Reason> {
        let start = read_start(fields, limits)?;
        let via_line = mandatory(fields, HeaderName::Via)?;
        // Without `map_err`, which would copy each of them.
        let Ok((via, after_via)) = Via::split(via_line) else { return Err(Reason::Header(HeaderName::Via)) };
        let Ok(from) = NameAddr::parse(mandatory(fields, HeaderName::From)?) else {
            return Err(Reason::Header(HeaderName::From));
        };
        let Ok(to) = NameAddr::parse(mandatory(fields, HeaderName::To)?) else {
            return Err(Reason::Header(HeaderName::To));
        };
        let call_id = mandatory(fields, HeaderName::CallId)?;
        if call_id.is_empty() || !is_visible(call_id) {
            return Err(Reason::Header(HeaderName::CallId));
        }
        let cseq = well_formed(HeaderName::CSeq, CSeq::parse(mandatory(fields, HeaderName::CSeq)?))?;
        if let Start::Request { method, .. } = start
            && method != cseq.method
        {
            return Err(Reason::CSeqMethod);
        }
        let max_forwards = match fields.first(HeaderName::MaxForwards) {
            Some(value) => {
                let hops = number(value).and_then(|hops| u8::try_from(hops).ok()).ok_or(Malformed);
                Some(well_formed(HeaderName::MaxForwards, hops)?)
            }
            None => None,
        };
        Ok(Self { start, via, after_via, from, to, call_id, cseq, max_forwards })
    }
}

fn mandatory<'a>(fields: &Fields<'a>, name: HeaderName) -> Result<&'a [u8], Reason> {
    fields.first(name).ok_or(Reason::Missing(name))
}

fn well_formed<T>(name: HeaderName, parsed: Result<T, Malformed>) -> Result<T, Reason> {
    parsed.map_err(|Malformed| Reason::Header(name))
}

fn read_start<'a>(fields: &Fields<'a>, limits: &Limits) -> Result<Start<'a>, Reason> {
    let line = fields.start_line();
    if fields.is_response() { read_status_line(line) } else { read_request_line(line, limits) }
}

/// RFC 3261 §7.2: SIP-Version SP Status-Code SP Reason-Phrase; the last SP is not missed when the phrase is empty.
fn read_status_line(line: &[u8]) -> Result<Start<'_>, Reason> {
    version_of(line)?;
    let rest = line.get(VERSION.len()..).and_then(|rest| rest.strip_prefix(b" ")).ok_or(Reason::StartLine)?;
    let (code, rest) = rest.split_at_checked(3).ok_or(Reason::StartLine)?;
    let status = number(code).and_then(|code| u16::try_from(code).ok()).ok_or(Reason::StartLine)?;
    let reason = match rest {
        [] => rest,
        [b' ', reason @ ..] => reason,
        _ => return Err(Reason::StartLine),
    };
    // Others end a line, or a text, at these.
    if !(100..700).contains(&status) || memchr::memchr3(b'\0', b'\r', b'\n', reason).is_some() {
        return Err(Reason::StartLine);
    }
    // Any other control ends the phrase, which is for people only: the client waits for this response.
    let is_control = |&byte: &u8| (byte < b' ' && byte != b'\t') || byte == 127;
    let end = reason.iter().position(is_control).unwrap_or(reason.len());
    Ok(Start::Response { status, reason: reason.get(..end).unwrap_or_default() })
}

/// RFC 3261 §7.1: Method SP Request-URI SP SIP-Version, with single spaces and nothing behind.
fn read_request_line<'a>(line: &'a [u8], limits: &Limits) -> Result<Start<'a>, Reason> {
    let (method, rest) = line.split_at_checked(class_len(line, TOKEN)).ok_or(Reason::StartLine)?;
    let [b' ', uri_on @ ..] = rest else { return Err(Reason::StartLine) };
    let version_at = uri_on.len().checked_sub(VERSION.len()).ok_or(Reason::StartLine)?;
    let (uri, version) = uri_on.split_at_checked(version_at).ok_or(Reason::StartLine)?;
    let uri = uri.strip_suffix(b" ").ok_or(Reason::StartLine)?;
    if method.is_empty() || !is_version(version) {
        return Err(Reason::StartLine);
    }
    let method = Method::from_bytes(method);
    if uri.len() > limits.request_uri_bytes_max {
        return Err(Reason::RequestUriTooLong);
    }
    match Uri::parse(uri) {
        Ok(uri) => Ok(Start::Request { method, uri }),
        Err(Malformed) => Err(Reason::RequestUri),
    }
}

/// An error only for what is clearly a SIP message of another version.
fn version_of(line: &[u8]) -> Result<(), Reason> {
    let is_sip = |word: &[u8]| word.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/"));
    let word = match is_sip(line) {
        true => line.split(|&byte| byte == b' ').next().unwrap_or_default(),
        false => trim(line).rsplit(|&byte| byte == b' ').next().unwrap_or_default(),
    };
    if is_sip(word) && !is_version(word) {
        return Err(Reason::Version);
    }
    Ok(())
}

/// The case of the letters does not count (RFC 3261 §7.1), but nearly all write them large.
fn is_version(word: &[u8]) -> bool {
    word == VERSION || word.eq_ignore_ascii_case(VERSION)
}

const VERSION: &[u8] = b"SIP/2.0";

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;

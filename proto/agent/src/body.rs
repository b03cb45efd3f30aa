//! Bodies of messages: the one that a message is for, and those that are not understood (RFC 3261 §8.2.3, §20.11, RFC
//! 5621).

use crate::Limits;
use crate::draft::text;
use crate::session::{NotAcceptable, Unsupported};
use alloc::format;
use alloc::string::String;
use ringway_sip::{BodyParts, HeaderName, Message, Method, Params, grammar};

/// Kind of body that a message is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Session description: `application/sdp` with the disposition `session`.
    Description,
    /// Part of a SIP message (RFC 3420).
    Fragment,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried<'m> {
    /// No body, or only those that may be passed over.
    Nothing,
    Body(&'m [u8]),
}

/// Finds the session description of a message.
pub(crate) fn carried<'m>(message: &Message<'m>, limits: &Limits) -> Result<Carried<'m>, NotAcceptable> {
    find(message, Wanted::Description, limits)
}

/// Finds the body of the wanted kind. A body or part that is not understood is passed over with `handling=optional`, in
/// responses and ACKs, which cannot be refused, and beside the wanted one where its sender says nothing about its handling.
pub(crate) fn find<'m>(
    message: &Message<'m>,
    wanted: Wanted,
    limits: &Limits,
) -> Result<Carried<'m>, NotAcceptable> {
    let body = message.body();
    if body.is_empty() {
        return Ok(Carried::Nothing);
    }
    if body.len() > limits.body_bytes_max {
        return Err(NotAcceptable::too_large("Message Too Large"));
    }
    let part = Part {
        content_type: message.first(HeaderName::ContentType).unwrap_or_default(),
        disposition: message.named(b"Content-Disposition"),
        encoding: message.first(HeaderName::ContentEncoding),
        transfer_encoding: message.named(b"Content-Transfer-Encoding"),
        body,
        level: 0,
    };
    let mut search = Search { wanted, parts_left: limits.body_parts_max, levels_max: limits.body_levels_max };
    let Found { body, refusal } = search.read(&part)?;
    let can_be_refused = !message.is_response() && message.method() != Method::Ack;
    match (body, refusal) {
        (Some(_), Some(Refusal { why, is_required: true })) if can_be_refused => Err(why),
        (Some(body), _) => Ok(Carried::Body(body)),
        (None, Some(Refusal { why, .. })) => Err(why),
        (None, None) => Ok(Carried::Nothing),
    }
}

/// Body, or part of one.
struct Part<'m> {
    content_type: &'m [u8],
    disposition: Option<&'m [u8]>,
    encoding: Option<&'m [u8]>,
    transfer_encoding: Option<&'m [u8]>,
    body: &'m [u8],
    /// Number of multipart bodies around it.
    level: u8,
}

/// Handling of a part that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handling {
    Required,
    Optional,
    /// A part without Content-Disposition. RFC 3261 §20.11 recommends `required`; phones add locations, texts and
    /// pictures in this way to a description that is sufficient without them.
    Unstated,
}

/// Outcome of a part.
#[derive(Default)]
struct Found<'m> {
    body: Option<&'m [u8]>,
    /// Refusal of the first part that is not understood; one that is required has precedence.
    refusal: Option<Refusal>,
}

struct Refusal {
    why: NotAcceptable,
    is_required: bool,
}

/// Search for one kind of body, with the limits that are left.
struct Search {
    wanted: Wanted,
    parts_left: usize,
    levels_max: u8,
}

impl Search {
    fn read<'m>(&mut self, part: &Part<'m>) -> Result<Found<'m>, NotAcceptable> {
        let (disposition, handling) = part.disposition();
        let found = self.understand(part, disposition)?;
        Ok(match found {
            Ok(found) if handling == Handling::Optional => Found { refusal: None, ..found },
            Ok(found) => found,
            Err(_) if handling == Handling::Optional => Found::default(),
            Err(why) => {
                let is_required = handling == Handling::Required;
                Found { body: None, refusal: Some(Refusal { why, is_required }) }
            }
        })
    }

    /// The inner error is for a part that is not understood, the outer one for a message that cannot be read.
    fn understand<'m>(
        &mut self,
        part: &Part<'m>,
        disposition: Option<&[u8]>,
    ) -> Result<Result<Found<'m>, NotAcceptable>, NotAcceptable> {
        if let Some(encoding) = part.unsupported_encoding() {
            let reason = format!("Unsupported Content-Encoding {encoding}");
            return Ok(Err(NotAcceptable::unsupported(Unsupported::Encoding, &reason)));
        }
        let is_multipart = part.is_multipart();
        if !is_multipart && !is_before_params(part.content_type, self.wanted.media_type()) {
            let reason = format!("Unsupported Content-Type {}", named(part.content_type));
            return Ok(Err(NotAcceptable::unsupported(Unsupported::Type, &reason)));
        }
        let is_usual = |value: &[u8]| self.wanted.has_disposition(value) || is_multipart && is_render(value);
        if let Some(value) = disposition.filter(|value| !is_usual(value)) {
            let reason = format!("Unsupported Content-Disposition {}", named(value));
            return Ok(Err(NotAcceptable::unsupported(Unsupported::Type, &reason)));
        }
        match is_multipart {
            true => self.read_parts(part).map(Ok),
            false => Ok(Ok(Found { body: Some(part.body), refusal: None })),
        }
    }

    fn read_parts<'m>(&mut self, whole: &Part<'m>) -> Result<Found<'m>, NotAcceptable> {
        if whole.level >= self.levels_max {
            return Err(NotAcceptable::too_large("Too Many Levels Of Multipart Bodies"));
        }
        let boundary =
            whole.boundary().ok_or_else(|| NotAcceptable::malformed("multipart body without a boundary"))?;
        let is_alternative = is_before_params(whole.content_type, b"multipart/alternative");
        let (mut chosen, mut has_parts) = (Found::default(), false);
        for part in BodyParts::new(whole.body, boundary) {
            let left = self.parts_left.checked_sub(1);
            self.parts_left = left.ok_or_else(|| NotAcceptable::too_large("Too Many Parts Of A Body"))?;
            let found = self.read(&Part {
                content_type: part.field(b"Content-Type").unwrap_or(b"text/plain"),
                disposition: part.field(b"Content-Disposition"),
                encoding: part.field(b"Content-Encoding"),
                transfer_encoding: part.field(b"Content-Transfer-Encoding"),
                body: part.body(),
                level: whole.level + 1,
            })?;
            chosen = match is_alternative {
                true => chosen.or_better(found, has_parts),
                false => chosen.and(found),
            };
            has_parts = true;
        }
        if has_parts { Ok(chosen) } else { Err(NotAcceptable::malformed("multipart body without parts")) }
    }
}

impl<'m> Found<'m> {
    /// Outcome of two parts of one body.
    fn and(self, next: Self) -> Self {
        let is_weaker = |refusal: &Refusal| !refusal.is_required;
        let refusal = match (self.refusal, next.refusal) {
            (Some(first), Some(second)) if is_weaker(&first) && !is_weaker(&second) => Some(second),
            (first, second) => first.or(second),
        };
        Self { body: self.body.or(next.body), refusal }
    }

    /// Outcome of alternatives: the last one that is understood counts (RFC 2046 §5.1.4). `has_parts`: there was one before.
    fn or_better(self, next: Self, has_parts: bool) -> Self {
        let is_better = match (&self, &next) {
            (_, Self { body: Some(_), .. })
            | (Self { body: None, refusal: Some(_) }, Self { refusal: None, .. }) => true,
            _ => !has_parts,
        };
        if is_better { next } else { self }
    }
}

impl<'m> Part<'m> {
    /// Disposition type, if there is one, and handling. A malformed field is ignored (RFC 3261 §8.2.2).
    fn disposition(&self) -> (Option<&'m [u8]>, Handling) {
        let parsed = self.disposition.and_then(|value| Params::after(value).ok());
        match parsed.filter(|(kind, _)| grammar::is_token_str(kind)) {
            Some((kind, params)) => {
                let handling = params.value(b"handling").unwrap_or_default();
                let is_optional = handling.eq_ignore_ascii_case(b"optional");
                (Some(kind), if is_optional { Handling::Optional } else { Handling::Required })
            }
            None if self.level > 0 => (None, Handling::Unstated),
            None => (None, Handling::Required),
        }
    }

    /// Encoding that the body would have to be freed from, for people.
    fn unsupported_encoding(&self) -> Option<String> {
        let codings = self.encoding.unwrap_or_default().split(|&byte| byte == b',').map(grammar::trim);
        let is_plain = |coding: &&[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
        let coded = codings.into_iter().find(|coding| !is_plain(coding));
        // RFC 2045 §6.1: base64 and quoted-printable are for 7-bit transports.
        let is_binary = |value: &&[u8]| {
            [&b"binary"[..], b"8bit", b"7bit"].iter().any(|plain| is_before_params(value, plain))
        };
        let transfer = self.transfer_encoding.filter(|value| !is_binary(value));
        coded.or(transfer).map(named)
    }

    fn is_multipart(&self) -> bool {
        const MULTIPART: &[u8] = b"multipart/";
        let start = self.content_type.get(..MULTIPART.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(MULTIPART))
    }

    fn boundary(&self) -> Option<&'m [u8]> {
        let (_, params) = Params::after(self.content_type).ok()?;
        params.value(b"boundary").filter(|it| (1..=BodyParts::BOUNDARY_BYTES_MAX).contains(&it.len()))
    }
}

impl Wanted {
    const fn media_type(self) -> &'static [u8] {
        match self {
            Self::Description => b"application/sdp",
            Self::Fragment => b"message/sipfrag",
        }
    }

    fn has_disposition(self, value: &[u8]) -> bool {
        match self {
            Self::Description => value.eq_ignore_ascii_case(b"session"),
            Self::Fragment => true,
        }
    }
}

/// True if a value is `wanted`, with or without parameters; malformed ones are ignored.
pub(crate) fn is_before_params(value: &[u8], wanted: &[u8]) -> bool {
    before_params(value).eq_ignore_ascii_case(wanted)
}

fn before_params(value: &[u8]) -> &[u8] {
    grammar::trim(value.split(|&byte| byte == b';').next().unwrap_or_default())
}

fn is_render(disposition: &[u8]) -> bool {
    disposition.eq_ignore_ascii_case(b"render")
}

/// A value of the peer without its parameters, for people.
fn named(value: &[u8]) -> String {
    let value = before_params(value);
    text(value.get(..NAME_BYTES_MAX).unwrap_or(value))
}

/// Maximum length of a value that is repeated in a reason.
const NAME_BYTES_MAX: usize = 40;

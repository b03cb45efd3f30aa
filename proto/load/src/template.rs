//! Messages with SIPp's keywords in brackets.
//!
//! A text is split once, so that a message costs one copy for each literal and each keyword. A line that consists of
//! keywords only and becomes empty is left out, as SIPp does with `[routes]` and `[last_Record-Route:]`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sip::write_number;

/// Keyword of a message text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// `[user]`, `[field0]`: name of the user whose attempt it is.
    User,
    /// `[peer]`, `[service]`: name of the called user.
    Peer,
    /// `[domain]`: domain of the users.
    Domain,
    /// `[remote_ip]`.
    RemoteIp,
    /// `[remote_port]`.
    RemotePort,
    /// `[transport]`: `UDP` or `TCP`.
    Transport,
    /// `[local_ip]`.
    LocalIp,
    /// `[local_port]`.
    LocalPort,
    /// `[local_ip_type]`, `[media_ip_type]`: `4` or `6`.
    IpType,
    /// `[media_ip]`.
    MediaIp,
    /// `[media_port]`, `[auto_media_port]`.
    MediaPort,
    /// `[media_ssrc]`: SSRC of the attempt's stream.
    MediaSsrc,
    /// `[cryptotag1audio]`: tag of the `a=crypto` line.
    CryptoTag,
    /// `[cryptokeyparams1audio]`: SRTP key and salt of the attempt's stream, in base64.
    CryptoKey,
    /// `[branch]`: branch of the transaction; mandatory in the Via of a request.
    Branch,
    /// `[call_id]`: Call-ID of the attempt.
    CallId,
    /// `[call_number]`: number of the attempt, from 1 on.
    CallNumber,
    /// `[user_call_id]`: Call-ID that is the same for all attempts of a user, for REGISTER (RFC 3261 §10.2).
    UserCallId,
    /// `[cseq]`: number of requests of the attempt so far.
    CSeq,
    /// `[user_cseq]`: number of requests of the user so far.
    UserCSeq,
    /// `[pid]`: number of the run.
    Run,
    /// `[len]`: length of the body.
    Length,
    /// `[peer_tag_param]`: `;tag=…` of the peer once it is received.
    PeerTag,
    /// `[routes]`: Route lines of the dialog.
    Routes,
    /// `[next_url]`: URI in the Contact of the last response that is not provisional.
    NextUrl,
    /// `[authentication]`: Authorization or Proxy-Authorization line.
    Authentication,
    /// `[last_NAME:]`: all lines of this name in the last message.
    Last(Box<str>),
    /// `[field LIST NUMBER]`: field of the attempt's line in a list of [`Users`](crate::Users).
    Field(u8, u16),
    /// `[$NUMBER]`: value of a variable.
    Variable(u16),
    /// `[cseq+1]`: sum of the value of a keyword and a number, which can be negative.
    Sum(Box<Keyword>, i32),
}

impl Keyword {
    pub(crate) const fn is_of_dialog(&self) -> bool {
        matches!(self, Self::PeerTag | Self::Routes | Self::NextUrl)
    }
}

/// Reason why a text is refused, with its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// A keyword that does not exist.
    UnknownKeyword(usize, Box<str>),
    /// A bracket without its end.
    Unclosed(usize),
    /// A request without `[branch]`: no response could be matched. An ACK may have `[last_Via:]` instead.
    NoBranch,
    /// The first line is neither a request line nor a status line.
    FirstLine,
    /// The text has more than [`Template::BYTES_MAX`] bytes.
    TooLong,
}

impl core::fmt::Display for TemplateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownKeyword(line, name) => {
                write!(f, "line {line}: unknown keyword `[{name}]`; remove it or write the value itself")
            }
            Self::Unclosed(line) => write!(f, "line {line}: `[` without `]`"),
            Self::NoBranch => f.write_str("the request has no `[branch]`; add `;branch=[branch]` to its Via"),
            Self::FirstLine => {
                f.write_str("the first line is neither `METHOD URI SIP/2.0` nor `SIP/2.0 STATUS REASON`")
            }
            Self::TooLong => write!(f, "the message has more than {} bytes", Template::BYTES_MAX),
        }
    }
}

impl core::error::Error for TemplateError {}

/// Kind of a message, from its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request(Box<[u8]>),
    Response(u16),
}

/// Message text, split into literal bytes and keywords.
///
/// ```
/// use ringway_load::{Keyword, Template};
///
/// let options = Template::parse(
///     "OPTIONS sip:[domain] SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
///      [routes]\nCall-ID: [call_id]\n\n",
/// )?;
/// assert!(options.has(|keyword| *keyword == Keyword::Routes));
/// # Ok::<(), ringway_load::TemplateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<Piece>,
    body: Vec<Piece>,
    text: Box<str>,
    pub(crate) kind: Kind,
    pub(crate) uses: Uses,
}

/// Keywords of a template that decide how it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) authentication: bool,
    pub(crate) next_url: bool,
    pub(crate) user_cseq: bool,
    /// Any keyword of the dialog.
    pub(crate) dialog: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Box<[u8]>),
    Keyword(Keyword),
}

impl Template {
    /// Maximum length of a text in bytes.
    pub const BYTES_MAX: usize = 16 << 10;

    /// Splits a text. Lines end with LF or CR LF; leading white space of a line is removed; a Content-Length is added if there is none.
    ///
    /// # Errors
    /// A text that no message can be made of.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > Self::BYTES_MAX {
            return Err(TemplateError::TooLong);
        }
        let (head, body, body_line) = sections(text);
        let kind = kind_of(&head).ok_or(TemplateError::FirstLine)?;
        let text = [&head, "\r\n", &body].concat().into();
        let (head, body) = (pieces(&head, 1)?, pieces(&body, body_line)?);
        let mut template = Self { head, body, text, kind, uses: Uses::default() };
        template.uses = Uses {
            authentication: template.has(|keyword| *keyword == Keyword::Authentication),
            next_url: template.has(|keyword| *keyword == Keyword::NextUrl),
            user_cseq: template.has(|keyword| *keyword == Keyword::UserCSeq),
            dialog: template.has(Keyword::is_of_dialog),
        };
        let has_branch = match &template.kind {
            Kind::Request(method) => template.has(|keyword| match keyword {
                Keyword::Branch => true,
                // The ACK of a failed INVITE has the branch of the INVITE (RFC 3261 §17.1.1.3).
                Keyword::Last(name) => **method == *b"ACK" && name.eq_ignore_ascii_case("Via"),
                _ => false,
            }),
            Kind::Response(_) => true,
        };
        if has_branch { Ok(template) } else { Err(TemplateError::NoBranch) }
    }

    /// The text with its keywords, with CR LF and without indentation.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Method of a request; `None` for a response.
    pub fn method(&self) -> Option<&str> {
        match &self.kind {
            Kind::Request(method) => core::str::from_utf8(method).ok(),
            Kind::Response(_) => None,
        }
    }

    /// Status of a response; `None` for a request.
    pub const fn status(&self) -> Option<u16> {
        match self.kind {
            Kind::Request(_) => None,
            Kind::Response(status) => Some(status),
        }
    }

    /// True if a keyword of the text fulfils `test`.
    pub fn has(&self, test: impl Fn(&Keyword) -> bool) -> bool {
        has(self.head.iter().chain(&self.body), test)
    }

    /// Names of the `[last_NAME:]` keywords.
    pub(crate) fn last_names(&self) -> impl Iterator<Item = &str> {
        last_names(self.head.iter().chain(&self.body))
    }

    /// The template with the values of the keywords that `constant` has a value for.
    pub(crate) fn with_constants(&self, constant: &dyn Fn(&Keyword) -> Option<Vec<u8>>) -> Self {
        let (head, body) = (with_constants(&self.head, constant), with_constants(&self.body, constant));
        Self { head, body, text: self.text.clone(), kind: self.kind.clone(), uses: self.uses }
    }

    /// Appends the message; `fill` appends the value of a keyword. It also gets the position of the first line.
    pub(crate) fn write(&self, fill: &mut dyn FnMut(&Keyword, usize, &mut Vec<u8>), out: &mut Vec<u8>) {
        let start = out.len();
        // The length of the body comes before it: the body is written first, and moved behind the head.
        write_pieces(&self.body, 0, fill, out);
        let head_start = out.len();
        let body_bytes = head_start - start;
        write_pieces(&self.head, body_bytes, fill, out);
        out.extend_from_slice(b"\r\n");
        if body_bytes > 0
            && let Some(message) = out.get_mut(start..)
        {
            message.rotate_left(head_start - start);
        }
    }
}

/// Text with keywords that is no message: a value or a line of a log.
#[derive(Clone, Debug)]
pub struct Text(Vec<Piece>);

impl Text {
    /// Splits a text.
    ///
    /// # Errors
    /// A keyword that does not exist, and a text that is too long.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > Template::BYTES_MAX {
            return Err(TemplateError::TooLong);
        }
        pieces(text, 1).map(Self)
    }

    /// True if a keyword of the text fulfils `test`.
    pub fn has(&self, test: impl Fn(&Keyword) -> bool) -> bool {
        has(self.0.iter(), test)
    }

    /// Names of the `[last_NAME:]` keywords.
    pub(crate) fn last_names(&self) -> impl Iterator<Item = &str> {
        last_names(self.0.iter())
    }

    pub(crate) fn with_constants(&self, constant: &dyn Fn(&Keyword) -> Option<Vec<u8>>) -> Self {
        Self(with_constants(&self.0, constant))
    }

    /// The text; `fill` appends the value of a keyword.
    pub(crate) fn written(&self, fill: &mut dyn FnMut(&Keyword, &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Keyword(keyword) => fill(keyword, &mut out),
            }
        }
        out
    }
}

fn has<'p>(mut pieces: impl Iterator<Item = &'p Piece>, test: impl Fn(&Keyword) -> bool) -> bool {
    pieces.any(|piece| match piece {
        Piece::Keyword(Keyword::Sum(keyword, _)) => test(keyword),
        Piece::Keyword(keyword) => test(keyword),
        Piece::Text(_) => false,
    })
}

fn last_names<'p>(pieces: impl Iterator<Item = &'p Piece>) -> impl Iterator<Item = &'p str> {
    pieces.filter_map(|piece| match piece {
        Piece::Keyword(Keyword::Last(name)) => Some(&**name),
        Piece::Keyword(_) | Piece::Text(_) => None,
    })
}

/// Pieces in which the keywords with a constant value are text, joined with the text around them. An empty value stays a
/// keyword, because its line may be left out.
fn with_constants(pieces: &[Piece], constant: &dyn Fn(&Keyword) -> Option<Vec<u8>>) -> Vec<Piece> {
    let mut joined = Vec::new();
    let mut text = Vec::new();
    for piece in pieces {
        let value = match piece {
            Piece::Text(value) => Some(value.to_vec()),
            Piece::Keyword(keyword) => constant(keyword).filter(|value| !value.is_empty()),
        };
        match value {
            Some(value) => text.extend_from_slice(&value),
            None => {
                if !text.is_empty() {
                    joined.push(Piece::Text(core::mem::take(&mut text).into()));
                }
                joined.push(piece.clone());
            }
        }
    }
    if !text.is_empty() {
        joined.push(Piece::Text(text.into()));
    }
    joined
}

fn write_pieces(
    pieces: &[Piece],
    body_bytes: usize,
    fill: &mut dyn FnMut(&Keyword, usize, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let mut is_empty_line = false;
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                let skipped = if is_empty_line && text.starts_with(b"\r\n") { 2 } else { 0 };
                out.extend_from_slice(text.get(skipped..).unwrap_or_default());
                is_empty_line = false;
            }
            Piece::Keyword(Keyword::Length) => write_number(out, body_bytes as u64),
            Piece::Keyword(keyword) => {
                let before = out.len();
                let is_at_start = out.ends_with(b"\r\n");
                fill(keyword, start, out);
                is_empty_line = out.len() == before && (is_at_start || is_empty_line);
            }
        }
    }
}

/// Head with a Content-Length, body, and the number of the body's first line; lines without indentation and with CR LF.
fn sections(text: &str) -> (String, String, usize) {
    let text = text.trim_start_matches(['\r', '\n', ' ', '\t']);
    let (mut head, mut body) = (String::new(), String::new());
    let mut body_line = 1;
    let mut is_body = false;
    let mut has_length = false;
    for line in text.lines().map(str::trim) {
        body_line += usize::from(!is_body);
        if line.is_empty() && !is_body {
            is_body = true;
            continue;
        }
        let name = line.split(':').next().unwrap_or_default().trim_end();
        has_length |=
            !is_body && (name.eq_ignore_ascii_case("Content-Length") || name.eq_ignore_ascii_case("l"));
        let section = if is_body { &mut body } else { &mut head };
        section.push_str(line);
        section.push_str("\r\n");
    }
    if !has_length {
        head.push_str("Content-Length: [len]\r\n");
    }
    // Empty lines at the end belong to the file, not to the body.
    while body.ends_with("\r\n\r\n") || body == "\r\n" {
        body.truncate(body.len() - 2);
    }
    (head, body, body_line)
}

fn kind_of(head: &str) -> Option<Kind> {
    let line = head.lines().next()?;
    if let Some(status) = line.strip_prefix("SIP/2.0 ") {
        let status = status.split(' ').next()?.parse().ok()?;
        return (100..700).contains(&status).then_some(Kind::Response(status));
    }
    let (method, rest) = line.split_once(' ')?;
    let is_token = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_token && rest.ends_with(" SIP/2.0")).then(|| Kind::Request(method.as_bytes().into()))
}

fn pieces(text: &str, first_line: usize) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, bracketed)) = rest.split_once('[') {
        if !before.is_empty() {
            pieces.push(Piece::Text(before.as_bytes().into()));
        }
        let read = text.len() - bracketed.len();
        let line = first_line + text.get(..read).map_or(0, |read| read.matches('\n').count());
        let named = bracketed.split_once(']').filter(|(name, _)| !name.contains('\n'));
        let (name, after) = named.ok_or(TemplateError::Unclosed(line))?;
        let unknown = || TemplateError::UnknownKeyword(line, name.chars().take(40).collect());
        let keyword = keyword(name).ok_or_else(unknown)?;
        pieces.push(Piece::Keyword(keyword));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.as_bytes().into()));
    }
    Ok(pieces)
}

fn keyword(name: &str) -> Option<Keyword> {
    if let Some(sum) = sum(name) {
        return Some(sum);
    }
    if let Some(index) = name.strip_prefix('$') {
        return index.parse().ok().map(Keyword::Variable);
    }
    if let Some((list, number)) = name.strip_prefix("field ").and_then(|place| place.split_once(' ')) {
        return Some(Keyword::Field(list.parse().ok()?, number.parse().ok()?));
    }
    Some(match name {
        "user" | "field0" => Keyword::User,
        "peer" | "service" => Keyword::Peer,
        "domain" => Keyword::Domain,
        "remote_ip" => Keyword::RemoteIp,
        "remote_port" => Keyword::RemotePort,
        "transport" => Keyword::Transport,
        "local_ip" => Keyword::LocalIp,
        "local_port" => Keyword::LocalPort,
        "local_ip_type" | "media_ip_type" => Keyword::IpType,
        "media_ip" => Keyword::MediaIp,
        "media_port" | "auto_media_port" => Keyword::MediaPort,
        "media_ssrc" => Keyword::MediaSsrc,
        "cryptotag1audio" => Keyword::CryptoTag,
        "cryptokeyparams1audio" => Keyword::CryptoKey,
        "branch" => Keyword::Branch,
        "call_id" => Keyword::CallId,
        "call_number" => Keyword::CallNumber,
        "user_call_id" => Keyword::UserCallId,
        "cseq" => Keyword::CSeq,
        "user_cseq" => Keyword::UserCSeq,
        "pid" => Keyword::Run,
        "len" => Keyword::Length,
        "peer_tag_param" => Keyword::PeerTag,
        "routes" => Keyword::Routes,
        "next_url" => Keyword::NextUrl,
        "authentication" => Keyword::Authentication,
        _ => {
            let name = name.strip_prefix("last_")?.strip_suffix(':')?;
            let is_token =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            return is_token.then(|| Keyword::Last(name.into()));
        }
    })
}

/// Keyword of a number with an offset, such as `media_port+2`.
fn sum(name: &str) -> Option<Keyword> {
    let at = name.rfind(['+', '-'])?;
    let (name, offset) = name.split_at_checked(at)?;
    let is_number = offset.get(1..)?.bytes().all(|byte| byte.is_ascii_digit());
    let offset = offset.parse().ok().filter(|_| is_number)?;
    let keyword = keyword(name)?;
    matches!(
        keyword,
        Keyword::MediaPort
            | Keyword::RemotePort
            | Keyword::LocalPort
            | Keyword::CSeq
            | Keyword::UserCSeq
            | Keyword::CallNumber
    )
    .then(|| Keyword::Sum(Box::new(keyword), offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn filled(text: &str) -> String {
        let template = Template::parse(text).unwrap();
        let mut out = b"kept".to_vec();
        let mut fill = |keyword: &Keyword, _: usize, out: &mut Vec<u8>| match keyword {
            Keyword::Branch => out.extend_from_slice(b"z9hG4bK1"),
            Keyword::User => out.extend_from_slice(b"alice"),
            Keyword::MediaPort => out.extend_from_slice(b"4000"),
            _ => {}
        };
        template.write(&mut fill, &mut out);
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix("kept").unwrap().into()
    }

    #[test]
    fn keywords_are_filled_and_empty_lines_left_out() {
        let text = "\n   OPTIONS sip:x SIP/2.0\n   Via: v;branch=[branch]\n   [routes]\n   [last_Via:][authentication]\n   From: [user][peer_tag_param]\n\n";
        assert_eq!(
            filled(text),
            "OPTIONS sip:x SIP/2.0\r\nVia: v;branch=z9hG4bK1\r\nFrom: alice\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn constants_change_no_byte_of_a_message() {
        let text = "OPTIONS sip:[domain] SIP/2.0\nVia: v;branch=[branch]\n[routes]\n[domain]\nFrom: [user]@[domain][run]\n\n";
        let text = text.replace("[run]", "[pid]");
        let template = Template::parse(&text).unwrap();
        for domain in ["", "example.org"] {
            let constant =
                |keyword: &Keyword| (*keyword == Keyword::Domain).then(|| domain.as_bytes().to_vec());
            let mut fill = |keyword: &Keyword, _: usize, out: &mut Vec<u8>| match keyword {
                Keyword::Domain => out.extend_from_slice(domain.as_bytes()),
                Keyword::User | Keyword::Branch => out.push(b'u'),
                _ => {}
            };
            let (mut plain, mut joined) = (Vec::new(), Vec::new());
            template.write(&mut fill, &mut plain);
            let constants = template.with_constants(&constant);
            constants.write(&mut fill, &mut joined);
            assert_eq!(String::from_utf8(plain).unwrap(), String::from_utf8(joined).unwrap());
            assert_eq!(constants.has(|keyword| *keyword == Keyword::Domain), domain.is_empty());
        }
    }

    #[test]
    fn sums_fields_and_variables_are_keywords() {
        let keyword = |name: &str| super::keyword(name);
        let sum = |keyword, offset| Some(Keyword::Sum(Box::new(keyword), offset));
        assert_eq!(keyword("media_port+2"), sum(Keyword::MediaPort, 2));
        assert_eq!(keyword("cseq-1"), sum(Keyword::CSeq, -1));
        assert_eq!(keyword("$3"), Some(Keyword::Variable(3)));
        assert_eq!(keyword("field 1 12"), Some(Keyword::Field(1, 12)));
        assert_eq!(keyword("last_Call-ID:"), Some(Keyword::Last("Call-ID".into())));
        for bad in
            ["user+1", "cseq+", "cseq+-1", "cseq+9999999999", "cseq+1+1", "$", "$x", "field 300 1", "field 1"]
        {
            assert_eq!(keyword(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_length_is_that_of_the_filled_body() {
        let text = "INVITE sip:x SIP/2.0\r\nVia: v;branch=[branch]\r\nl: [len]\r\n\r\nm=audio [media_port]\r\na=x\r\n\r\n";
        assert_eq!(
            filled(text),
            "INVITE sip:x SIP/2.0\r\nVia: v;branch=z9hG4bK1\r\nl: 19\r\n\r\nm=audio 4000\r\na=x\r\n"
        );
    }

    #[test]
    fn a_response_needs_no_branch_and_gives_its_status() {
        let template = Template::parse("SIP/2.0 180 Ringing\n[last_Via:]\n").unwrap();
        assert_eq!(template.kind, Kind::Response(180));
        assert!(template.has(|keyword| *keyword == Keyword::Last("Via".into())));
        assert_eq!((template.method(), template.status()), (None, Some(180)));
        assert_eq!(template.text(), "SIP/2.0 180 Ringing\r\n[last_Via:]\r\nContent-Length: [len]\r\n\r\n");
        let ack = Template::parse("ACK sip:x SIP/2.0\n[last_via:]\n").unwrap();
        assert_eq!((ack.method(), ack.status()), (Some("ACK"), None));
        assert_eq!(Template::parse("BYE sip:x SIP/2.0\n[last_Via:]\n").unwrap_err(), TemplateError::NoBranch);
    }

    #[test]
    fn bad_texts_are_refused_with_their_line() {
        let request = "BYE sip:x SIP/2.0\nVia: v;branch=[branch]\n";
        let bad = |text: String| Template::parse(&text).unwrap_err();
        assert_eq!(
            bad(format!("{request}To: [nobody]\n")),
            TemplateError::UnknownKeyword(3, "nobody".into())
        );
        assert_eq!(bad(format!("{request}To: [user\n]\n")), TemplateError::Unclosed(3));
        assert_eq!(
            bad(format!("{request}\nline\n[last_:]")),
            TemplateError::UnknownKeyword(5, "last_:".into())
        );
        assert_eq!(bad("BYE sip:x SIP/2.0\n".into()), TemplateError::NoBranch);
        for first in ["", "BYE", "BYE sip:x HTTP/1.1", "SIP/2.0 99 x", "SIP/2.0 x", "B[E sip:x SIP/2.0"] {
            assert_eq!(bad(first.into()), TemplateError::FirstLine, "{first}");
        }
        assert_eq!(bad("x".repeat(Template::BYTES_MAX + 1)), TemplateError::TooLong);
    }
}

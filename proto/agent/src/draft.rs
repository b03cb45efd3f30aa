//! Drafts of requests, their serialisation for a flow, and conversions of header values for people and for the wire.
//! Headers of a URI that a request is formed from (RFC 3261 §19.1.1, §19.1.5): `sip:bob@example.org?Subject=Lunch`.

use crate::next_hop::NextHop;
use crate::{AccountId, CallId, Config, QueryId, RouteError};
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::Flow;
use ringway_sip::{HeaderName, MessageWriter, Method, NameAddr, Scheme, Uri, grammar, write_host};
use ringway_transaction::SlabKey;

/// A request without the header fields that depend on its flow.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) account: AccountId,
    pub(crate) method: Method<'static>,
    pub(crate) uri: Vec<u8>,
    /// Route values, in order.
    pub(crate) routes: Vec<Vec<u8>>,
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
    pub(crate) call_id: Vec<u8>,
    pub(crate) cseq: u32,
    pub(crate) contact: ContactField,
    pub(crate) fields: Vec<(HeaderName, Vec<u8>)>,
    pub(crate) body: Option<Body>,
    pub(crate) next_hop: NextHop,
    pub(crate) scope: Scope,
    /// Flow of the peer's last request in the dialog. A phone that is reachable only by its own connection has that
    /// connection's address as its contact.
    pub(crate) peer: Option<Flow>,
}

impl Draft {
    /// True if the request needs TLS on every hop.
    pub(crate) fn is_sips(&self) -> bool {
        let first = self.routes.first().and_then(|route| NameAddr::parse(route).ok());
        is_sips(&self.uri) || first.is_some_and(|route| route.uri.scheme() == Scheme::Sips)
    }
}

/// True for a `sips:` URI.
pub(crate) fn is_sips(uri: &[u8]) -> bool {
    Uri::parse(uri).is_ok_and(|uri| uri.scheme() == Scheme::Sips)
}

/// Relation of a request to dialogs and to the account's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    OutsideDialog,
    /// An INVITE to a contact of a 3xx response. Its destination is not the account's server.
    Redirected,
    InDialog,
}

/// Contact of a request. Its address depends on the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactField {
    None,
    /// Local target of a dialog.
    Target,
    /// Binding to register, with its expiry.
    Binding {
        expires_s: u32,
        /// With the instance of the account and a reg-id (RFC 5626 §4.2).
        as_flow: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Purpose of a request; decides which component handles its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Register(AccountId),
    Call(CallId, CallRequest),
    Query(QueryId),
    /// The ACK of a 2xx to the INVITE with this key.
    Ack(SlabKey),
    /// The BYE of a second dialog; its responses are ignored.
    Unowned,
}

/// Requests of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRequest {
    Invite,
    /// Change of the session (RFC 3261 §14).
    Reinvite,
    Bye,
    Refer,
    /// NOTIFY to the peer that requested a transfer.
    Report,
}

/// Appends a request; nothing if a value in it contains a line break.
pub(crate) fn write_request(
    config: &Config,
    draft: &Draft,
    credentials: &[(HeaderName, Vec<u8>)],
    flow: Flow,
    branch: &[u8],
    out: &mut Vec<u8>,
) {
    let Some(own) = config.address_of(flow.listener) else { return };
    let mut request = MessageWriter::request(out, draft.method, &draft.uri);
    request.header_with(HeaderName::Via, |out| {
        out.extend_from_slice(b"SIP/2.0/");
        out.extend_from_slice(flow.transport.via_token().as_bytes());
        out.push(b' ');
        write_host(out, own);
        out.extend_from_slice(b";rport;branch=");
        out.extend_from_slice(branch);
    });
    for route in &draft.routes {
        request.header(HeaderName::Route, route);
    }
    request.header_number(HeaderName::MaxForwards, 70);
    request.header(HeaderName::From, &draft.from);
    request.header(HeaderName::To, &draft.to);
    request.header(HeaderName::CallId, &draft.call_id);
    request.header_with(HeaderName::CSeq, |out| {
        ringway_sip::write_number(out, u64::from(draft.cseq));
        out.push(b' ');
        out.extend_from_slice(draft.method.as_bytes());
    });
    match draft.contact {
        ContactField::None => {}
        ContactField::Target => {
            request.header_with(HeaderName::Contact, |out| {
                write_contact(config, draft.account, flow, draft.is_sips(), out);
            });
        }
        ContactField::Binding { expires_s, as_flow } => {
            request.header_with(HeaderName::Contact, |out| {
                write_contact(config, draft.account, flow, draft.is_sips(), out);
                let instance = config.account(draft.account).and_then(|account| account.instance.as_ref());
                if let Some(instance) = instance.filter(|_| as_flow) {
                    out.extend_from_slice(b";+sip.instance=\"<");
                    out.extend_from_slice(instance.as_bytes());
                    out.extend_from_slice(b">\";reg-id=1");
                }
                out.extend_from_slice(b";expires=");
                ringway_sip::write_number(out, u64::from(expires_s));
            });
        }
    }
    for (name, value) in draft.fields.iter().chain(credentials) {
        request.header(*name, value);
    }
    if !config.user_agent.is_empty() {
        request.header(HeaderName::UserAgent, config.user_agent.as_bytes());
    }
    let _ = match &draft.body {
        Some(body) => request.finish_with_body(body.content_type, &body.bytes),
        None => request.finish(),
    };
}

/// Appends a Contact value whose address is reachable through `flow`: a `sips:` URI if the request's URI, or its first
/// Route, is one (RFC 3261 §8.1.1.8, §12.1.1).
pub(crate) fn write_contact(
    config: &Config,
    account: AccountId,
    flow: Flow,
    is_sips: bool,
    out: &mut Vec<u8>,
) {
    let account = config.account(account);
    let address = account.and_then(|account| account.contact).or_else(|| config.address_of(flow.listener));
    out.extend_from_slice(if is_sips { b"<sips:" } else { b"<sip:" });
    if let Some(user) = account.and_then(|account| account.user()) {
        out.extend_from_slice(user);
        out.push(b'@');
    }
    if let Some(address) = address {
        write_host(out, address);
    }
    // RFC 5630 §3.1.4: `transport=tls` is for `sip:` URIs only, where peers expect it.
    if !is_sips {
        out.extend_from_slice(flow.transport.uri_parameter().as_bytes());
    }
    out.push(b'>');
}

/// Converts bytes of a peer to text for people. Invalid UTF-8 and control characters are replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(bytes);
    lossy.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Joins a folded header value to one line.
pub(crate) fn unfolded(value: &[u8]) -> Vec<u8> {
    value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)).collect()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Vec<u8> {
    base16ct::lower::encode_string(bytes).into_bytes()
}

/// Header fields for a request.
pub(crate) type HeaderFields = Vec<(HeaderName, Vec<u8>)>;

/// Splits a URI from its headers, which become header fields of the request. A URI may come from a web page or a message:
/// only fields are taken that neither route the request nor say something about its sender.
pub(crate) fn without_headers<'u>(uri: &Uri<'u>) -> Result<(&'u [u8], HeaderFields), RouteError> {
    let headers = uri.headers();
    let bytes = uri.as_bytes();
    let end = match headers.len() {
        0 => bytes.strip_suffix(b"?").unwrap_or(bytes).len(),
        len => bytes.len().saturating_sub(len + 1),
    };
    let mut fields = HeaderFields::new();
    for header in headers.split(|&byte| byte == b'&').filter(|_| !headers.is_empty()) {
        let (name, value) = field(header)?;
        if fields.iter().any(|(known, _)| *known == name) {
            return Err(RouteError::Headers);
        }
        fields.push((name, value));
    }
    Ok((bytes.get(..end).unwrap_or_default(), fields))
}

/// A header field from `name=value`.
fn field(header: &[u8]) -> Result<(HeaderName, Vec<u8>), RouteError> {
    let at = header.iter().position(|&byte| byte == b'=').ok_or(RouteError::Headers)?;
    let (name, value) = header.split_at_checked(at).ok_or(RouteError::Headers)?;
    let name = grammar::unescaped(name);
    let known = HeaderName::from_bytes(&name);
    if !TAKEN.contains(&known) {
        return Err(RouteError::Header(match known {
            _ if name.eq_ignore_ascii_case(b"body") => "a body",
            HeaderName::Other => "a header field",
            // Each name but `Other` is ASCII.
            named => core::str::from_utf8(named.as_bytes()).unwrap_or_default(),
        }));
    }
    let value = grammar::unescaped(value.get(1..).unwrap_or_default()).into_owned();
    let is_line = value.iter().all(|&byte| byte >= b' ' && byte != 127);
    if !is_line || value.len() > VALUE_BYTES_MAX || core::str::from_utf8(&value).is_err() {
        return Err(RouteError::Headers);
    }
    Ok((known, value))
}

/// Header fields that a URI may set: they describe a call to people.
const TAKEN: [HeaderName; 2] = [HeaderName::Subject, HeaderName::Priority];

/// Maximum length of a value, so that the request still fits into a datagram.
const VALUE_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn split(uri: &str) -> Result<(&[u8], HeaderFields), RouteError> {
        without_headers(&Uri::parse(uri.as_bytes()).unwrap())
    }

    #[test]
    fn subject_and_priority_are_taken_without_escapes() {
        assert_eq!(split("sip:b@h;x=y"), Ok((&b"sip:b@h;x=y"[..], Vec::new())));
        let (uri, fields) =
            split("sip:b@h:5070;transport=tcp?subject=Lunch%20%26%20tea&Priority=urgent").unwrap();
        assert_eq!(uri, b"sip:b@h:5070;transport=tcp");
        let expected: [(HeaderName, &[u8]); 2] =
            [(HeaderName::Subject, b"Lunch & tea"), (HeaderName::Priority, b"urgent")];
        assert!(
            fields
                .iter()
                .zip(expected)
                .all(|((name, value), (wanted, text))| (*name, &value[..]) == (wanted, text))
        );
        assert_eq!(fields.len(), 2);
        assert_eq!(split("sip:b@h?s=compact").map(|(_, fields)| fields.len()), Ok(1));
        assert_eq!(split("sip:b@h?Subject=").map(|(_, fields)| fields[0].1.len()), Ok(0));
    }

    #[test]
    fn other_headers_are_refused_by_name() {
        for name in [
            "From",
            "Call-ID",
            "CSeq",
            "Via",
            "Record-Route",
            "Route",
            "Accept",
            "Allow",
            "Contact",
            "Organization",
            "Supported",
            "User-Agent",
            "Content-Type",
            "Date",
            "Timestamp",
            "Require",
            "To",
            "Authorization",
            "Replaces",
            "Refer-To",
            "Content-Length",
        ] {
            let uri = alloc::format!("sip:b@h?Subject=x&{name}=y");
            assert_eq!(split(&uri), Err(RouteError::Header(name)), "{name}");
        }
        assert_eq!(split("sip:b@h?Rout%65=x"), Err(RouteError::Header("Route")));
        assert_eq!(split("sip:b@h?Body=x"), Err(RouteError::Header("a body")));
        assert_eq!(split("sip:b@h?X-Own=x"), Err(RouteError::Header("a header field")));
        for malformed in
            ["?Subject=a&subject=b", "?Subject=a%0d%0aRoute:%20x", "?Subject=%00", "?Subject", "?Subject=a&"]
        {
            assert_eq!(split(&alloc::format!("sip:b@h{malformed}")), Err(RouteError::Headers), "{malformed}");
        }
        let long = alloc::format!("sip:b@h?Subject={}", "a".repeat(VALUE_BYTES_MAX + 1));
        assert_eq!(split(&long), Err(RouteError::Headers));
    }
}

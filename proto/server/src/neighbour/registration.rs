//! Registration of one trunk: its REGISTER, and its part of a response (RFC 3261 §10.2, decision 0057).

use super::server_choice::ServerChoice;
use crate::Config;
use crate::base::Lines;
use crate::config::{SentBy, Trunk};
use crate::tables::ServiceRoute;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Flow, Instant, Rng};
use ringway_sip::grammar::number_u32;
use ringway_sip::{
    Contact, HeaderName, Message, MessageWriter, Method, NameAddr, hex16, write_number, write_via,
};
use ringway_transaction::ClientId;

pub(super) struct Registration {
    /// Its number in requests and lookups, which a reload does not change.
    pub(super) number: u16,
    /// Index of its trunk.
    pub(super) trunk: usize,
    /// The trunk as it was when this registration began.
    pub(super) of: Trunk,
    pub(super) phase: Phase,
    pub(super) flow: Option<Flow>,
    pub(super) servers: ServerChoice,
    pub(super) client: Option<ClientId>,
    /// Connection over which the carrier registered it, and the time.
    pub(super) registered_by: Option<(ConnectionId, Instant)>,
    /// Number of the Call-ID, and of the last request in it (RFC 3261 §10.2).
    pub(super) call: u64,
    pub(super) cseq: u32,
    pub(super) attempt: u32,
    pub(super) failures: u32,
    /// Challenges that were answered in this attempt.
    pub(super) logins: u8,
    /// Seconds that are requested.
    pub(super) expires_s: u32,
    pub(super) is_raised: bool,
    /// URI of the contact in its last request.
    pub(super) contact: Vec<u8>,
    /// Contacts that the next request removes.
    pub(super) removed: Vec<Box<[u8]>>,
    /// Contacts were removed in this attempt.
    pub(super) has_removed: bool,
    /// Beginning of the last attempt.
    pub(super) begun_at: Instant,
    pub(super) is_registered: bool,
    /// Its carrier gave a service route.
    pub(super) has_route: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first attempt begins after this time.
    New(Duration),
    /// The next attempt begins at this time.
    Waiting(Instant),
    /// The servers of its host name are being looked up, until this time at most.
    Locating(Instant),
    /// The next request of the attempt is sent when the rate permits.
    Ready,
    Sent,
    /// Another node of the cluster registers this trunk, or the nodes are not known yet.
    OfOtherNode,
}

impl Phase {
    /// Time at which something is to be done.
    pub(super) const fn due(self) -> Option<Instant> {
        match self {
            Self::Waiting(at) | Self::Locating(at) => Some(at),
            Self::New(_) | Self::Ready | Self::Sent | Self::OfOtherNode => None,
        }
    }
}

impl Registration {
    pub(super) fn new(number: u16, trunk: usize, of: &Trunk, rng: &mut Rng) -> Self {
        // Spread over a second: a restart of a server with many trunks is no burst.
        let spread = Duration::from_millis(rng.below(1000));
        let call = rng.next_u64();
        Self {
            number,
            trunk,
            of: of.clone(),
            phase: Phase::New(spread),
            flow: None,
            servers: ServerChoice::default(),
            client: None,
            registered_by: None,
            call,
            cseq: 0,
            // An answer to another registration that had the number is none of it.
            attempt: call as u32 & ATTEMPT_MASK,
            failures: 0,
            logins: 0,
            expires_s: EXPIRES_S,
            is_raised: false,
            contact: Vec::new(),
            removed: Vec::new(),
            has_removed: false,
            begun_at: Instant::default(),
            is_registered: false,
            has_route: false,
        }
    }

    /// True if a trunk of another configuration is the same.
    pub(super) fn is_of(&self, trunk: &Trunk) -> bool {
        (&self.of.name, &self.of.uri, &self.of.login, &self.of.domain, self.of.bulk)
            == (&trunk.name, &trunk.uri, &trunk.login, &trunk.domain, trunk.bulk)
    }

    /// Writes the REGISTER (RFC 3261 §10.2).
    pub(super) fn write(
        &self,
        flow: &Flow,
        host: SentBy<'_>,
        credentials: Option<&(HeaderName, Vec<u8>)>,
        branch: &[u8],
        out: &mut Vec<u8>,
    ) {
        let call_id = hex16(self.call);
        let mut request = MessageWriter::request(out, Method::Register, self.of.uri.as_bytes());
        request.header_with(HeaderName::Via, |out| {
            write_via(out, flow.transport.via_token(), |out| host.write(out), branch);
        });
        request.header_number(HeaderName::MaxForwards, 70);
        request.header_with(HeaderName::From, |out| {
            self.write_account(out);
            out.extend_from_slice(b";tag=");
            out.extend_from_slice(&call_id);
        });
        request.header_with(HeaderName::To, |out| self.write_account(out));
        request.header(HeaderName::CallId, &call_id);
        request.header_with(HeaderName::CSeq, |out| {
            write_number(out, u64::from(self.cseq));
            out.extend_from_slice(b" REGISTER");
        });
        if self.of.bulk {
            request.header(HeaderName::Require, b"gin");
            request.header(HeaderName::ProxyRequire, b"gin");
            request.header(HeaderName::Supported, b"path");
        }
        request.header_with(HeaderName::Contact, |out| write_bracketed(&self.contact, b"", out));
        for contact in &self.removed {
            request.header_with(HeaderName::Contact, |out| write_bracketed(contact, b";expires=0", out));
        }
        request.header_number(HeaderName::Expires, u64::from(self.expires_s));
        if let Some((name, value)) = credentials {
            request.header(*name, value);
        }
        // An unsafe text is not sent: the configuration refuses them.
        let _ = request.finish();
    }

    /// Appends `<sip:USERNAME@DOMAIN>`.
    fn write_account(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<sip:");
        out.extend_from_slice(self.of.account().as_bytes());
        out.push(b'@');
        out.extend_from_slice(self.of.account_domain());
        out.push(b'>');
    }

    /// Seconds that a 2xx grants our contact (RFC 3261 §10.2.4); 0: it is none of several. Some carriers rewrite it, or list none: the shortest
    /// time counts of those with our token, or without one of the account's.
    pub(super) fn granted_s(&self, lines: &Lines, message: &Message<'_>) -> u32 {
        let token = lines.token_of(&self.of);
        let is_sent = |contact: &Contact<'_>| contact.address.uri.as_bytes() == self.contact;
        let has_token = |contact: &Contact<'_>| line_of(contact) == Some(&token);
        let of_all = message.first(HeaderName::Expires).and_then(number_u32);
        let contacts = || message.values(HeaderName::Contact).filter_map(|value| Contact::parse(value).ok());
        let (first, is_only) = (contacts().next(), contacts().nth(1).is_none());
        let time_of = |contact: Contact<'_>| contact.expires.or(of_all).unwrap_or(self.expires_s);
        // A carrier that rewrites contacts may list those of earlier registrations; which one is ours is not to be seen.
        let least = || contacts().filter(has_token).map(time_of).filter(|time| *time > 0).min();
        let known = contacts().find(is_sent).map(time_of).or_else(least);
        let granted = match known.or(first.filter(|_| is_only).map(time_of)) {
            Some(time) => time,
            None if is_only => of_all.unwrap_or_default(),
            None => {
                let is_of_account =
                    |contact: &Contact<'_>| contact.address.uri.user() == Some(self.of.account().as_bytes());
                let times = contacts().filter(is_of_account).filter_map(|contact| contact.expires.or(of_all));
                times.min().unwrap_or_default()
            }
        };
        granted.min(EXPIRES_S_MAX)
    }

    /// Other contacts with our token in a 2xx, which names ours as it was sent: those of the node that had this trunk before, or of a
    /// former address. A carrier that writes contacts anew has none.
    pub(super) fn former_contacts(&self, lines: &Lines, message: &Message<'_>) -> Vec<Box<[u8]>> {
        let token = lines.token_of(&self.of);
        let contacts = || message.values(HeaderName::Contact).filter_map(|value| Contact::parse(value).ok());
        let (mut former, mut is_named) = (Vec::new(), false);
        for contact in contacts().filter(|contact| line_of(contact) == Some(&token)) {
            let uri = contact.address.uri.as_bytes();
            if uri == self.contact {
                is_named = true;
            } else if former.len() < FORMER_MAX && uri.len() <= FORMER_BYTES_MAX && uri.iter().all(is_plain) {
                former.push(uri.into());
            }
        }
        if is_named { former } else { Vec::new() }
    }

    /// Route for requests to the carrier that a 2xx gives (RFC 3608 §5), without brackets; empty: none. `None`: it is not usable.
    pub(super) fn service_route(config: &Config, message: &Message<'_>) -> Option<ServiceRoute> {
        let mut route: Vec<Box<[u8]>> = Vec::new();
        for value in message.values(HeaderName::ServiceRoute) {
            let uri = NameAddr::parse(value).ok()?.uri;
            let bytes = uri.as_bytes();
            let is_route = uri.is_sip()
                && uri.is_loose_router()
                && uri.headers().is_empty()
                && uri.params().value(b"maddr").is_none()
                && bytes.iter().all(is_plain);
            let len: usize = route.iter().map(|value| value.len()).sum();
            let has_room = route.len() < SERVICE_ROUTES_MAX && len + bytes.len() <= SERVICE_ROUTE_BYTES_MAX;
            if !is_route || !has_room || config.domain_of(&uri).is_some() {
                return None;
            }
            route.push(bytes.into());
        }
        Some(route.into())
    }
}

/// True for a byte that a URI in brackets can have.
fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !b"<>\"".contains(byte)
}

/// Token of a contact.
fn line_of<'a>(contact: &Contact<'a>) -> Option<&'a [u8]> {
    contact.address.uri.params().value(b"line")
}

/// Appends a URI in brackets, and parameters of the header field.
fn write_bracketed(uri: &[u8], params: &[u8], out: &mut Vec<u8>) {
    for part in [&b"<"[..], uri, b">", params] {
        out.extend_from_slice(part);
    }
}

/// Bits of the number of an attempt.
pub(super) const ATTEMPT_MASK: u32 = u32::MAX >> 1;
/// Time that is requested, in seconds.
const EXPIRES_S: u32 = 3600;
/// Longest time that is requested or counts.
pub(super) const EXPIRES_S_MAX: u32 = 86_400;
/// Maximum number of values of a service route, and of their bytes.
const SERVICE_ROUTES_MAX: usize = 4;
const SERVICE_ROUTE_BYTES_MAX: usize = 512;
/// Maximum number of former contacts that are removed at once, and of bytes of one.
const FORMER_MAX: usize = 4;
const FORMER_BYTES_MAX: usize = 256;

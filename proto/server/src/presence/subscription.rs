//! Subscription: a dialog in which this server is the notifier (RFC 6665 §4.2).

use super::package::{Event, Package};
use super::publish::BODY_BYTES_MAX;
use crate::config::SentBy;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Instant, TimerKey};
use ringway_sip::{HeaderName, MessageWriter, Method, hex16, write_number, write_via};
use ringway_transaction::{ClientId, SlabKey};

/// Subscription of a watcher to the state of a user.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) package: Package,
    /// User that it is for.
    pub(super) presentity: SlabKey,
    /// `user@domain` of the watcher.
    pub(super) watcher: Box<[u8]>,
    pub(super) texts: Texts,
    /// Tag of this server.
    pub(super) tag: u64,
    pub(super) remote_cseq: u32,
    /// CSeq of the last NOTIFY.
    pub(super) cseq: u32,
    /// Version of the next document.
    pub(super) version: u32,
    /// Flow of the last SUBSCRIBE.
    pub(super) flow: Flow,
    pub(super) is_sips: bool,
    pub(super) expires: Instant,
    pub(super) timer: TimerKey,
    pub(super) delivery: Delivery,
    /// The state differs from that of the last NOTIFY.
    pub(super) is_changed: bool,
    /// Earliest time of the next NOTIFY.
    pub(super) not_before: Instant,
    /// Time of the last NOTIFY.
    pub(super) notified_at: Instant,
    pub(super) end: Option<End>,
    /// Source that its memory is reserved for, and the number of bytes.
    pub(super) reserved: (IpAddr, usize),
}

/// NOTIFY of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Idle,
    UnderWay(ClientId),
}

/// Reason for the end of a subscription (RFC 6665 §4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Expired, removed by the subscriber, or a single query.
    Timeout,
    /// The user does not exist any more.
    NoResource,
}

/// Texts of a subscription, concatenated.
#[derive(Debug)]
pub(super) struct Texts {
    bytes: Box<[u8]>,
    ends: [u16; PARTS],
}

/// Parts of [`Texts`], in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    /// Remote target.
    pub(super) contact: &'a [u8],
    /// Route set as one list; usually empty.
    pub(super) routes: &'a [u8],
    /// URI in To of the SUBSCRIBE.
    pub(super) local: &'a [u8],
    /// URI in From of the SUBSCRIBE.
    pub(super) remote: &'a [u8],
    /// Tag in From of the SUBSCRIBE.
    pub(super) remote_tag: &'a [u8],
    pub(super) call_id: &'a [u8],
    /// `id` of its Event; empty: none.
    pub(super) id: &'a [u8],
    /// User part of our Contact, escaped.
    pub(super) user: &'a [u8],
}

const PARTS: usize = 8;

impl Texts {
    /// Copies the texts; `None` if they exceed [`Texts::BYTES_MAX`].
    pub(super) fn new(parts: &Parts<'_>) -> Option<Self> {
        let Parts { contact, routes, local, remote, remote_tag, call_id, id, user } = *parts;
        let mut bytes = Vec::new();
        let mut ends = [0; PARTS];
        for (end, part) in
            ends.iter_mut().zip([contact, routes, local, remote, remote_tag, call_id, id, user])
        {
            // Values may be folded.
            bytes.extend(part.iter().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
            if bytes.len() > Self::BYTES_MAX {
                return None;
            }
            *end = u16::try_from(bytes.len()).ok()?;
        }
        Some(Self { bytes: bytes.into_boxed_slice(), ends })
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        let mut start = 0;
        let [contact, routes, local, remote, remote_tag, call_id, id, user] = self.ends.map(|end| {
            let part = self.bytes.get(start..usize::from(end)).unwrap_or_default();
            start = usize::from(end);
            part
        });
        Parts { contact, routes, local, remote, remote_tag, call_id, id, user }
    }

    /// Maximum length in bytes of all texts together.
    pub(super) const BYTES_MAX: usize = 2048;
}

impl Subscription {
    /// True for a request of its dialog.
    pub(super) fn is_dialog(&self, call_id: &[u8], remote_tag: Option<&[u8]>) -> bool {
        let parts = self.texts.parts();
        parts.call_id == call_id && parts.remote_tag == remote_tag.unwrap_or_default()
    }

    /// True for this event.
    pub(super) fn is_event(&self, event: &Event<'_>) -> bool {
        self.package == event.package && self.texts.parts().id == event.id.unwrap_or_default()
    }

    pub(super) const fn client(&self) -> Option<ClientId> {
        match self.delivery {
            Delivery::UnderWay(client) => Some(client),
            Delivery::Idle => None,
        }
    }

    /// Time of its next timer; `None` while a NOTIFY is under way, whose end comes first.
    pub(super) fn due(&self) -> Option<Instant> {
        match (self.delivery, self.end) {
            (Delivery::UnderWay(_), _) => None,
            (Delivery::Idle, Some(_)) => Some(self.not_before),
            (Delivery::Idle, None) if self.is_changed => Some(self.not_before.min(self.expires)),
            (Delivery::Idle, None) => Some(self.expires),
        }
    }

    /// Bytes that are reserved for one, with the buffer of a NOTIFY.
    pub(super) const BYTES_MAX: usize = size_of::<Self>() + Texts::BYTES_MAX + NOTIFY_BYTES;

    /// Appends the value of this server's Contact.
    pub(super) fn write_contact(&self, host: SentBy<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.is_sips { b"<sips:" } else { b"<sip:" });
        out.extend_from_slice(self.texts.parts().user);
        out.push(b'@');
        host.write(out);
        // RFC 5630 §3.1.4: `transport=tls` is for `sip:` URIs only.
        if !self.is_sips {
            out.extend_from_slice(self.flow.transport.uri_parameter().as_bytes());
        }
        out.push(b'>');
    }

    /// Appends a NOTIFY with this body, with the number of [`Subscription::cseq`]; nothing if a text is not safe.
    pub(super) fn write_notify(
        &self,
        now: Instant,
        host: SentBy<'_>,
        body: &[u8],
        branch: &[u8],
        out: &mut Vec<u8>,
    ) {
        let parts = self.texts.parts();
        let mut notify = MessageWriter::request(out, Method::Notify, parts.contact);
        notify.header_with(HeaderName::Via, |out| {
            write_via(out, self.flow.transport.via_token(), |out| host.write(out), branch);
        });
        notify.header_number(HeaderName::MaxForwards, 70);
        if !parts.routes.is_empty() {
            notify.header(HeaderName::Route, parts.routes);
        }
        notify.header_with(HeaderName::From, |out| {
            out.push(b'<');
            out.extend_from_slice(parts.local);
            out.extend_from_slice(b">;tag=");
            out.extend_from_slice(&hex16(self.tag));
        });
        notify.header_with(HeaderName::To, |out| {
            out.push(b'<');
            out.extend_from_slice(parts.remote);
            out.push(b'>');
            if !parts.remote_tag.is_empty() {
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(parts.remote_tag);
            }
        });
        notify.header(HeaderName::CallId, parts.call_id);
        notify.header_with(HeaderName::CSeq, |out| {
            write_number(out, u64::from(self.cseq));
            out.extend_from_slice(b" NOTIFY");
        });
        notify.header_with(HeaderName::Contact, |out| self.write_contact(host, out));
        notify.header_with(HeaderName::Event, |out| {
            out.extend_from_slice(self.package.name().as_bytes());
            if !parts.id.is_empty() {
                out.extend_from_slice(b";id=");
                out.extend_from_slice(parts.id);
            }
        });
        notify.header_with(HeaderName::SubscriptionState, |out| match self.end {
            Some(end) => {
                out.extend_from_slice(b"terminated;reason=");
                out.extend_from_slice(end.name());
            }
            None => {
                out.extend_from_slice(b"active;expires=");
                write_number(out, seconds_of(self.expires.since(now)));
            }
        });
        // An unsafe text is not sent: no transaction begins.
        let _ = notify.finish_with_body(self.package.content_type(), body);
    }
}

impl End {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Timeout => b"timeout",
            Self::NoResource => b"noresource",
        }
    }
}

/// Seconds, rounded up.
pub(super) fn seconds_of(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Memory of the request buffer of a client transaction: header fields of this server, the texts, the largest document.
const NOTIFY_BYTES: usize = 1024 + Texts::BYTES_MAX + BODY_BYTES_MAX;

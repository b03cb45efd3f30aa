//! Event packages, and the header fields that name them.

use core::time::Duration;
use ringway_sip::grammar::{is_token_str, trim};
use ringway_sip::{HeaderName, Message, Params};

/// Event package that this server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Package {
    /// `presence` (RFC 3856).
    Presence,
    /// `dialog` (RFC 4235).
    Dialog,
    /// `message-summary` (RFC 3842).
    MessageSummary,
    /// `reg` (RFC 3680).
    Reg,
}

/// Event of a request (RFC 6665 §8.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    pub(super) package: Package,
    /// Distinguishes several subscriptions of one dialog.
    pub(super) id: Option<&'a [u8]>,
}

/// Event header field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventHeader<'a> {
    /// A package of this server.
    Served(Event<'a>),
    /// Another package.
    Other,
    /// None, or malformed.
    Absent,
}

impl<'a> EventHeader<'a> {
    pub(super) fn of(message: &Message<'a>) -> Self {
        let Some(value) = message.first(HeaderName::Event) else { return Self::Absent };
        let at = memchr::memchr(b';', value).unwrap_or(value.len());
        let (name, params) = value.split_at_checked(at).unwrap_or((value, b""));
        let (name, Ok(params)) = (trim(name), Params::parse(params)) else { return Self::Absent };
        if !is_token_str(name) {
            return Self::Absent;
        }
        match Package::ALL.into_iter().find(|package| package.name().as_bytes().eq_ignore_ascii_case(name)) {
            Some(package) => Self::Served(Event { package, id: params.value(b"id") }),
            None => Self::Other,
        }
    }
}

impl Package {
    const ALL: [Self; 4] = [Self::Presence, Self::Dialog, Self::MessageSummary, Self::Reg];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Dialog => "dialog",
            Self::MessageSummary => "message-summary",
            Self::Reg => "reg",
        }
    }

    /// Content type of its documents.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Presence => "application/pidf+xml",
            Self::Dialog => "application/dialog-info+xml",
            Self::MessageSummary => "application/simple-message-summary",
            Self::Reg => "application/reginfo+xml",
        }
    }

    /// Minimum time between two NOTIFYs of a subscription (RFC 3856 §6.10, RFC 4235 §3.10, RFC 3842 §3.11, RFC 3680
    /// §4.10).
    pub(super) const fn interval(self) -> Duration {
        match self {
            Self::Presence | Self::Reg => Duration::from_secs(5),
            Self::Dialog | Self::MessageSummary => Duration::from_secs(1),
        }
    }

    /// True if only the user itself may subscribe.
    pub(super) const fn is_private(self) -> bool {
        match self {
            Self::Presence | Self::Dialog => false,
            Self::MessageSummary | Self::Reg => true,
        }
    }

    /// True if the user itself may publish it.
    pub(super) const fn is_published(self) -> bool {
        match self {
            Self::Presence | Self::Dialog => true,
            Self::MessageSummary | Self::Reg => false,
        }
    }

    /// True for a body of its type that is not compressed.
    pub(super) fn is_type_of(self, message: &Message<'_>) -> bool {
        let name = without_params(message.first(HeaderName::ContentType).unwrap_or_default());
        name.eq_ignore_ascii_case(self.content_type().as_bytes()) && !message.has(HeaderName::ContentEncoding)
    }

    /// True if a subscriber with this Accept takes its documents.
    pub(super) fn is_accepted_by(self, message: &Message<'_>) -> bool {
        let range = self.content_type().as_bytes();
        let group = b"application/*";
        !message.has(HeaderName::Accept)
            || message.values(HeaderName::Accept).any(|value| {
                let name = without_params(value);
                name == b"*/*" || name.eq_ignore_ascii_case(group) || name.eq_ignore_ascii_case(range)
            })
    }
}

/// A value up to its parameters.
fn without_params(value: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    trim(value.get(..end).unwrap_or_default())
}

/// Value of Allow-Events in the response to a PUBLISH of a package that is not published.
pub(super) const PUBLISHED_EVENTS: &[u8] = b"presence, dialog";
/// Value of Allow-Events in the response to a package that is not served.
pub(super) const ALLOW_EVENTS: &[u8] = b"presence, dialog, message-summary, reg";

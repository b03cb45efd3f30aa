//! Stored state of a client transaction: the sent request, kept for retransmission, and the ACK and CANCEL that are made from
//! it.

use crate::slab::SlabKey;
use crate::state::{ClientEvent, Step, invite_client, non_invite_client};
use crate::timers::Clock;
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::Flow;
use ringway_sip::{HeaderName, Limits, Message, MessageWriter, Method, Start};

/// Key of a client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub(crate) SlabKey);

/// Request that a client transaction sends.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<C> {
    /// Flow of the request.
    pub flow: Flow,
    /// True for INVITE.
    pub is_invite: bool,
    /// Owner of the transaction; returned with each response and notice.
    pub owner: C,
}

#[derive(Debug)]
pub(crate) struct Client<C> {
    pub(crate) machine: Machine,
    pub(crate) flow: Flow,
    pub(crate) owner: C,
    /// Number that is in no other branch.
    pub(crate) unique: u64,
    /// Sent request, as long as it is needed for a retransmission, CANCEL or ACK. After an INVITE failed: its ACK.
    pub(crate) request: StoredRequest,
    /// True if `request` is the ACK of a failed INVITE.
    pub(crate) is_acknowledged: bool,
    pub(crate) clock: Clock,
    pub(crate) cancel: Cancel,
    /// Values of Reason for the CANCEL (RFC 3326 §2), each with a line feed behind it.
    pub(crate) reason: Option<Arc<[u8]>>,
}

/// CANCEL of an INVITE. It has the INVITE's branch, so it is stored with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    NotWanted,
    /// It is sent after a provisional response (RFC 3261 §9.1).
    Wanted,
    Sent {
        state: non_invite_client::State,
        clock: Clock,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Invite(invite_client::State),
    NonInvite(non_invite_client::State),
}

impl Machine {
    pub(crate) fn start(is_invite: bool, reliable: bool) -> Step<Self> {
        if is_invite {
            invite_client::start(reliable).map(Self::Invite)
        } else {
            non_invite_client::start(reliable).map(Self::NonInvite)
        }
    }

    pub(crate) fn on(self, event: ClientEvent, reliable: bool) -> Step<Self> {
        match self {
            Self::Invite(state) => invite_client::on(state, event, reliable).map(Self::Invite),
            Self::NonInvite(state) => non_invite_client::on(state, event, reliable).map(Self::NonInvite),
        }
    }

    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Invite(state) => state == invite_client::State::Terminated,
            Self::NonInvite(state) => state == non_invite_client::State::Terminated,
        }
    }

    /// True before the first response.
    pub(crate) fn is_unanswered(self) -> bool {
        matches!(
            self,
            Self::Invite(invite_client::State::Calling) | Self::NonInvite(non_invite_client::State::Trying)
        )
    }

    /// True after a final response to an INVITE.
    pub(crate) fn is_answered(self) -> bool {
        match self {
            Self::Invite(state) => {
                !matches!(state, invite_client::State::Calling | invite_client::State::Proceeding)
            }
            Self::NonInvite(_) => false,
        }
    }

    /// True if the request is not needed any more.
    pub(crate) fn is_done_with_request(self) -> bool {
        match self {
            Self::Invite(state) => {
                matches!(state, invite_client::State::Accepted | invite_client::State::Terminated)
            }
            Self::NonInvite(state) => {
                matches!(state, non_invite_client::State::Completed | non_invite_client::State::Terminated)
            }
        }
    }
}

/// Appends the ACK of a failed INVITE (RFC 3261 §17.1.1.3): To from the response, everything else from the sent INVITE.
pub(crate) fn write_ack(invite: &[u8], response: &Message<'_>, out: &mut Vec<u8>) {
    write_companion(invite, Method::Ack, Some(response), None, out);
}

/// Appends the CANCEL of an INVITE (RFC 3261 §9.1).
pub(crate) fn write_cancel(invite: &[u8], reason: Option<&[u8]>, out: &mut Vec<u8>) {
    write_companion(invite, Method::Cancel, None, reason, out);
}

fn write_companion(
    invite: &[u8],
    method: Method<'_>,
    to_of: Option<&Message<'_>>,
    reason: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    let Ok(invite) = Message::parse(invite, &Limits::STORED) else { return };
    let Start::Request { uri, .. } = invite.start() else { return };
    let start = out.len();
    let mut request = MessageWriter::request(out, method, uri.as_bytes());
    if let Some(via) = invite.values(HeaderName::Via).next() {
        request.header(HeaderName::Via, via);
    }
    request.copy(&invite, HeaderName::Route);
    request.header_number(HeaderName::MaxForwards, 70);
    request.copy(&invite, HeaderName::From);
    request.copy(to_of.unwrap_or(&invite), HeaderName::To);
    request.copy(&invite, HeaderName::CallId);
    let number = invite.cseq().number;
    request.header_with(HeaderName::CSeq, |out| {
        ringway_sip::write_number(out, u64::from(number));
        out.push(b' ');
        out.extend_from_slice(method.as_bytes());
    });
    let reasons = reason.unwrap_or_default().split(|&byte| byte == b'\n').filter(|value| !value.is_empty());
    reasons.for_each(|value| {
        request.header(HeaderName::Reason, value);
    });
    if request.finish().is_err() {
        out.truncate(start);
    }
}

/// Bytes of a request. Branches of a fork share the bytes that their requests end with.
#[derive(Debug, Default)]
pub(crate) struct StoredRequest {
    own: Vec<u8>,
    /// Shared bytes, and the position in them at which the rest of the request begins.
    shared: Option<(Arc<[u8]>, usize)>,
}

impl StoredRequest {
    /// Stores bytes without sharing.
    pub(crate) const fn new(own: Vec<u8>) -> Self {
        Self { own, shared: None }
    }

    /// Replaces the end that the request has in common with `original` by a reference, if it is long enough.
    pub(crate) fn share(&mut self, original: &Arc<[u8]>) {
        if self.shared.is_some() || original.len() < SHARED_BYTES_MIN {
            return;
        }
        let pairs = self.own.iter().rev().zip(original.iter().rev());
        let common = pairs.take_while(|(own, original)| own == original).count();
        if common >= SHARED_BYTES_MIN {
            self.own.truncate(self.own.len() - common);
            self.own.shrink_to_fit();
            self.shared = Some((Arc::clone(original), original.len() - common));
        }
    }

    /// Appends the request.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.own);
        if let Some((shared, start)) = &self.shared {
            out.extend_from_slice(shared.get(*start..).unwrap_or_default());
        }
    }

    /// Request in one piece.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        if self.shared.is_none() {
            return Cow::Borrowed(&self.own);
        }
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        Cow::Owned(bytes)
    }

    /// Clears the request and returns its buffer.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.shared = None;
        core::mem::take(&mut self.own)
    }
}

/// Below this length, finding a common end costs more than a copy. Most messages are shorter.
const SHARED_BYTES_MIN: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_end_is_shared_and_reads_back_as_it_was() {
        let body = "x".repeat(5000);
        let original: Arc<[u8]> =
            alloc::format!("INVITE sip:a SIP/2.0\r\nTo: b\r\n\r\n{body}").into_bytes().into();
        let sent = alloc::format!("INVITE sip:c SIP/2.0\r\nVia: v\r\nTo: b\r\n\r\n{body}").into_bytes();
        let mut stored = StoredRequest::new(sent.clone());
        stored.share(&original);
        assert!(stored.own.capacity() < 100 && Arc::strong_count(&original) == 2);
        assert_eq!(stored.bytes().as_ref(), sent);
        stored.take_buffer();
        assert_eq!(Arc::strong_count(&original), 1);
        let mut short = StoredRequest::new(b"short".to_vec());
        short.share(&Arc::from(b"short".as_slice()));
        assert_eq!((short.own.as_slice(), short.shared.is_none()), (b"short".as_slice(), true));
    }
}

//! Dialogs (RFC 3261 §12): state between two user agents, and the route between them.

use crate::draft::{ContactField, Draft, Scope, unfolded};
use crate::next_hop::NextHop;
use crate::{AccountId, Limits, RouteError};
use alloc::vec::Vec;
use ringway_sansio::Flow;
use ringway_sip::{Fields, HeaderName, Message, Method, NameAddr, Uri};

/// State of a dialog.
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    pub(crate) call_id: Vec<u8>,
    pub(crate) local_tag: Vec<u8>,
    /// `None` before the first response that makes a dialog. Empty for the null tag of a peer of RFC 2543 (RFC 3261 §12.1).
    pub(crate) remote_tag: Option<Vec<u8>>,
    /// Local URI with its tag, for From.
    pub(crate) local: Vec<u8>,
    /// Remote URI with its tag if there is one, for To.
    pub(crate) remote: Vec<u8>,
    pub(crate) local_cseq: u32,
    /// `None` before the first request of the peer.
    pub(crate) remote_cseq: Option<u32>,
    /// Remote target.
    pub(crate) target: Vec<u8>,
    /// Route set, the first hop first.
    pub(crate) routes: Vec<Vec<u8>>,
    /// Flow of the peer's last request.
    pub(crate) peer: Option<Flow>,
}

/// Error of a message that cannot create a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoDialog {
    /// No Contact, or none that a request can be sent to.
    Contact,
    /// Too many Record-Route values, or a malformed one.
    Routes,
}

/// Order of an in-dialog request in its dialog (RFC 3261 §12.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Next,
    Late,
}

impl Dialog {
    /// Creates the caller's dialog before the first response.
    pub(crate) fn calling(
        call_id: Vec<u8>,
        local_tag: Vec<u8>,
        local: &[u8],
        to: Vec<u8>,
        target: Vec<u8>,
    ) -> Self {
        let local = [local, b";tag=", &local_tag].concat();
        Self {
            call_id,
            local_tag,
            remote_tag: None,
            local,
            remote: to,
            local_cseq: 1,
            remote_cseq: None,
            target,
            routes: Vec::new(),
            peer: None,
        }
    }

    /// Creates the callee's dialog (RFC 3261 §12.1.1).
    pub(crate) fn called(
        invite: &Message<'_>,
        flow: Flow,
        local_tag: Vec<u8>,
        limits: &Limits,
    ) -> Result<Self, NoDialog> {
        let remote_tag = invite.from().tag().unwrap_or_default().to_vec();
        let to = invite.first(HeaderName::To).map(unfolded).unwrap_or_default();
        Ok(Self {
            call_id: invite.call_id().to_vec(),
            local: [&to[..], b";tag=", &local_tag].concat(),
            local_tag,
            remote_tag: Some(remote_tag),
            remote: invite.first(HeaderName::From).map(unfolded).unwrap_or_default(),
            local_cseq: 0,
            remote_cseq: Some(invite.cseq().number),
            target: target_of(invite).ok_or(NoDialog::Contact)?,
            routes: routes_of(invite, limits)?,
            peer: Some(flow),
        })
    }

    /// Creates the caller's dialog from a response to its INVITE (RFC 3261 §12.1.2), or updates an early one (§13.2.2.4).
    /// Without a Contact the remote target is not changed.
    pub(crate) fn answered(&self, response: &Message<'_>, limits: &Limits) -> Result<Self, NoDialog> {
        let remote_tag = response.to().tag().unwrap_or_default().to_vec();
        let mut routes = routes_of(response, limits)?;
        routes.reverse();
        Ok(Self {
            remote_tag: Some(remote_tag),
            remote: response.first(HeaderName::To).map(unfolded).unwrap_or_default(),
            target: target_of(response).unwrap_or_else(|| self.target.clone()),
            routes,
            ..self.clone()
        })
    }

    /// Updates the remote target from a target refresh (RFC 3261 §12.2).
    pub(crate) fn refresh_target(&mut self, message: &Fields<'_>) {
        if let Some(target) = target_of(message) {
            self.target = target;
        }
    }

    /// True if the next request of this dialog goes out over TLS, and the peer's last one, if any, came over TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        let route = self.routes.first().and_then(|route| NameAddr::parse(route).ok());
        let next = route.map(|route| route.uri).or_else(|| Uri::parse(&self.target).ok());
        let hop = next.and_then(|uri| NextHop::of_uri(&uri).ok());
        hop.is_some_and(|hop| hop.transport.is_secure())
            && self.peer.is_none_or(|flow| flow.transport.is_secure())
    }

    /// Checks and notes the CSeq and the flow of a received request, except ACK and CANCEL.
    pub(crate) fn receive(&mut self, cseq: u32, flow: Flow) -> Order {
        self.peer = Some(flow);
        if self.remote_cseq.is_some_and(|last| cseq <= last) {
            return Order::Late;
        }
        self.remote_cseq = Some(cseq);
        Order::Next
    }

    /// Draft of a request in this dialog (RFC 3261 §12.2.1.1), with the next CSeq.
    pub(crate) fn draft(&mut self, account: AccountId, method: Method<'static>) -> Result<Draft, RouteError> {
        self.local_cseq = self.local_cseq.saturating_add(1);
        let cseq = self.local_cseq;
        self.draft_numbered(account, method, cseq)
    }

    /// Draft of the ACK of a 2xx, with the CSeq number of its INVITE.
    pub(crate) fn ack(&self, account: AccountId, cseq: u32) -> Result<Draft, RouteError> {
        self.draft_numbered(account, Method::Ack, cseq)
    }

    /// True for the Call-ID and the tags of a request of the peer.
    pub(crate) fn has_request(&self, request: &Message<'_>) -> bool {
        let local_tag = request.to().tag().unwrap_or_default();
        self.is(request.call_id(), local_tag, request.from().tag().unwrap_or_default())
    }

    /// True for the Call-ID and the tags of a response to a request in this dialog.
    pub(crate) fn has_response(&self, response: &Message<'_>) -> bool {
        let local_tag = response.from().tag().unwrap_or_default();
        self.is(response.call_id(), local_tag, response.to().tag().unwrap_or_default())
    }

    /// True for this Call-ID and these tags, the local one first; an empty tag is null. Before the first response there is no
    /// dialog, and no message belongs to it.
    fn is(&self, call_id: &[u8], local_tag: &[u8], remote_tag: &[u8]) -> bool {
        self.call_id == call_id && self.local_tag == local_tag && self.has_remote_tag(remote_tag)
    }

    /// True for the Call-ID and the tags of a Replaces header field. There the tag 0 is also the null tag (RFC 3891 §6.1).
    pub(crate) fn is_replaced_by(&self, call_id: &[u8], to_tag: &[u8], from_tag: &[u8]) -> bool {
        let is_null = from_tag == b"0" && self.has_remote_tag(b"");
        self.is(call_id, to_tag, if is_null { b"" } else { from_tag })
    }

    /// True for this remote tag; an empty one is null.
    pub(crate) fn has_remote_tag(&self, remote_tag: &[u8]) -> bool {
        self.remote_tag.as_deref() == Some(remote_tag)
    }

    fn draft_numbered(
        &self,
        account: AccountId,
        method: Method<'static>,
        cseq: u32,
    ) -> Result<Draft, RouteError> {
        let target = Uri::parse(&self.target).map_err(|_| RouteError::Malformed)?;
        let first = self.routes.first().and_then(|route| NameAddr::parse(route).ok());
        let (uri, routes, next_hop) = match first {
            None => (self.target.clone(), Vec::new(), NextHop::of_uri(&target)?),
            Some(route) if route.uri.is_loose_router() => {
                (self.target.clone(), self.routes.clone(), NextHop::of_uri(&route.uri)?)
            }
            // A strict router must be in the Request-URI, and the target in the last Route.
            Some(route) => {
                let mut routes: Vec<_> = self.routes.iter().skip(1).cloned().collect();
                routes.push([&b"<"[..], &self.target, b">"].concat());
                (route.uri.as_bytes().to_vec(), routes, NextHop::of_uri(&route.uri)?)
            }
        };
        Ok(Draft {
            account,
            method,
            uri,
            routes,
            from: self.local.clone(),
            to: self.remote.clone(),
            call_id: self.call_id.clone(),
            cseq,
            contact: ContactField::None,
            fields: Vec::new(),
            body: None,
            next_hop,
            scope: Scope::InDialog,
            peer: self.peer,
        })
    }
}

/// URI of the first Contact, if a request can be sent to it.
fn target_of(message: &Fields<'_>) -> Option<Vec<u8>> {
    let contact = NameAddr::parse(message.values(HeaderName::Contact).next()?).ok()?;
    contact.uri.is_sip().then(|| contact.uri.as_bytes().to_vec())
}

/// Record-Route values in their order.
fn routes_of(message: &Fields<'_>, limits: &Limits) -> Result<Vec<Vec<u8>>, NoDialog> {
    let mut routes = Vec::new();
    for value in message.values(HeaderName::RecordRoute) {
        if routes.len() >= limits.routes_max || NameAddr::parse(value).is_err() {
            return Err(NoDialog::Routes);
        }
        routes.push(unfolded(value));
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;
    use ringway_sansio::{ListenerId, Transport};

    #[test]
    fn a_dialog_uses_tls_only_with_tls_in_both_directions() {
        let uses_tls = |target: &str, route: Option<&str>, peer: Option<Transport>| {
            let mut dialog = Dialog::calling(
                b"c".to_vec(),
                b"t".to_vec(),
                b"<sip:a@h>",
                b"<sip:b@h>".to_vec(),
                target.into(),
            );
            dialog.routes.extend(route.map(Vec::from));
            let address = SocketAddr::from(([192, 0, 2, 1], 5060));
            dialog.peer = peer.map(|transport| Flow { transport, ..Flow::udp(ListenerId(0), address) });
            dialog.uses_tls()
        };
        let (tls, plain) = ("sip:b@192.0.2.2;transport=tls", "sip:b@192.0.2.2");
        assert!(uses_tls(tls, None, None) && uses_tls("sips:b@192.0.2.2", None, Some(Transport::Tls)));
        assert!(!uses_tls(plain, None, None) && !uses_tls("sip:", None, None));
        assert!(uses_tls(plain, Some("<sip:192.0.2.1;transport=tls;lr>"), Some(Transport::Tls)));
        assert!(!uses_tls(tls, Some("<sip:192.0.2.1;lr>"), Some(Transport::Tls)), "the first hop counts");
        assert!(!uses_tls(tls, None, Some(Transport::Udp)) && !uses_tls(tls, None, Some(Transport::Tcp)));
    }
}

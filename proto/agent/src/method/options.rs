//! OPTIONS (RFC 3261 §11), asked and answered.

use crate::draft::{ContactField, Draft, Scope};
use crate::next_hop::preloaded_route;
use crate::request::reply::{IncomingRequest, add_abilities, add_contact};
use crate::session::SDP;
use crate::{AccountId, Action, CallError, QueryId, RouteError, UserAgent};
use ringway_sansio::Context;
use ringway_sip::{HeaderName, Method, Uri};

impl UserAgent {
    /// Asks what `target` can do, or only whether it is there. The answer is an
    /// [`AgentEvent::QueryAnswered`](crate::AgentEvent::QueryAnswered).
    pub fn query(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        target: &str,
    ) -> Result<QueryId, CallError> {
        let added_from = cx.out.len();
        let result = self.send_query(cx, account, target);
        self.settle(cx, added_from);
        result
    }

    fn send_query(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: AccountId,
        target: &str,
    ) -> Result<QueryId, CallError> {
        let target = self.full_target(id, target)?;
        let (call_id, tag) = (self.shared.random.new_call_id(), self.shared.random.new_tag());
        let account = self.shared.config.account(id).ok_or(CallError::NoAccount)?;
        let uri = Uri::parse(&target).map_err(|_| CallError::Route(RouteError::Malformed))?;
        let next_hop = account.next_hop_to(&uri).map_err(CallError::Route)?;
        let routes = account.server.as_ref().map(|server| preloaded_route(server, &next_hop));
        let draft = Draft {
            account: id,
            method: Method::Options,
            routes: routes.unwrap_or_default(),
            from: [&account.name_addr()[..], b";tag=", &tag].concat(),
            to: [b"<", &target[..], b">"].concat(),
            uri: target,
            call_id,
            cseq: 1,
            contact: ContactField::Target,
            fields: alloc::vec![(HeaderName::Accept, SDP.as_bytes().to_vec())],
            body: None,
            next_hop,
            scope: Scope::OutsideDialog,
            peer: None,
        };
        self.requests.query(&mut self.shared.lend(cx), draft).map_err(|why| CallError::NotSent(why.reason()))
    }

    /// Inside a dialog or not, it changes nothing.
    pub(super) fn on_options(&mut self, cx: &mut Context<'_, Action>, incoming: &IncomingRequest<'_, '_>) {
        let is_in_dialog = incoming.message.to().tag().is_some();
        let account = if is_in_dialog {
            let Some(id) = self.call_in_order(cx, incoming) else { return };
            self.call_at(id).map(|call| call.account)
        } else {
            self.account_for(&incoming.uri)
        };
        let Some(account) = account else {
            return self.requests.refuse(&mut self.shared.lend(cx), incoming, 404, "Not Found");
        };
        self.requests.respond(&mut self.shared.lend(cx), incoming, 200, "OK", None, |response, config| {
            add_contact(response, config, account, incoming.flow);
            add_abilities(response);
            response.header(HeaderName::Accept, b"application/sdp, message/sipfrag");
            None
        });
    }
}

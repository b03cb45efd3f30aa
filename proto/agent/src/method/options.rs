//! OPTIONS (RFC 3261 §11), asked and answered.

use crate::call::CallError;
use crate::reply::{Asked, add_abilities, add_contact};
use crate::request::{ContactField, Draft, Purpose};
use crate::session::SDP;
use crate::{AccountId, Action, NoWay, QueryId, UserAgent};
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
        let (call_id, tag) = (self.new_call_id(), self.new_tag());
        let account = self.config.account(id).ok_or(CallError::NoAccount)?;
        let uri = Uri::parse(&target).map_err(|_| CallError::NoWay(NoWay::Malformed))?;
        let way = account.way_to(&uri).map_err(CallError::NoWay)?;
        let routes = account.server.as_ref().map(|server| crate::account::preloaded_route(server, &way));
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
            way,
            is_in_dialog: false,
            peer: None,
        };
        let query = QueryId(self.next_query);
        self.next_query += 1;
        self.submit(cx, draft, Purpose::Query(query)).map_err(|why| CallError::NotSent(why.reason()))?;
        Ok(query)
    }

    /// Inside a dialog or not, it changes nothing.
    pub(super) fn on_options(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        let is_in_dialog = asked.message.to().tag().is_some();
        let account = if is_in_dialog {
            let Some(id) = self.call_in_order(cx, asked) else { return };
            self.call_at(id).map(|call| call.account)
        } else {
            self.account_for(&asked.uri)
        };
        let Some(account) = account else { return self.refuse(cx, asked, 404, "Not Found") };
        self.respond(cx, asked, 200, "OK", None, |response, config| {
            add_contact(response, config, account, asked.flow);
            add_abilities(response);
            response.header(HeaderName::Accept, b"application/sdp, message/sipfrag");
            None
        });
    }
}

//! OPTIONS (RFC 3261 §11), asked and answered.

use crate::agent::Out;
use crate::call::CallError;
use crate::reply::{Asked, add_abilities, add_contact};
use crate::request::{ContactField, Draft, Purpose};
use crate::session::SDP;
use crate::{AccountId, Action, NoWay, QueryId, UserAgent};
use alloc::vec::Vec;
use ringway_sansio::{Instant, Outbox};
use ringway_sip::{HeaderName, Method, Uri};

impl UserAgent {
    /// Asks what `target` can do, or only whether it is there. The answer is an
    /// [`AgentEvent::QueryAnswered`](crate::AgentEvent::QueryAnswered).
    pub fn query(
        &mut self,
        now: Instant,
        account: AccountId,
        target: &str,
        packets: &mut Outbox,
        actions: &mut Vec<Action>,
    ) -> Result<QueryId, CallError> {
        let mut out = Out::new(packets, actions);
        let result = self.send_query(now, account, target, &mut out);
        self.settle(now, &mut out);
        result
    }

    fn send_query(
        &mut self,
        now: Instant,
        id: AccountId,
        target: &str,
        out: &mut Out<'_>,
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
        self.submit(now, draft, Purpose::Query(query), out)
            .map_err(|why| CallError::NotSent(why.reason()))?;
        Ok(query)
    }

    /// Inside a dialog or not, it changes nothing.
    pub(super) fn on_options(&mut self, asked: &Asked<'_, '_>, out: &mut Out<'_>) {
        let is_in_dialog = asked.message.to().tag().is_some();
        let account = if is_in_dialog {
            let Some(id) = self.call_in_order(asked, out) else { return };
            self.call_at(id).map(|call| call.account)
        } else {
            self.account_for(&asked.uri)
        };
        let Some(account) = account else { return self.refuse(asked, 404, "Not Found", out) };
        self.respond(asked, 200, "OK", None, out, |response, config| {
            add_contact(response, config, account, asked.flow);
            add_abilities(response);
            response.header(HeaderName::Accept, b"application/sdp, message/sipfrag");
            None
        });
    }
}

//! Requests that come: what is the same for all, then one file a method.

mod bye;
mod cancel;
mod invite;
mod notify;
mod options;
mod refer;
mod update;

use crate::account::challenge::unfolded;
use crate::call::CallId;
use crate::dialog::Order;
use crate::reply::{ALLOW, Asked, SUPPORTED};
use crate::{AccountId, Action, UserAgent};
use alloc::vec::Vec;
use ringway_sansio::{Context, Flow};
use ringway_sip::{HeaderName, Message, Method, Scheme, Uri, grammar};
use ringway_transaction::Incoming;

impl UserAgent {
    /// A well-formed request.
    pub(crate) fn on_request(
        &mut self,
        cx: &mut Context<'_, Action>,
        message: &Message<'_>,
        method: Method<'_>,
        uri: Uri<'_>,
        flow: Flow,
    ) {
        let key = match self.transactions.receive_request(cx, message) {
            Incoming::Absorbed => return,
            Incoming::AckOfSuccess(_) => return self.on_ack(cx, message),
            Incoming::New(_) if method == Method::Ack => return self.on_ack(cx, message),
            Incoming::New(key) => key,
        };
        let asked = Asked { message, method, uri, flow, key, server: None };
        if method == Method::Cancel {
            return self.on_cancel(cx, &asked);
        }
        if uri.scheme() != Scheme::Sip {
            return self.refuse(cx, &asked, 416, "Unsupported URI Scheme");
        }
        if !self.understands(cx, &asked) {
            return;
        }
        match method {
            Method::Invite => self.on_invite(cx, &asked),
            Method::Bye => self.on_bye(cx, &asked),
            Method::Options => self.on_options(cx, &asked),
            Method::Update => self.on_update(cx, &asked),
            Method::Refer => self.on_refer(cx, &asked),
            Method::Notify => self.on_notify(cx, &asked),
            Method::Register
            | Method::Prack
            | Method::Info
            | Method::Message
            | Method::Subscribe
            | Method::Publish => self.refuse_method(cx, &asked, 405, "Method Not Allowed"),
            Method::Ack | Method::Cancel => {}
            Method::Other(_) => self.refuse_method(cx, &asked, 501, "Not Implemented"),
        }
    }

    /// RFC 3261 §8.2.2.3: refuses what requires something that is not here.
    fn understands(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) -> bool {
        let foreign: Vec<Vec<u8>> = asked
            .message
            .values(HeaderName::Require)
            .filter(|option| !option.eq_ignore_ascii_case(SUPPORTED))
            .map(unfolded)
            .collect();
        if foreign.is_empty() {
            return true;
        }
        self.refuse_with(cx, asked, 420, "Bad Extension", |response| {
            for option in &foreign {
                response.header(HeaderName::Unsupported, option);
            }
        });
        false
    }

    fn refuse_method(
        &mut self,
        cx: &mut Context<'_, Action>,
        asked: &Asked<'_, '_>,
        status: u16,
        phrase: &str,
    ) {
        self.refuse_with(cx, asked, status, phrase, |response| {
            response.header(HeaderName::Allow, ALLOW);
        });
    }

    /// The call of an in-dialog request whose turn it is; `None` when it was refused.
    pub(crate) fn call_in_order(
        &mut self,
        cx: &mut Context<'_, Action>,
        asked: &Asked<'_, '_>,
    ) -> Option<CallId> {
        let Some(id) = self.call_of(asked.message) else {
            self.refuse(cx, asked, 481, "Call/Transaction Does Not Exist");
            return None;
        };
        let (message, cseq) = (asked.message, asked.message.cseq().number);
        let order = self.call_mut(id).map(|call| call.dialog_of(message).receive(cseq, asked.flow));
        if order != Some(Order::Next) {
            self.refuse(cx, asked, 500, "Out Of Order");
            return None;
        }
        Some(id)
    }

    /// The account that a Request-URI is for: the one with its user. A URI without a user is for the first.
    pub(crate) fn account_for(&self, uri: &Uri<'_>) -> Option<AccountId> {
        let Some(user) = uri.user() else {
            return (!self.config.accounts.is_empty()).then_some(AccountId(0));
        };
        let mut wanted = Vec::new();
        grammar::unescape_into(user, &mut wanted);
        let is_it = |account: &crate::Account| {
            let mut own = Vec::new();
            grammar::unescape_into(account.user().unwrap_or_default(), &mut own);
            own == wanted
        };
        self.config.accounts.iter().position(is_it).map(AccountId)
    }
}

//! Requests that come: what is the same for all, then one file a method.

mod bye;
mod cancel;
mod invite;
mod notify;
mod options;
mod refer;
mod update;

use crate::account::challenge::unfolded;
use crate::agent::Out;
use crate::call::CallId;
use crate::dialog::Order;
use crate::reply::{ALLOW, Asked, SUPPORTED};
use crate::{AccountId, UserAgent};
use alloc::vec::Vec;
use ringway_sansio::{Flow, Instant};
use ringway_sip::{HeaderName, Message, Method, Scheme, Uri, grammar};
use ringway_transaction::Incoming;

impl UserAgent {
    /// A well-formed request.
    pub(crate) fn on_request(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        method: Method<'_>,
        uri: Uri<'_>,
        flow: Flow,
        out: &mut Out<'_>,
    ) {
        let key = match self.transactions.receive_request(now, message, out.packets) {
            Incoming::Absorbed => return,
            Incoming::AckOfSuccess(_) => return self.on_ack(now, message, out),
            Incoming::New(_) if method == Method::Ack => return self.on_ack(now, message, out),
            Incoming::New(key) => key,
        };
        let asked = Asked { now, message, method, uri, flow, key, server: None };
        if method == Method::Cancel {
            return self.on_cancel(&asked, out);
        }
        if uri.scheme() != Scheme::Sip {
            return self.refuse(&asked, 416, "Unsupported URI Scheme", out);
        }
        if !self.understands(&asked, out) {
            return;
        }
        match method {
            Method::Invite => self.on_invite(&asked, out),
            Method::Bye => self.on_bye(&asked, out),
            Method::Options => self.on_options(&asked, out),
            Method::Update => self.on_update(&asked, out),
            Method::Refer => self.on_refer(&asked, out),
            Method::Notify => self.on_notify(&asked, out),
            Method::Register
            | Method::Prack
            | Method::Info
            | Method::Message
            | Method::Subscribe
            | Method::Publish => self.refuse_method(&asked, 405, "Method Not Allowed", out),
            Method::Ack | Method::Cancel => {}
            Method::Other(_) => self.refuse_method(&asked, 501, "Not Implemented", out),
        }
    }

    /// RFC 3261 §8.2.2.3: refuses what requires something that is not here.
    fn understands(&mut self, asked: &Asked<'_, '_>, out: &mut Out<'_>) -> bool {
        let foreign: Vec<Vec<u8>> = asked
            .message
            .values(HeaderName::Require)
            .filter(|option| !option.eq_ignore_ascii_case(SUPPORTED))
            .map(unfolded)
            .collect();
        if foreign.is_empty() {
            return true;
        }
        self.refuse_with(asked, 420, "Bad Extension", out, |response| {
            for option in &foreign {
                response.header(HeaderName::Unsupported, option);
            }
        });
        false
    }

    fn refuse_method(&mut self, asked: &Asked<'_, '_>, status: u16, phrase: &str, out: &mut Out<'_>) {
        self.refuse_with(asked, status, phrase, out, |response| {
            response.header(HeaderName::Allow, ALLOW);
        });
    }

    /// The call of an in-dialog request whose turn it is; `None` when it was refused.
    pub(crate) fn call_in_order(&mut self, asked: &Asked<'_, '_>, out: &mut Out<'_>) -> Option<CallId> {
        let Some(id) = self.call_of(asked.message) else {
            self.refuse(asked, 481, "Call/Transaction Does Not Exist", out);
            return None;
        };
        let (message, cseq) = (asked.message, asked.message.cseq().number);
        let order = self.call_mut(id).map(|call| call.dialog_of(message).receive(cseq, asked.flow));
        if order != Some(Order::Next) {
            self.refuse(asked, 500, "Out Of Order", out);
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

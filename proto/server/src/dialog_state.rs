//! Dialog state of forwarded calls: the steps of calls of watched users, for `dialog` documents of users whose phones publish none.
//!
//! While presence is off a step costs one branch. Of calls whose users nobody watches, an INVITE costs a keyed hash of each of its
//! users that is ours, and a BYE, an UPDATE or a re-INVITE one of its Call-ID, and that only while anybody watches, or has an open call, at all.

use crate::base::{Env, Reach, Request};
use crate::dialog::route::Routed;
use crate::policy::proven_sender;
use crate::tables::{DialogStates, NewLeg, NotShown, Role};
use crate::{Action, Aor};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sip::grammar::number_u32;
use ringway_sip::{HeaderName, Limits, Message};
use ringway_transaction::SlabKey;

/// Entries of a forwarded INVITE in the table of lamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownDialogs {
    caller: Option<SlabKey>,
    callee: Option<SlabKey>,
}

/// Target that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A phone of the called user.
    OfCallee,
    /// That of a forward or a redirection.
    OfOther,
}

/// Sides for which a BYE ends a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Both,
    /// That which sent it.
    Sender,
}

/// Begins the calls of the two users of an INVITE, if they are watched. With `is_diverted` the called user's phones are not called.
#[inline]
pub(crate) fn begin(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    is_diverted: bool,
) -> Option<Box<ShownDialogs>> {
    if env.config.presence.is_on() { begin_watched(env, request, routed, is_diverted) } else { None }
}

#[inline(never)]
fn begin_watched(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    is_diverted: bool,
) -> Option<Box<ShownDialogs>> {
    let filter = env.tables.dialog_state_filter();
    if !filter.is_watching() {
        return None;
    }
    let message = request.message;
    let from_tag = message.from().tag().filter(|_| message.to().tag().is_none())?;
    let mut callee = Aor::default();
    let reaches_users = match request.grant.reach {
        Reach::Anywhere | Reach::OurUsers => routed.next_route.is_none() && routed.is_of_domains,
        Reach::Side(_) | Reach::User | Reach::Flow(_) => false,
    };
    let is_callee = reaches_users
        && !is_diverted
        && env.config.read_target(&routed.uri, &mut callee)
        && filter.may_watch(callee.as_bytes());
    let caller = proven_sender(env, request).filter(|caller| filter.may_watch(caller.as_bytes()));
    if !is_callee && caller.is_none() {
        return None;
    }
    let is_private = message.has(HeaderName::Privacy);
    let shown = |uri| if is_private { &[][..] } else { uri };
    let call_id = message.call_id();
    let new = |user, role, remote| NewLeg { user, role, remote, call_id, from_tag };
    let mut dialogs = ShownDialogs { caller: None, callee: None };
    let mut refused = 0;
    step(env, |table, now, changed| {
        let before = table.displaced();
        let mut add = |leg: NewLeg<'_>| match table.begin(now, &leg, changed) {
            Ok(key) => Some(key),
            Err(NotShown::Unwatched) => None,
            Err(NotShown::Limit) => {
                refused += 1;
                None
            }
        };
        if let Some(caller) = &caller {
            dialogs.caller = add(new(caller, Role::Initiator, message.to().uri.as_bytes()));
        }
        if is_callee {
            dialogs.callee = add(new(&callee, Role::Recipient, shown(message.from().uri.as_bytes())));
        }
        refused += table.displaced() - before;
    });
    env.counters.lamps_lit += u64::from(dialogs.caller.is_some()) + u64::from(dialogs.callee.is_some());
    env.counters.lamps_refused += refused;
    (dialogs.caller.is_some() || dialogs.callee.is_some()).then(|| Box::new(dialogs))
}

/// Handles a provisional response.
pub(crate) fn on_ringing(env: &mut Env<'_>, shown: &ShownDialogs) {
    step(env, |table, now, changed| shown.keys().for_each(|key| table.ring(now, key, changed)));
}

/// Handles the answer.
pub(crate) fn on_answer(env: &mut Env<'_>, shown: &ShownDialogs, answer: Answer, response: &Message<'_>) {
    let (to_tag, until) = (response.to().tag().unwrap_or_default(), end_of(env, response));
    step(env, |table, now, changed| {
        if let Some(caller) = shown.caller {
            table.answer(now, caller, to_tag, until, changed);
        }
        match (shown.callee, answer) {
            (Some(callee), Answer::OfCallee) => table.answer(now, callee, to_tag, until, changed),
            (Some(callee), Answer::OfOther) => table.end_unanswered(now, callee, changed),
            (None, _) => {}
        }
    });
}

/// Ends the part of the called user: its phones are not called any more.
pub(crate) fn end_callee(env: &mut Env<'_>, shown: &ShownDialogs) {
    if let Some(callee) = shown.callee {
        step(env, |table, now, changed| table.end_unanswered(now, callee, changed));
    }
}

/// Ends a call, unless it was answered.
pub(crate) fn end_unanswered(env: &mut Env<'_>, shown: &ShownDialogs) {
    step(env, |table, now, changed| shown.keys().for_each(|key| table.end_unanswered(now, key, changed)));
}

/// Ends the calls that a BYE ends, of its sender or of both sides.
pub(crate) fn end_dialog(env: &mut Env<'_>, bye: &[u8], ended: Ended) {
    if !has_calls(env) {
        return;
    }
    let Ok(bye) = Message::parse(bye, &Limits::STORED) else { return };
    let tags = (bye.from().tag().unwrap_or_default(), bye.to().tag().unwrap_or_default());
    if may_have(env, bye.call_id()) {
        step(env, |table, now, changed| match ended {
            Ended::Both => table.end_dialog(now, bye.call_id(), tags, changed),
            Ended::Sender => table.end_side(now, bye.call_id(), tags, changed),
        });
    }
}

/// Handles the 2xx of an INVITE or an UPDATE, which refreshes the session (RFC 4028).
pub(crate) fn refresh(env: &mut Env<'_>, response: &Message<'_>) {
    if !has_calls(env) || !may_have(env, response.call_id()) {
        return;
    }
    let until = end_of(env, response);
    let tags = (response.from().tag().unwrap_or_default(), response.to().tag().unwrap_or_default());
    step(env, |table, now, changed| table.extend(now, response.call_id(), tags, until, changed));
}

impl ShownDialogs {
    fn keys(&self) -> impl Iterator<Item = SlabKey> {
        self.caller.into_iter().chain(self.callee)
    }
}

fn has_calls(env: &Env<'_>) -> bool {
    env.config.presence.is_on() && env.tables.dialog_state_filter().has_calls()
}

fn may_have(env: &Env<'_>, call_id: &[u8]) -> bool {
    env.tables.dialog_state_filter().may_have(call_id)
}

/// Changes the table, and has the shards of the changed users notify their watchers.
fn step(env: &mut Env<'_>, change: impl FnOnce(&mut DialogStates, Instant, &mut Vec<Aor>)) {
    let (now, mut changed, mut change) = (env.cx.now, Vec::new(), Some(change));
    env.tables.change_dialog_states((), |table| {
        if let Some(change) = change.take() {
            change(table, now, &mut changed);
        }
    });
    env.cx.actions.extend(changed.into_iter().map(|user| Action::CallsChanged { user }));
}

/// Latest end of the session of this 2xx: its session interval, if it has one, and the time for the BYE after it.
pub(crate) fn end_of(env: &Env<'_>, response: &Message<'_>) -> Instant {
    let longest = env.config.dialog_lifetime;
    let interval = response.named(b"Session-Expires").or_else(|| response.named(b"x"));
    let interval = interval.and_then(|value| {
        let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
        number_u32(value.get(..end)?)
    });
    let session = interval.map_or(longest, |seconds| {
        Duration::from_secs(u64::from(seconds.max(SESSION_MIN_S))) + AFTER_SESSION
    });
    env.cx.now + session.min(longest)
}

/// Shortest session interval in seconds (RFC 4028 §4); a smaller number would put out a lamp during the call.
const SESSION_MIN_S: u32 = 90;
/// Time after the end of a session interval within which the phones end the call (RFC 4028 §10).
const AFTER_SESSION: Duration = Duration::from_secs(32);

//! 100 Trying to the caller of an INVITE: at once, or, to another node, when the phone sends one.

use super::context::Contexts;
use crate::base::{Env, Transactions};
use ringway_sansio::Flow;
use ringway_sip::{Limits, Message, MessageWriter};
use ringway_transaction::{ServerId, SlabKey};

/// Answers an INVITE that was accepted (RFC 3261 §16.2), so that the caller stops retransmitting. Over a link nothing is retransmitted, and
/// the first response of the phone replaces it: it usually follows within the time that RFC 3261 §17.2.1 permits.
pub(super) fn on_invite(
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    server: ServerId,
    (message, source): (&Message<'_>, Flow),
) {
    if !env.config.is_link(&source) {
        answer(env, transactions, server, (message, source));
    }
}

/// Answers the INVITE of another node with 100 because the first response of its target is one: the node gives up after 64·T1 without
/// a response, as this one does, and can cancel only after one.
pub(super) fn on_first_response(
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    contexts: &Contexts,
    key: SlabKey,
) {
    let Some(context) = contexts.get(key).filter(|context| context.is_invite) else { return };
    let Some(bytes) = context.request.as_deref().filter(|_| env.config.is_link(&context.source)) else {
        return;
    };
    if let Ok(message) = &Message::parse(bytes, &Limits::STORED) {
        answer(env, transactions, context.server, (message, context.source));
    }
}

fn answer(
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    server: ServerId,
    (message, source): (&Message<'_>, Flow),
) {
    transactions.respond(&mut env.cx, server, 100, |arena| {
        let _ = MessageWriter::answer(arena, message, 100, "Trying", source.remote, None).finish();
    });
}

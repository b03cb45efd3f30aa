//! STUN at the port of SIP: keep-alives of phones behind NAT (RFC 5626 §3.5.2, §8).

use super::admission::is_source_blocked;
use crate::Traffic;
use crate::base::Env;
use ringway_sansio::{Flow, Token};
use ringway_stun::{Message, write_answer};
use ringway_transaction::may_send_to;

/// Answers a Binding request, within its rate of the source, and drops everything else.
pub(super) fn on_stun(env: &mut Env<'_>, flow: Flow, bytes: &[u8]) {
    let source = flow.remote;
    if is_source_blocked(env, &flow) {
        return;
    }
    // Anybody can send it with any address: only what is answered counts.
    if source.port() == 0 || !may_send_to(source.ip()) || Message::parse(bytes).is_err() {
        env.counters.stun_dropped += 1;
        return;
    }
    if !env.tables.admit(env.cx.now, source.ip(), Traffic::Stun) {
        env.counters.over_rate += 1;
        return;
    }
    let mut is_answered = false;
    env.cx.out.send_with(flow, Token::NONE, |arena| {
        is_answered = write_answer(bytes, source, arena).is_ok();
    });
    match is_answered {
        true => env.counters.stun_answered += 1,
        false => env.counters.stun_dropped += 1,
    }
}

//! STUN at the port of SIP: keep-alives of phones behind NAT (RFC 5626 §3.5.2, §8).

use crate::Services;
use crate::env::Env;
use ringway_sansio::{Flow, Token, Transport};
use ringway_stun::write_answer;
use ringway_transaction::may_send_to;

/// True for a datagram that begins as a STUN message: no SIP message does.
pub(super) fn is_stun(flow: &Flow, bytes: &[u8]) -> bool {
    matches!(bytes, [0 | 1, ..]) && flow.transport == Transport::Udp
}

/// Answers a Binding request, within the rate of its source, and drops everything else.
pub(super) fn on_stun(env: &mut Env<'_, impl Services>, flow: Flow, bytes: &[u8]) {
    let source = flow.remote;
    if super::is_source_blocked(env, &flow) {
        return;
    }
    if !env.services.admit(env.cx.now, source.ip()) {
        env.counters.over_rate += 1;
        return;
    }
    if source.port() == 0 || !may_send_to(source.ip()) {
        env.counters.stun_dropped += 1;
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

//! Ends of calls: the BYEs that end one, reported when they are answered, to records and lamps.

use super::context::Contexts;
use crate::base::{Env, Grant, Reach, Sender};
use crate::lamp::{self, Ended};
use crate::{CallEvent, CallStep, Config, LogEvent};
use ringway_transaction::SlabKey;

/// Effect of a BYE with its final response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Ends,
    /// Its sender has hung up, and the other side may lie.
    EndsForSender,
    Nothing,
}

/// Reports the end of a call, if the request of the context is a BYE that ends one with this final response.
pub(super) fn observe(env: &mut Env<'_>, contexts: &Contexts, key: SlabKey, status: u16) {
    let Some(context) = contexts.get(key) else { return };
    let bye = context.request.as_deref().filter(|request| request.starts_with(b"BYE "));
    let Some(message) = bye else { return };
    let (step, ended) = match effect(env.config, &context.grant, status) {
        Effect::Ends => (CallStep::Bye, Ended::Both),
        Effect::EndsForSender => (CallStep::ByeRefused(status), Ended::Sender),
        Effect::Nothing => return,
    };
    let sender = context.grant.sender.of_call();
    let (flow, name) = (Some(context.source), context.call.as_deref());
    let event = CallEvent { flow, name, ..CallEvent::stored(step, message, sender) };
    env.observe(&LogEvent::Call(event));
    lamp::end_dialog(env, message, ended);
}

/// RFC 3261 §15.1.1: a call ends by a BYE with 2xx, 481, 408 and silence; here also if a side cannot be reached any more. Another response ends
/// it for the sender of the BYE only, which sends nothing in the call from then on if it keeps to the RFC: it may also have provoked the
/// response, by an old CSeq number, and talk on.
///
/// The password of a user is no proof that a BYE goes to the other side of its call: only the mark of the dialog is, if this server
/// sets marks.
const fn effect(config: &Config, grant: &Grant, status: u16) -> Effect {
    let goes_to_side = match (grant.reach, grant.sender) {
        (Reach::Side(_) | Reach::User | Reach::Flow(_), _) | (_, Sender::Trusted | Sender::Believed) => true,
        (Reach::Anywhere | Reach::OurUsers, _) => !config.record_route,
    };
    match status {
        _ if !goes_to_side => Effect::Nothing,
        200..=299 | 408 | 430 | 480 | 481 => Effect::Ends,
        300.. => Effect::EndsForSender,
        _ => Effect::Nothing,
    }
}

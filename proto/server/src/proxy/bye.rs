//! Ends of calls: the BYEs that end one, reported when they are answered, to records and lamps.

use super::context::Contexts;
use crate::auth::{Grant, Reach, Sender};
use crate::env::Env;
use crate::lamp;
use crate::{CallEvent, CallStep, Config, LogEvent, Services};
use ringway_transaction::SlabKey;

/// Reports the end of a call, if the request of the context is a BYE that ends one with this final response.
pub(super) fn observe(env: &mut Env<'_, impl Services>, contexts: &Contexts, key: SlabKey, status: u16) {
    let Some(context) = contexts.get(key) else { return };
    let bye = context.request.as_deref().filter(|request| request.starts_with(b"BYE "));
    if let Some(message) = bye
        && ends_call(env.config, &context.grant, status)
    {
        let sender = context.grant.sender.of_call();
        let event =
            CallEvent { flow: Some(context.source), ..CallEvent::stored(CallStep::Bye, message, sender) };
        env.services.observe(env.cx.now, &LogEvent::Call(event));
        lamp::end_dialog(env, message);
    }
}

/// True if a BYE with this final response ends its call. RFC 3261 §15.1.1: 2xx, 481, 408 and silence do; here also a side that cannot
/// be reached any more.
///
/// The password of a user is no proof that a BYE goes to the other side of its call: only the mark of the dialog is, if this server
/// sets marks.
const fn ends_call(config: &Config, grant: &Grant, status: u16) -> bool {
    let goes_to_side = match (grant.reach, grant.sender) {
        (Reach::Side(_) | Reach::Flow(_), _) | (_, Sender::Trusted | Sender::Believed) => true,
        (Reach::Anywhere | Reach::OurUsers, _) => !config.record_route,
    };
    goes_to_side && matches!(status, 200..=299 | 408 | 430 | 480 | 481)
}

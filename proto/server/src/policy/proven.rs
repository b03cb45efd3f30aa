//! User that a request is of.

use crate::Aor;
use crate::base::{Env, Request, Sender};

/// User whose password the sender of a request proved, or whom a trusted proxy names; `None` for anybody else. A trunk names
/// callers, who are no users of ours.
pub(crate) fn proven_sender(env: &Env<'_>, request: &Request<'_, '_>) -> Option<Aor> {
    let is_proven = match request.grant.sender {
        Sender::Proven | Sender::Believed => true,
        Sender::Trusted => !env.config.trunking.is_trunk(request.source()),
        Sender::ProvenUnnamed | Sender::InDialog | Sender::Stranger | Sender::Unknown => false,
    };
    let mut aor = Aor::default();
    let is_user = env.config.read_aor(&request.message.from().uri, &mut aor);
    (is_proven && is_user).then_some(aor)
}

//! Messages that stages replace: requests and responses of branches whose media, header fields or topology they change.

use super::{has_media, headers, relays};
use crate::base::{BranchId, Env, Response};
use crate::proxy::call::MessageStep;
use crate::proxy::context::{Branch, ResponseContext};
use crate::token::caller_uri::with_value;
use alloc::vec::Vec;
use ringway_sansio::RelayResult;
use ringway_sip::{Limits, Message};

/// Request of a branch in place of the one that came.
pub(in crate::proxy) fn replaced(context: &ResponseContext, number: usize) -> Option<Vec<u8>> {
    let branch = context.branches.get(number).filter(|branch| has_media(branch))?;
    relays::offer_of(context, branch)
}

/// Handles the result of a relay for the request of a branch. True: the branch is sent.
pub(in crate::proxy) fn offered(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    result: Option<RelayResult>,
) -> bool {
    cfg!(feature = "operator") && relays::offered(env, context, id, result)
}

/// A response with the header fields that its request had, and those that it is to have; `None`: it stays as it came.
pub(in crate::proxy) fn as_received(
    env: &mut Env<'_>,
    branch: Option<&Branch>,
    response: &Response<'_, '_>,
) -> Option<Vec<u8>> {
    let branch = branch.filter(|_| cfg!(feature = "operator"));
    let mut bytes = None;
    if let Some((name, value)) = branch.and_then(|branch| branch.came.as_deref()) {
        bytes = changed(bytes, response, |response| with_value(response.message, *name, value));
    }
    if env.features.header_rules() {
        bytes = changed(bytes, response, |response| headers::received(env, branch, response));
    }
    bytes
}

/// A response, which has these bytes by now, after one more change.
fn changed(
    bytes: Option<Vec<u8>>,
    response: &Response<'_, '_>,
    change: impl FnOnce(&Response<'_, '_>) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let parsed = bytes.as_deref().and_then(|bytes| Message::parse(bytes, &Limits::STORED).ok());
    let message = parsed.as_ref().unwrap_or(response.message);
    change(&Response { message, ..*response }).or(bytes)
}

/// The same for a response that was stored, from the result of its query.
pub(in crate::proxy) fn answered(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    query: u64,
    id: BranchId,
    response: &Response<'_, '_>,
    result: Option<RelayResult>,
) -> MessageStep {
    relays::answered(env, context, query, id, response, result)
}

//! MESSAGE that no phone of its user took, for those that are kept; and the way to a phone.

use super::candidate::Candidate;
use super::context::Waiting;
use super::rewrite::Rewrite;
use super::serial::TimeLimit;
use super::targets::Targets;
use super::{Proxy, context::ResponseContext, decided};
use crate::base::{Env, Grant, Transactions};
use crate::location::{Offer, path_values};
use crate::route::{NextHop, hop_of};
use crate::{Config, Detail, Reason};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::{Flow, TimerKey};
use ringway_sip::Uri;
use ringway_transaction::SlabKey;

/// Request that no phone of its user took.
#[derive(Debug)]
pub(crate) struct Unreached {
    pub(crate) request: Arc<[u8]>,
    pub(crate) flow: Flow,
    pub(crate) grant: Grant,
    pub(crate) candidate: Candidate,
}

/// Way to the phone of a binding.
#[derive(Clone, Debug)]
pub(crate) struct BindingHop {
    /// Request-URI.
    pub(crate) uri: Vec<u8>,
    /// Values of Route.
    pub(crate) routes: Vec<Box<[u8]>>,
    pub(crate) flow: Flow,
}

/// Way to the phone of a binding; `None` for a contact of an administrator, one at this server, and one whose scheme does not
/// fit (RFC 5630 §5.3). A contact with a host name is reached over the flow of its REGISTER.
pub(crate) fn hop_to_binding(config: &Config, offer: Offer<'_>, is_sips: bool) -> Option<BindingHop> {
    let Offer { binding, path } = offer;
    if binding.is_permanent() {
        return None;
    }
    let mut targets = Targets::default();
    targets.push_binding(offer, is_sips).ok()?;
    let target = targets.list().first()?;
    let uri = targets.uri(target);
    let flow = match target.flow {
        Some(flow) => flow,
        None => {
            let next = target.rewrite.as_deref().and_then(Rewrite::next_hop);
            match hop_of(config, &next.or_else(|| Uri::parse(uri).ok())?) {
                NextHop::Flow(flow) => flow,
                NextHop::Name(_) if !binding.owner.is_other() => binding.flow,
                NextHop::Name(_) | NextHop::Unreachable => return None,
            }
        }
    };
    let routes = path_values(path).map(Into::into).collect();
    (!config.is_own_address(flow.remote)).then(|| BindingHop { uri: uri.to_vec(), routes, flow })
}

/// Notes in a new context that its request is kept if no phone takes it, and arms the time for an answer: the sender's own
/// transaction must not end first.
pub(super) fn hold(
    proxy: &mut Proxy,
    env: &Env<'_>,
    context: &mut ResponseContext,
    key: SlabKey,
    candidate: Option<&Candidate>,
) {
    if let Some(candidate) = candidate.cloned() {
        let timer = proxy.groups.arm(env.cx.now + env.config.timers.t1 * 48, TimeLimit::Message(key));
        context.waiting = Some(Box::new(Waiting { candidate, timer }));
    }
}

/// Handles the end of the time for an answer: no phone is there.
pub(super) fn on_silence(proxy: &mut Proxy, env: &Env<'_>, transactions: &mut Transactions, key: SlabKey) {
    let Some(context) = proxy.contexts.get_mut(key) else { return };
    if let Some(waiting) = &mut context.waiting {
        waiting.timer = TimerKey::NONE;
        if transactions.is_answered(context.server) {
            return;
        }
        decided::about(env, &proxy.contexts, key, Reason::GroupTimeout, Detail::None);
        hand_over(proxy, transactions, key);
    }
}

/// Hands over a request whose best response says that no phone is there; false: it is answered.
pub(super) fn hand_over_absent(
    proxy: &mut Proxy,
    transactions: &mut Transactions,
    key: SlabKey,
    best: u16,
) -> bool {
    matches!(best, 408 | 430 | 480) && hand_over(proxy, transactions, key)
}

/// Takes the request out of its context, which ends without a response; false: it may not be kept.
fn hand_over(proxy: &mut Proxy, transactions: &mut Transactions, key: SlabKey) -> bool {
    let Some(context) = proxy.contexts.get_mut(key) else { return false };
    if context.is_cancelled || transactions.is_answered(context.server) {
        return false;
    }
    let Some(waiting) = context.waiting.take() else { return false };
    let Some(request) = context.request.take() else { return false };
    proxy.groups.cancel(waiting.timer);
    let (flow, grant, server) = (context.source, context.grant, context.server);
    proxy.unreached.push(Unreached { request, flow, grant, candidate: waiting.candidate });
    transactions.drop_server(server);
    true
}

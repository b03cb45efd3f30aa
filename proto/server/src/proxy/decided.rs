//! Decisions about requests that are being forwarded, for a trace.

use super::call::Planned;
use super::context::Contexts;
use super::stages;
use crate::base::{Env, Reach, Request};
use crate::route::Routed;
use crate::{Condition, Detail, Reason};
use alloc::boxed::Box;
use ringway_sansio::NumberTarget;
use ringway_transaction::SlabKey;

/// Reports a decision about the stored request of a context.
#[inline]
pub(super) fn about(env: &Env<'_>, contexts: &Contexts, key: SlabKey, reason: Reason, detail: Detail<'_>) {
    if env.is_tracing
        && let Some(message) = contexts.get(key).and_then(|context| context.request.as_deref())
    {
        env.decided_about(message, reason, detail);
    }
}

/// Reports the target set of a request. Routes and lookups of numbers were reported when they were found.
#[inline]
pub(super) fn targets(
    env: &Env<'_>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    planned: &Planned<'_>,
) {
    if env.is_tracing {
        report_targets(env, request, routed, planned);
    }
}

#[cold]
fn report_targets(env: &Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>, planned: &Planned<'_>) {
    let (targets, states) = (&*planned.targets, &planned.states);
    let (reason, detail) = match request.grant.reach {
        Reach::Side(_) | Reach::User => (Reason::ToDialogSide, Detail::None),
        Reach::Flow(_) => (Reason::ToFlow, Detail::None),
        Reach::Anywhere | Reach::OurUsers => {
            if let Some(condition) = states.get::<Condition>() {
                let target = targets.list().first().map(|target| targets.uri(target));
                (stages::reason_of(*condition), Detail::Text(target.unwrap_or_default()))
            } else if routed.next_route.is_some() || !routed.is_of_domains {
                (Reason::ToOther, Detail::Text(routed.uri.as_bytes()))
            } else {
                (Reason::ToPhones, Detail::Count(targets.list().len()))
            }
        }
    };
    let was_reported = targets.are_ranked() || states.get::<Box<NumberTarget>>().is_some();
    if !was_reported || reason != Reason::ToPhones {
        env.decided(request, reason, detail);
    }
}

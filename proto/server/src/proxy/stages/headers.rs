//! Header fields of the messages between this server and trunks, by rules (decision 0062).

use crate::base::{Env, Response};
use crate::config::Trunk;
use crate::policy::{Border, changed_by};
use crate::proxy::context::Branch;
use crate::proxy::forward::Plan;
use alloc::vec::Vec;
use ringway_sansio::Flow;

/// Changes of a request after all others.
pub(super) fn of_request(env: &Env<'_>, plan: &Plan<'_, '_, '_>) -> Border {
    match plan.returns_here() {
        true => Border::default(),
        false => Border::to(env.config, plan.configured_hop(), plan.flow().remote.ip()),
    }
}

/// Changes of a response to this source of its request.
pub(super) fn of_response(env: &Env<'_>, source: &Flow) -> Border {
    Border::to(env.config, None, source.remote.ip())
}

/// A response of a trunk, changed by its rules; `None`: it stays.
pub(super) fn received(
    env: &mut Env<'_>,
    branch: Option<&Branch>,
    response: &Response<'_, '_>,
) -> Option<Vec<u8>> {
    let trunking = &env.config.trunking;
    let chosen = branch.and_then(|branch| branch.states.trunk).map(|branch| branch.trunk);
    let trunk: Option<&Trunk> = match chosen {
        Some(chosen) => trunking.trunks.get(chosen),
        None => trunking.with_rules_at(response.flow.remote.ip()),
    };
    trunk.and_then(|trunk| changed_by(env, trunk, response.message))
}

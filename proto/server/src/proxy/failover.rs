//! Failover to the next server of a host name (RFC 3263 §4.3).

use super::Proxy;
use super::context::{BranchId, Servers, Transactions};
use super::reach::{failed_last, take_reachable};
use crate::Services;
use crate::env::Env;
use crate::neighbour::CallResult;
use alloc::boxed::Box;
use ringway_sansio::LocatedServers;

impl Proxy {
    /// Sends a branch to the first of the servers that can be reached. False: there is none.
    pub(super) fn send_to_first(
        &mut self,
        env: &mut Env<'_, impl Services>,
        transactions: &mut Transactions,
        id: BranchId,
        mut servers: LocatedServers,
    ) -> bool {
        let Some(context) = self.contexts.get_mut(id.context()) else { return false };
        let Some((current, flow)) = take_reachable(env, context.grant.reach, &mut servers) else {
            return false;
        };
        if let Some(branch) = self.contexts.branch_mut(id) {
            branch.servers = Some(Box::new(Servers { current, left: servers }));
        }
        self.send_stored(env, transactions, id, flow);
        true
    }

    /// Notes that the server of a branch did not answer, so that other requests try it last.
    pub(super) fn note_failed(&mut self, env: &Env<'_, impl Services>, id: BranchId) {
        let branch = self.contexts.branch_mut(id);
        if let Some(branch) = branch
            && branch.state.awaits_first_response()
            && let Some(servers) = &branch.servers
        {
            env.services.note_failed(env.cx.now, &servers.current);
        }
    }

    /// Sends a branch that failed without any provisional response to the next server of its host. False: the branch has
    /// failed.
    ///
    /// The caller of a non-INVITE request has given up when a first server has timed out (RFC 4320 §4.2).
    pub(super) fn fail_over(
        &mut self,
        env: &mut Env<'_, impl Services>,
        transactions: &mut Transactions,
        id: BranchId,
    ) -> bool {
        let Some(context) = self.contexts.get_mut(id.context()) else { return false };
        let until =
            context.since + if context.is_invite { env.config.timer_c } else { env.config.timers.t1 * 64 };
        if context.is_cancelled || env.cx.now >= until || transactions.is_answered(context.server) {
            return false;
        }
        let Some(branch) = self.contexts.branch_mut(id) else { return false };
        let Some(servers) = branch.servers.as_deref().filter(|_| branch.state.awaits_first_response()) else {
            return false;
        };
        let left = failed_last(env, servers.left);
        if left.is_empty() {
            return false;
        }
        self.end_branch(env, id, CallResult::Other);
        let was_sent = self.send_to_first(env, transactions, id, left);
        env.counters.failovers += u64::from(was_sent);
        if was_sent {
            self.finish_if_done(env, transactions, id.context());
        }
        was_sent
    }
}

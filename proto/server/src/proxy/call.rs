//! A forwarded request, as the stages of the proxy get it, and what they decide.

use super::context::{Branch, ResponseContext};
use super::pending::Pending;
use super::remote_target::Response;
use super::serial::TimeLimit;
use super::targets::StoredTarget;
use crate::base::{BranchId, Env, Request};
use crate::route::{Routed, preprocess};
use crate::tables::CallResult;
use crate::{Detail, Reason};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Flow, Wheel};
use ringway_sip::{Limits, Message, Start};
use ringway_transaction::SlabKey;

/// Next step of a call, after a stage.
#[derive(Debug)]
pub(super) enum Next {
    /// The next stage decides.
    Pass,
    /// The branch is over, and these targets are called. Their memory is reserved.
    Targets(Vec<StoredTarget>),
    /// The same for the contacts of a 3xx; the caller may get those that are not called.
    Redirected { targets: Vec<StoredTarget>, uncalled: Vec<Vec<u8>> },
    /// The branch is sent again over this flow; its request so far has this result.
    Again(Flow, CallResult),
    /// The same after this time.
    Later(Duration, Flow, CallResult),
    /// The branch has failed, for the caller with this status; its request has this result.
    Fail(u16, CallResult),
}

/// End of a branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BranchEnd<'r> {
    pub(super) id: BranchId,
    /// That of the response. Without one: 408 after silence, 480 if the next hop was not reached, 430 if its flow is gone.
    pub(super) status: u16,
    pub(super) response: Option<&'r Response<'r, 'r>>,
    /// True if it was cancelled because the time of its group had passed.
    pub(super) is_superseded: bool,
}

/// Forwarded request.
pub(super) struct Call<'c, 'e> {
    pub(super) env: &'c mut Env<'e>,
    pub(super) context: &'c mut ResponseContext,
    pub(super) key: SlabKey,
    pub(super) pending: &'c mut Pending,
    /// Timers of contexts.
    pub(super) timers: &'c mut Wheel<TimeLimit>,
    /// True if the caller has its final response.
    pub(super) is_answered: bool,
}

impl Call<'_, '_> {
    pub(super) fn branch(&mut self, id: BranchId) -> Option<&mut Branch> {
        self.context.branches.get_mut(id.parts().1)
    }

    /// True if another branch may replace one that failed: the caller still waits for a response.
    pub(super) fn may_replace_branch(&self) -> bool {
        self.context.may_replace_branch(self.env, self.is_answered)
    }

    /// Reports a decision about the request.
    #[inline]
    pub(super) fn decided(&self, reason: Reason, detail: Detail<'_>) {
        if self.env.is_tracing
            && let Some(message) = self.context.request.as_deref()
        {
            self.env.decided_about(message, reason, detail);
        }
    }

    /// Reserves the memory of further branches, whose targets add `added` bytes in all; false, and counted, if a limit is reached.
    pub(super) fn reserve(&mut self, branches: usize, added: usize) -> bool {
        let bytes = branches * self.context.reserved.of_branch + added;
        Pending::reserve_more(self.env, self.context, bytes)
    }

    /// Notes the user by whose permission the request leaves our domains.
    pub(super) fn leave(&mut self, user: u64) {
        if self.context.leaves_by.is_none() {
            self.context.leaves_by = Some(user);
            self.pending.begin_leaving(user);
        }
    }

    /// Gives up the targets that wait for their turn.
    pub(super) fn give_up_later(&mut self) {
        if let Some(later) = self.context.later.take() {
            self.timers.cancel(later.timer);
        }
    }

    /// Reads the stored request; `None` if it is gone.
    pub(super) fn read<T>(
        &mut self,
        read: impl for<'a> FnOnce(&mut Self, &Request<'_, 'a>, &Routed<'a>) -> Option<T>,
    ) -> Option<T> {
        let bytes = self.context.request.clone()?;
        let (flow, grant, call) =
            (self.context.source, self.context.grant, self.context.call.as_deref().copied());
        let message = &Message::parse(&bytes, &Limits::STORED).ok()?;
        let Start::Request { method, uri } = *message.start() else { return None };
        let routed = preprocess(self.env.config, &self.env.keys.route, message, uri).ok()?;
        let request =
            Request { message, method, uri, flow, peer: None, key: None, grant, call: call.as_ref() };
        read(self, &request, &routed)
    }
}

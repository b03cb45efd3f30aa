//! A request that is forwarded, as the stages of the proxy get it, and what they decide.

use super::context::{Branch, ResponseContext};
use super::limits::Pending;
use super::states::{KeptStates, LaterGroups, Released, States, TimeLimit};
use super::targets::{StoredTarget, Targets};
use crate::base::{BranchId, Env, Request, Response};
use crate::dialog::route::Routed;
use crate::tables::CallResult;
use crate::{Aor, Reason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Flow, Wheel};
use ringway_transaction::SlabKey;

/// Request with its route, and what stages need to decide about it.
pub(super) struct Call<'c, 'e> {
    pub(super) env: &'c mut Env<'e>,
    pub(super) request: &'c Request<'c, 'c>,
    pub(super) routed: &'c Routed<'c>,
    pub(super) pending: &'c mut Pending,
}

/// Context of a request that was forwarded.
pub(super) struct Forwarded<'c> {
    pub(super) context: &'c mut ResponseContext,
    pub(super) key: SlabKey,
    /// Timers of contexts.
    pub(super) timers: &'c mut Wheel<TimeLimit>,
    /// True if the caller has its final response.
    pub(super) is_answered: bool,
}

/// Targets of a request, and what was decided with them.
pub(super) struct Planned<'t> {
    pub(super) targets: &'t mut Targets,
    /// States that the context of the request begins with.
    pub(super) states: States,
    /// Address-of-record that the request is for.
    pub(super) aor: Aor,
    /// True for a URI that names one phone of its user.
    pub(super) is_one_phone: bool,
    /// User by whose permission the request leaves our domains.
    pub(super) leaves_by: Option<u64>,
    /// User that a stranger's request is for.
    pub(super) strangers_user: Option<u64>,
}

/// Decision of a stage about a request that is planned.
#[derive(Debug)]
pub(super) enum Next {
    /// The next stage decides.
    Pass,
    /// It goes to these targets; none is a decision too.
    Targets(Vec<StoredTarget>),
    /// It gets a response of this server.
    Answer(Answer),
}

/// The same about a branch that has ended.
#[derive(Debug, Default)]
pub(super) enum BranchNext {
    /// The next stage decides.
    #[default]
    Pass,
    /// It is over, and these targets are called. Their memory is reserved.
    Targets(Vec<StoredTarget>),
    /// It is sent again over this flow; its request so far has this result.
    Again(Flow, CallResult),
    /// The same after this time.
    Later(Duration, Flow, CallResult),
    /// It has failed, for the caller with this status; its request has this result.
    Fail(u16, CallResult),
}

/// Contacts of a 3xx that are called. Their memory is reserved.
#[derive(Debug)]
pub(super) struct Redirected {
    pub(super) targets: Vec<StoredTarget>,
    /// Values of Contact that are not called: the caller may get them.
    pub(super) uncalled: Vec<Vec<u8>>,
}

/// Decision of a stage about a request that was forwarded.
#[derive(Debug, Default)]
pub(super) enum CallNext {
    /// The next stage decides.
    #[default]
    Pass,
    /// These targets are called. Their memory is reserved.
    Targets(Vec<StoredTarget>),
    /// The same, and the other branches are cancelled.
    Instead(Vec<StoredTarget>),
    /// The caller gets a response of this server.
    Answer(Answer),
    /// It leaves the proxy, and is answered elsewhere.
    Taken(Box<Released>),
}

/// Next step of a message.
pub(super) enum MessageStep {
    /// It is forwarded as it is.
    Pass,
    /// It is forwarded as this one.
    Replace(Vec<u8>),
    /// A stage holds it, or a copy of it.
    Wait,
}

/// Response of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) phrase: &'static str,
    /// Reason to be reported; `None`: it was, or the response says it.
    pub(super) reason: Option<Reason>,
    /// Seconds after which another attempt may succeed.
    pub(super) retry_after_s: Option<u64>,
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

impl Answer {
    /// Response to a request about which everything was reported.
    pub(super) const fn new(status: u16, phrase: &'static str) -> Self {
        Self { status, phrase, reason: None, retry_after_s: None }
    }
}

impl Call<'_, '_> {
    /// Reserves the memory of further branches, whose targets add `added` bytes in all; false, and counted, if a limit is reached.
    pub(super) fn reserve(&mut self, forwarded: &mut Forwarded<'_>, branches: usize, added: usize) -> bool {
        let bytes = branches * forwarded.context.reserved.of_branch + added;
        Pending::reserve_more(self.env, &mut forwarded.context.reserved, bytes)
    }

    /// Notes the user by whose permission the request leaves our domains.
    pub(super) fn leave(&mut self, forwarded: &mut Forwarded<'_>, user: u64) {
        if forwarded.context.leaves_by.is_none() {
            forwarded.context.leaves_by = Some(user);
            self.pending.begin_leaving(user);
        }
    }
}

impl Forwarded<'_> {
    pub(super) fn branch(&mut self, id: BranchId) -> Option<&mut Branch> {
        self.context.branches.get_mut(id.parts().1)
    }

    /// True if another branch may replace one that failed: the caller still waits for a response.
    pub(super) fn may_replace_branch(&self, env: &Env<'_>) -> bool {
        self.context.may_replace_branch(env, self.is_answered)
    }

    /// Gives up the targets that wait for their turn.
    pub(super) fn give_up_later(&mut self) {
        if let Some(later) = self.context.states.take::<Box<LaterGroups>>() {
            self.timers.cancel(later.timer);
        }
    }
}

//! States that stages keep with a request or a branch while it is under way. A plain call has none.

mod branch_media;
mod candidate;
mod later_groups;
mod retarget;
mod trunk_branch;

pub(super) use branch_media::{AnswerStep, BranchMedia};
pub(crate) use candidate::{Candidate, Released};
pub(super) use later_groups::LaterGroups;
pub(super) use retarget::{Diversion, Recursion};
pub(super) use trunk_branch::{GroupTimer, TrunkBranch};

use super::targets::OtherFlows;
use crate::Condition;
use crate::dialog_state::LitCall;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::{NumberTarget, TimerKey};
use ringway_transaction::SlabKey;

/// State of one stage.
#[derive(Debug)]
pub(super) enum State {
    /// Targets of lower preference.
    Later(Box<LaterGroups>),
    /// Forwards of the called user that may still apply.
    Diversion(Box<Diversion>),
    /// The targets are those of a forward.
    Diverted(Condition),
    /// Targets that were called, if the contacts of a 3xx may be called too.
    Recursion(Box<Recursion>),
    /// Number that is looked up before it has targets.
    Number(Box<NumberTarget>),
    /// Entries of the call in the table of lamps.
    Lit(Box<LitCall>),
    /// Users of a message that is kept if no phone takes it.
    Waiting(Box<Waiting>),
}

/// States of the stages that apply to a request, at most one of each kind.
pub(super) type States = Vec<State>;

/// Type of a state.
pub(super) trait Kept: Sized {
    fn of(state: &State) -> Option<&Self>;
    fn of_mut(state: &mut State) -> Option<&mut Self>;
    fn taken(state: State) -> Option<Self>;
    fn state(self) -> State;
}

macro_rules! kept {
    ($($variant:ident($type:ty)),* $(,)?) => {$(
        impl Kept for $type {
            fn of(state: &State) -> Option<&Self> {
                if let State::$variant(kept) = state { Some(kept) } else { None }
            }

            fn of_mut(state: &mut State) -> Option<&mut Self> {
                if let State::$variant(kept) = state { Some(kept) } else { None }
            }

            fn taken(state: State) -> Option<Self> {
                if let State::$variant(kept) = state { Some(kept) } else { None }
            }

            fn state(self) -> State {
                State::$variant(self)
            }
        }
    )*};
}

kept! {
    Later(Box<LaterGroups>),
    Diversion(Box<Diversion>),
    Diverted(Condition),
    Recursion(Box<Recursion>),
    Number(Box<NumberTarget>),
    Lit(Box<LitCall>),
    Waiting(Box<Waiting>),
}

/// States by their kind.
pub(super) trait KeptStates {
    fn kept<T: Kept>(&self) -> Option<&T>;

    fn kept_mut<T: Kept>(&mut self) -> Option<&mut T>;

    /// Keeps a state, of which there is none.
    fn keep(&mut self, state: impl Kept);

    fn take<T: Kept>(&mut self) -> Option<T>;

    /// Ends what would call further targets; returns its timers.
    fn end_targets(&mut self) -> impl Iterator<Item = TimerKey>;

    /// Timers of all stages.
    fn timers(&mut self) -> impl Iterator<Item = TimerKey>;
}

impl KeptStates for States {
    fn kept<T: Kept>(&self) -> Option<&T> {
        self.iter().find_map(T::of)
    }

    fn kept_mut<T: Kept>(&mut self) -> Option<&mut T> {
        self.iter_mut().find_map(T::of_mut)
    }

    fn keep(&mut self, state: impl Kept) {
        self.push(state.state());
    }

    fn take<T: Kept>(&mut self) -> Option<T> {
        let at = self.iter().position(|state| T::of(state).is_some())?;
        T::taken(self.swap_remove(at))
    }

    fn end_targets(&mut self) -> impl Iterator<Item = TimerKey> {
        let ended = self.extract_if(.., |state| state.calls_targets());
        ended.filter_map(|mut state| state.timer().copied())
    }

    fn timers(&mut self) -> impl Iterator<Item = TimerKey> {
        self.iter_mut().filter_map(|state| state.timer().copied())
    }
}

impl State {
    /// True for what would call further targets.
    const fn calls_targets(&self) -> bool {
        match self {
            Self::Later(_) | Self::Diversion(_) => true,
            Self::Diverted(_) | Self::Recursion(_) | Self::Number(_) | Self::Lit(_) | Self::Waiting(_) => {
                false
            }
        }
    }

    fn timer(&mut self) -> Option<&mut TimerKey> {
        match self {
            Self::Later(later) => Some(&mut later.timer),
            Self::Diversion(diversion) => Some(&mut diversion.timer),
            Self::Waiting(waiting) => Some(&mut waiting.timer),
            Self::Diverted(_) | Self::Recursion(_) | Self::Number(_) | Self::Lit(_) => None,
        }
    }
}

/// States that stages keep with a branch.
#[derive(Debug, Default)]
pub(super) struct BranchStates {
    /// The other flows of its phone.
    pub(super) flows: Option<Box<OtherFlows>>,
    /// Trunk or node that it is for.
    pub(super) trunk: Option<TrunkBranch>,
    /// Conversion of its offer between SRTP and RTP.
    pub(super) conversion: Conversion,
    /// Media of a branch that needs a relay.
    pub(super) media: Option<Box<BranchMedia>>,
}

/// Conversion of an offer that the target refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Conversion {
    /// The offer is as it came.
    #[default]
    None,
    /// A relay converts it.
    Converted,
    /// The converted one is sent a second time, because the target took it for the one that it refused.
    Repeated,
}

impl BranchStates {
    /// True if it is for a node behind this server.
    pub(super) fn is_at_node(&self) -> bool {
        self.trunk.is_some_and(|trunk| trunk.is_node)
    }

    /// True if a 2xx waits for its SDP.
    pub(super) fn holds_success(&self) -> bool {
        self.media.as_ref().is_some_and(|media| media.holds_success())
    }
}

/// Users of a forwarded MESSAGE that is kept if no phone takes it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) candidate: Candidate,
    /// Timer of the time for an answer.
    pub(super) timer: TimerKey,
}

/// End of a time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeLimit {
    /// That of the running group: the next one begins.
    Group(SlabKey),
    /// That of the called user's answer: its forward begins.
    Answer(SlabKey),
    /// That of an answer to a message: it is kept.
    Message(SlabKey),
}

impl TimeLimit {
    pub(super) const fn context(self) -> SlabKey {
        match self {
            Self::Group(key) | Self::Answer(key) | Self::Message(key) => key,
        }
    }
}

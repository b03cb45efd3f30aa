//! States that stages keep with a request or a branch while it is under way. A plain call has none.

mod branch_media;

use super::targets::OtherFlows;
use crate::base::Grant;
use crate::dialog::route::Routed;
use crate::dialog_state::ShownDialogs;
use crate::proxy::targets::{StoredTarget, Target, Targets};
use crate::tables::CountedCall;
use crate::{Aor, Condition, Forwards, Trunking};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
pub(super) use branch_media::{AnswerStep, BranchMedia};
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Instant, NumberTarget, TimerKey};
use ringway_sip::Uri;
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
    Shown(Box<ShownDialogs>),
    /// Users of a message that is kept if no phone takes it.
    Waiting(Box<Waiting>),
    /// The call, as its caller counts it until it is answered.
    Counted(Box<CountedCall>),
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
    Shown(Box<ShownDialogs>),
    Waiting(Box<Waiting>),
    Counted(Box<CountedCall>),
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
            Self::Diverted(_)
            | Self::Recursion(_)
            | Self::Number(_)
            | Self::Shown(_)
            | Self::Waiting(_)
            | Self::Counted(_) => false,
        }
    }

    fn timer(&mut self) -> Option<&mut TimerKey> {
        match self {
            Self::Later(later) => Some(&mut later.timer),
            Self::Diversion(diversion) => Some(&mut diversion.timer),
            Self::Waiting(waiting) => Some(&mut waiting.timer),
            Self::Diverted(_) | Self::Recursion(_) | Self::Number(_) | Self::Shown(_) | Self::Counted(_) => {
                None
            }
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
    /// Its call, as its trunk counts it until it is answered.
    pub(super) counted: Option<Box<CountedCall>>,
    /// Conversion of its offer between SRTP and RTP.
    pub(super) conversion: Conversion,
    /// Media of a branch that needs a relay.
    pub(super) media: Option<Box<BranchMedia>>,
    /// Topology that the trunk of the branch, or of the request, must not see.
    pub(super) hidden: Option<Box<Hidden>>,
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

    /// Notes that the request is sent again, in a datagram.
    pub(super) const fn note_datagram(&mut self) {
        if let Some(trunk) = &mut self.trunk {
            trunk.is_counted = true;
        }
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

/// Users of a message that is kept if no phone takes it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) recipient: Aor,
    /// User whose password was proven.
    pub(crate) sender: Aor,
}

/// Request that no phone of its user took.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) request: Arc<[u8]>,
    pub(crate) flow: Flow,
    pub(crate) grant: Grant,
    pub(crate) candidate: Candidate,
}

// Targets that are called one group after another (RFC 3261 §16.5, §16.6).
//
// Targets of the same q-value are a group, and run at once. The next group begins when all targets of the running one
// have failed, or its time has passed: then they are cancelled. A final 2xx or 6xx, and a CANCEL, end them all.

/// Groups of a request that wait for their turn.
#[derive(Debug)]
pub(in crate::proxy) struct LaterGroups {
    /// Targets by falling q-value.
    targets: VecDeque<StoredTarget>,
    /// Timer of the running group.
    pub(in crate::proxy) timer: TimerKey,
}

impl LaterGroups {
    /// Groups after the first one of these targets, which are sorted by falling q-value; `None` if there is only one.
    pub(in crate::proxy) fn of(targets: &Targets) -> Option<Box<Self>> {
        let (list, first) = (targets.list(), Self::first_len(targets.list()));
        let later = list.get(first..).filter(|later| !later.is_empty())?;
        let later = later.iter().map(|target| targets.stored(target)).collect();
        Some(Box::new(Self { targets: later, timer: TimerKey::NONE }))
    }

    /// No groups.
    pub(in crate::proxy) const fn none() -> Self {
        Self { targets: VecDeque::new(), timer: TimerKey::NONE }
    }

    /// Puts targets before the others; those with the q-value of the first other ones join their group.
    pub(in crate::proxy) fn insert(&mut self, targets: Vec<StoredTarget>) {
        for target in targets.into_iter().rev() {
            self.targets.push_front(target);
        }
    }

    /// Removes the targets at trunks.
    pub(in crate::proxy) fn forget_trunks(&mut self) {
        self.targets.retain(|target| target.configured_hop().is_none());
    }

    /// Number of targets in the first group.
    fn first_len(list: &[Target]) -> usize {
        let Some(first) = list.first() else { return 0 };
        list.iter().take_while(|target| target.q == first.q).count()
    }

    /// Number of targets.
    pub(in crate::proxy) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Takes the next group; none if there are no more.
    pub(in crate::proxy) fn take_next(&mut self) -> impl Iterator<Item = StoredTarget> {
        let q = self.targets.front().map(|target| target.q);
        let count = self.targets.iter().take_while(|target| Some(target.q) == q).count();
        self.targets.drain(..count)
    }

    /// Number of groups.
    fn groups(&self) -> u32 {
        let (mut groups, mut last) = (0, None);
        for target in &self.targets {
            groups += u32::from(last != Some(target.q));
            last = Some(target.q);
        }
        groups
    }

    /// End of the running group. A request other than INVITE ends at `until` (RFC 4320 §4.2), so its groups share the time
    /// that is left.
    pub(in crate::proxy) fn ends_at(
        &self,
        now: Instant,
        group_max: Duration,
        until: Option<Instant>,
    ) -> Instant {
        let share = until.map(|until| until.since(now) / (self.groups() + 1));
        now + share.map_or(group_max, |share| share.min(group_max))
    }
}

/// Forwards of the called user that may still apply to a request.
#[derive(Debug)]
pub(in crate::proxy) struct Diversion {
    pub(in crate::proxy) forwards: Arc<Forwards>,
    /// Time of the forward of calls that nobody answers.
    pub(in crate::proxy) timer: TimerKey,
    /// Spirals of the branch of a forward.
    pub(in crate::proxy) spirals: u32,
}

/// Targets of a request so far: none is called twice (RFC 3261 §16.5).
#[derive(Debug)]
pub(in crate::proxy) struct Recursion {
    called: Vec<Box<[u8]>>,
    /// Number of contacts of 3xx that may still be called.
    left: usize,
}

impl Recursion {
    pub(in crate::proxy) fn of(routed: &Routed<'_>, targets: &Targets) -> Box<Self> {
        let mut called: Vec<Box<[u8]>> = vec![routed.uri.as_bytes().into()];
        called.extend(targets.list().iter().map(|target| targets.uri(target).into()));
        Box::new(Self { called, left: CONTACTS_MAX })
    }

    /// Adds a target that is not a contact of a 3xx.
    pub(in crate::proxy) fn note(&mut self, uri: &[u8]) {
        self.called.push(uri.into());
    }

    /// Adds a contact of a 3xx. False: it was called before, or there are too many.
    pub(in crate::proxy) fn add(&mut self, uri: &Uri<'_>) -> bool {
        let is_same = |called: &[u8]| Uri::parse(called).is_ok_and(|called| called.equals(uri));
        if self.left == 0 || self.called.iter().any(|called| is_same(called)) {
            return false;
        }
        self.left -= 1;
        self.called.push(uri.as_bytes().into());
        true
    }
}

/// Maximum number of contacts of 3xx responses that are called for one request.
const CONTACTS_MAX: usize = 10;

/// Topology that is hidden between a request and its branch.
#[derive(Clone, Debug, Default)]
pub(in crate::proxy) struct Hidden {
    /// Vias of the request, which its responses get back; empty: the branch has them.
    pub(in crate::proxy) vias: Vec<u8>,
    /// Its Call-ID, with the Vias.
    pub(in crate::proxy) call_id: Arc<[u8]>,
    /// Responses hide the inside from the sender of the request.
    pub(in crate::proxy) answers: bool,
    /// Address of the next hop.
    pub(in crate::proxy) phone: Option<IpAddr>,
}

/// Trunk of a branch.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct TrunkBranch {
    /// Index in the configuration.
    pub(in crate::proxy) trunk: usize,
    /// Number of challenges that were answered.
    pub(in crate::proxy) logins: u8,
    /// It sent a provisional response other than 100.
    rings: bool,
    /// It is a node behind this server.
    pub(in crate::proxy) is_node: bool,
    /// The request was sent to it before, and is sent once more in a datagram.
    pub(in crate::proxy) is_counted: bool,
}

/// Effect of a provisional response on the groups of targets that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum GroupTimer {
    /// None.
    Runs,
    /// They wait for the end of the branch.
    Stops,
    /// They are given up.
    Ends,
}

impl TrunkBranch {
    pub(in crate::proxy) const fn new(trunk: usize) -> Self {
        Self { trunk, logins: 0, rings: false, is_node: false, is_counted: false }
    }

    /// The same for a trunk of these.
    pub(in crate::proxy) fn of(trunking: &Trunking, trunk: usize) -> Self {
        Self { is_node: trunking.is_node(trunk), ..Self::new(trunk) }
    }

    /// Notes a provisional response: one other than 100 ends the route with this trunk.
    pub(in crate::proxy) const fn note_provisional(&mut self, status: u16) -> GroupTimer {
        if status == 100 {
            return GroupTimer::Stops;
        }
        self.rings = true;
        GroupTimer::Ends
    }

    /// True if a final response with this status leads to the next trunk. A node passes on no 503; any other response of it is the one
    /// to the request.
    pub(in crate::proxy) const fn fails_over(self, status: u16) -> bool {
        match self.is_node {
            true => status == 503,
            false => !self.rings && matches!(status, 408 | 500 | 502 | 503 | 504),
        }
    }
}

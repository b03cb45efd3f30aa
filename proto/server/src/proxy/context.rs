//! Response context: a forwarded request, its branches and the best response so far (RFC 3261 §16.2, §16.7).

use super::limits::{Reserved, Share};
use super::states::{BranchStates, States};
use super::targets::{Authority, StoredTarget};
use crate::base::EndedInvites;
use crate::base::{BranchId, Env, Grant, Reach, Request};
use crate::report::Report;
use crate::{CallName, Detail, Reason};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::{DialledId, Flow, Instant, LocatedServer, LocatedServers, TimerKey};
use ringway_sip::{HeaderName, Limits, Message, Method};
use ringway_transaction::{ClientId, MatchKey, ServerId, Slab, SlabKey};

/// Response contexts of a shard.
#[derive(Default)]
pub(super) struct Contexts {
    slab: Slab<ResponseContext>,
    /// Number of contexts of INVITEs without a final response.
    unanswered: usize,
}

/// Call without a final response.
#[derive(Clone, Copy, Debug)]
pub struct RingingCall<'a> {
    /// Call-ID.
    pub call_id: &'a [u8],
    /// URI of the caller.
    pub from: &'a [u8],
    /// URI of the callee.
    pub to: &'a [u8],
    /// True after a provisional response of a target.
    pub rings: bool,
    /// Time of the INVITE.
    pub since: Instant,
}

/// Context of one forwarded request.
#[derive(Debug)]
pub(super) struct ResponseContext {
    /// Server transaction of the caller.
    pub(super) server: ServerId,
    /// Received request, as long as a generated response or a further branch may need it.
    pub(super) request: Option<Arc<[u8]>>,
    pub(super) reserved: Reserved,
    /// User that a stranger's request is for.
    pub(super) strangers_user: Option<u64>,
    pub(super) source: Flow,
    pub(super) grant: Grant,
    /// Name of the call that the request begins or ends, if calls are recorded. A step of the call then needs neither the stored request,
    /// nor anything that a target chooses.
    pub(super) call: Option<Box<CallName>>,
    pub(super) since: Instant,
    pub(super) is_invite: bool,
    /// Key of an INVITE that proved a password in a datagram.
    replayable: Option<MatchKey>,
    /// True for a request that only the called phone answers: the silence of a proxy says nothing of it.
    pub(super) is_answered_by_phone: bool,
    /// True for an INVITE without a final response, counted by [`Contexts::unanswered_len`].
    is_unanswered: bool,
    pub(super) branches: Vec<Branch>,
    pub(super) states: States,
    /// True if a group of targets was cancelled because its time had passed.
    pub(super) had_silent_group: bool,
    /// User by whose permission the request leaves our domains.
    pub(super) leaves_by: Option<u64>,
    best: Option<Best>,
    /// Challenges of all branches, which are aggregated (RFC 3261 §16.7 step 7).
    challenges: Vec<(HeaderName, Vec<u8>, usize)>,
    /// Value of Proxy-Authentication-Info of the final response; empty: none.
    pub(super) answer_info: Box<[u8]>,
    /// True if the caller cancelled, or a response was chosen: no new branch is started.
    pub(super) is_cancelled: bool,
}

/// Branch of a fork.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) state: BranchState,
    pub(super) timer_c: TimerKey,
    /// Connection of its call, while its request is pending there.
    pub(super) dialled: DialledId,
    pub(super) share: Share,
    /// Permission with which the contacts of its 3xx are called.
    pub(super) authority: Authority,
    /// Target of a branch that may be sent later, or again.
    pub(super) target: Option<Box<StoredTarget>>,
    /// True if the target is a binding.
    pub(super) is_of_binding: bool,
    /// Servers of a branch whose host was looked up.
    pub(super) servers: Option<Box<Servers>>,
    /// Set if the request was sent over TCP for its length.
    pub(super) over_tcp: Option<Box<OverTcp>>,
    /// Number of the caller's CSeq, if the request has another one.
    pub(super) caller_cseq: Option<u32>,
    /// Header field that responses get back as the caller has it.
    pub(super) came: Option<Box<(HeaderName, Vec<u8>)>>,
    pub(super) states: BranchStates,
}

/// Request that was sent over TCP for its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverTcp {
    /// Flow of datagrams: it follows if no connection is established.
    pub(super) datagrams: Flow,
    /// Timer of the connection.
    pub(super) connecting: TimerKey,
}

/// Servers of the host of a branch (RFC 3263 §4.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers {
    /// The one that the request was sent to.
    pub(super) current: LocatedServer,
    /// Those that are tried after it.
    pub(super) left: LocatedServers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BranchState {
    /// The servers of its host are being looked up, or a stage waits.
    Resolving { query: u64 },
    /// Sent; `rings` after a provisional response.
    Sent { client: ClientId, rings: bool },
    /// Cancelled because the time of its group has passed; a final response still ends it.
    Superseded { client: ClientId },
    /// Answered, or failed.
    Done,
}

impl Branch {
    /// True if the caller's response does not wait for it: a silent server that was followed by another one may never respond.
    fn is_passed_over(&self) -> bool {
        matches!(self.state, BranchState::Superseded { .. }) && self.states.is_at_node()
    }
}

impl BranchState {
    /// True if this is the transaction of the branch.
    pub(super) fn is_of(self, transaction: ClientId) -> bool {
        matches!(self, Self::Sent { client, .. } | Self::Superseded { client } if client == transaction)
    }

    /// True for a branch that the next group of targets does not wait for.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Superseded { .. } | Self::Done)
    }

    /// True for a branch that was sent and got no response.
    pub(super) const fn awaits_first_response(self) -> bool {
        matches!(self, Self::Sent { rings: false, .. })
    }
}

/// Final response that is forwarded after all branches are done.
#[derive(Debug)]
pub(super) struct Best {
    pub(super) status: u16,
    /// Bytes as received, without our Via. Empty: a locally generated response.
    pub(super) bytes: Vec<u8>,
    pub(super) branch: usize,
    /// Phrase of a locally generated 403.
    pub(super) phrase: &'static str,
}

impl Contexts {
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) const fn unanswered_len(&self) -> usize {
        self.unanswered
    }

    /// Key of the next inserted context.
    pub(super) fn next_key(&self) -> SlabKey {
        self.slab.next_key()
    }

    pub(super) fn insert(&mut self, context: ResponseContext) -> SlabKey {
        self.unanswered += usize::from(context.is_unanswered);
        self.slab.insert(context)
    }

    pub(super) fn remove(&mut self, key: SlabKey) -> Option<ResponseContext> {
        self.note_answered(key);
        self.slab.remove(key)
    }

    #[inline]
    pub(super) fn get(&self, key: SlabKey) -> Option<&ResponseContext> {
        self.slab.get(key)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: SlabKey) -> Option<&mut ResponseContext> {
        self.slab.get_mut(key)
    }

    pub(super) fn branch(&self, id: BranchId) -> Option<&Branch> {
        let (key, number) = id.parts();
        self.slab.get(key).and_then(|context| context.branches.get(number))
    }

    #[inline]
    pub(super) fn branch_mut(&mut self, id: BranchId) -> Option<&mut Branch> {
        let (key, number) = id.parts();
        self.slab.get_mut(key).and_then(|context| context.branches.get_mut(number))
    }

    /// Reports a decision about the stored request of a context.
    #[inline]
    pub(super) fn decided(&self, env: &Env<'_>, key: SlabKey, reason: Reason, detail: Detail<'_>) {
        if env.is_tracing()
            && let Some(context) = self.get(key)
        {
            context.decided(env, reason, detail);
        }
    }

    pub(super) fn keys(&self) -> Vec<SlabKey> {
        self.slab.iter().map(|(key, _)| key).collect()
    }

    /// Notes that the caller has its final response.
    pub(super) fn note_answered(&mut self, key: SlabKey) {
        if let Some(context) = self.slab.get_mut(key)
            && core::mem::take(&mut context.is_unanswered)
        {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
    }

    /// Releases the request after its final response; the context then only absorbs retransmissions.
    pub(super) fn forget_request(&mut self, key: SlabKey) {
        self.note_answered(key);
        if let Some(context) = self.slab.get_mut(key) {
            context.request = None;
            context.best = None;
            context.challenges = Vec::new();
        }
    }

    /// Calls without a final response, in up to `count` slots from slot `from`; returns the next slot, `None` at the end.
    pub(super) fn ringing_calls(
        &self,
        from: u32,
        count: u32,
        mut each: impl FnMut(RingingCall<'_>),
    ) -> Option<u32> {
        for slot in from..from.saturating_add(count) {
            let Some((request, rings, since)) = self.slab.at(slot)?.and_then(ResponseContext::unanswered)
            else {
                continue;
            };
            if let Ok(message) = Message::parse(request, &Limits::STORED) {
                each(RingingCall {
                    call_id: message.call_id(),
                    from: message.from().uri.as_bytes(),
                    to: message.to().uri.as_bytes(),
                    rings,
                    since,
                });
            }
        }
        Some(from.saturating_add(count))
    }
}

impl ResponseContext {
    /// Creates a context without branches, for which memory was reserved.
    pub(super) fn new(
        server: ServerId,
        request: &Request<'_, '_>,
        reserved: Reserved,
        strangers_user: Option<u64>,
        since: Instant,
        branches: usize,
    ) -> Self {
        let is_invite = request.method == Method::Invite;
        Self {
            server,
            request: Some(Arc::from(request.message.as_bytes())),
            reserved,
            strangers_user,
            source: request.flow,
            grant: request.grant,
            call: request.call.copied().map(Box::new),
            since,
            is_invite,
            replayable: request.key.filter(|_| {
                is_invite && request.grant.sender.is_user() && !request.flow.transport.is_reliable()
            }),
            is_answered_by_phone: !is_invite && request.method != Method::Register,
            is_unanswered: is_invite,
            branches: Vec::with_capacity(branches),
            states: States::default(),
            had_silent_group: false,
            leaves_by: None,
            best: None,
            challenges: Vec::new(),
            answer_info: Box::default(),
            is_cancelled: false,
        }
    }

    /// Request, ringing and start of an INVITE without a final response.
    fn unanswered(&self) -> Option<(&[u8], bool, Instant)> {
        let rings =
            self.branches.iter().any(|branch| matches!(branch.state, BranchState::Sent { rings: true, .. }));
        let request = self.request.as_deref().filter(|_| self.is_unanswered)?;
        Some((request, rings, self.since))
    }

    /// Reports a fact about the stored request.
    pub(super) fn report(&self, env: &mut Env<'_>, report: Report<'_>) {
        env.report_about(self.request.as_deref().unwrap_or_default(), report);
    }

    /// Reports a decision about the stored request.
    pub(super) fn decided(&self, env: &Env<'_>, reason: Reason, detail: Detail<'_>) {
        if env.is_tracing()
            && let Some(message) = self.request.as_deref()
        {
            env.decided_about(message, reason, detail);
        }
    }

    /// Notes an INVITE whose transaction has ended.
    pub(super) fn note_ended(&self, env: &mut Env<'_>) {
        if let Some(key) = self.replayable
            && env.cx.now.since(self.since) < EndedInvites::LIFE
        {
            env.counters.ended_invites_evicted += u64::from(!env.ended_invites.note(env.cx.now, key));
        }
    }

    /// True for an INVITE without a final response.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    /// True for a branch that was cancelled because the time of its group has passed.
    pub(super) fn is_superseded(&self, id: BranchId) -> bool {
        let branch = self.branches.get(id.parts().1);
        branch.is_some_and(|branch| matches!(branch.state, BranchState::Superseded { .. }))
    }

    /// Max-Breadth of the branches without a final response.
    pub(super) fn running_breadth(&self) -> u32 {
        let running = self.branches.iter().filter(|branch| branch.state != BranchState::Done);
        running.fold(0, |sum, branch| sum.saturating_add(branch.share.breadth))
    }

    /// True if the next group of targets, or a forward, may begin.
    pub(super) fn may_go_on(&self) -> bool {
        !self.is_cancelled && self.branches.iter().all(|branch| branch.state.is_over())
    }

    /// True if another branch may replace one that failed: the caller still waits for a response.
    pub(super) fn may_replace_branch(&self, env: &Env<'_>, is_answered: bool) -> bool {
        let wait = if self.is_invite { env.config.timer_c } else { env.config.timers.t1 * 64 };
        !self.is_cancelled && env.cx.now < self.since + wait && !is_answered
    }

    /// True for a request over the flow of a token.
    pub(super) const fn is_over_flow(&self) -> bool {
        matches!(self.grant.reach, Reach::Flow(_))
    }

    /// True if no final response is awaited any more.
    pub(super) fn is_done(&self) -> bool {
        self.branches.iter().all(|branch| branch.state == BranchState::Done || branch.is_passed_over())
    }

    /// Ends a branch that failed without a response from its target.
    pub(super) fn fail_branch(&mut self, number: usize, status: u16) {
        self.refuse_branch(number, status, "Forbidden");
    }

    /// The same for a branch that may not be sent.
    pub(super) fn refuse_branch(&mut self, number: usize, status: u16, phrase: &'static str) {
        if let Some(branch) = self.branches.get_mut(number) {
            branch.state = BranchState::Done;
        }
        self.keep_better(Best { status, bytes: Vec::new(), branch: number, phrase });
    }

    /// RFC 3261 §16.7 step 6: 6xx first, then the lowest class; among 4xx those that allow the caller a better request.
    pub(super) fn keep_better(&mut self, response: Best) {
        let is_better = match &self.best {
            None => true,
            Some(best) => rank(response.status) < rank(best.status),
        };
        if is_better {
            self.best = Some(response);
        }
    }

    pub(super) const fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    pub(super) const fn take_best(&mut self) -> Option<Best> {
        self.best.take()
    }

    /// Stores the challenges of a branch.
    pub(super) fn keep_challenges(&mut self, message: &Message<'_>, number: usize) {
        for name in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
            let mut bytes: usize = self.challenges.iter().map(|(_, value, _)| value.len()).sum();
            let values = message.lines_of(name).take(CHALLENGES_MAX).take_while(|value| {
                bytes += value.len();
                bytes <= CHALLENGE_BYTES_MAX
            });
            self.challenges.extend(values.map(|value| (name, value.to_vec(), number)));
        }
    }

    /// Challenges of all branches except `number`.
    pub(super) fn challenges_of_others(&self, number: usize) -> impl Iterator<Item = (HeaderName, &[u8])> {
        let others = self.challenges.iter().filter(move |(_, _, branch)| *branch != number);
        others.map(|(name, value, _)| (*name, value.as_slice()))
    }
}

fn rank(status: u16) -> u16 {
    match status {
        600.. => 0,
        401 | 407 | 415 | 420 | 484 => 400,
        // A response of a target is better than none.
        408 | 480 => 450,
        400..=499 => 410,
        // The 503 of another server is the worst: it is not forwarded.
        503 => 599,
        other => other,
    }
}

/// Maximum number of challenges of one branch.
const CHALLENGES_MAX: usize = 8;
/// Maximum number of bytes of the challenges of all branches.
const CHALLENGE_BYTES_MAX: usize = 8192;

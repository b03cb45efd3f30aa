//! Media of a branch whose SDP a media relay replaces.

use crate::Action;
use crate::base::{Env, MediaPlan, Request, StageDecision};
use crate::proxy::media::{
    Hop, MediaMark, SDP_ADDED_MAX, SDP_BYTES_MAX, holder_of, interfaces_of, is_sdp, plan_of, source_of_offer,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{
    RelayCall, RelayHolder, RelayId, RelayInterfaces, RelayKind, RelayMedia, RelayRequest, RelayResult,
    RelaySide,
};
use ringway_sip::{Limits, Message, Method};
use siphasher::sip::SipHasher13;

/// Media of a branch.
#[derive(Debug)]
pub(in crate::proxy) struct BranchMedia {
    role: Role,
    pub(in crate::proxy) mark: MediaMark,
    offerer: RelaySide,
    holder: RelayHolder,
    /// Address that the request came from, if its SDP is not believed.
    source: Option<IpAddr>,
    /// Interfaces of the relay for the offerer and the other side.
    interfaces: Option<RelayInterfaces>,
    /// Length of the SDP of the request.
    offered: usize,
    /// SDP that replaces that of the request.
    sdp: Option<Box<[u8]>>,
    /// Hash of the last SDP in a response, and the SDP that replaces it.
    answer: Option<(u64, Box<[u8]>)>,
    /// Stored responses: status, query.
    waiting: Vec<(u16, u64)>,
    /// True after a 2xx.
    is_answered: bool,
}

/// Effect of a request on the call at the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// None: no relay answered, or the request failed.
    Direct,
    /// It begins the call.
    Begins,
    /// It changes the call.
    Changes,
    /// It ends the call.
    Ends,
}

/// Next step of a response with an SDP.
#[derive(Debug)]
pub(in crate::proxy) enum AnswerStep {
    /// It is forwarded as it is.
    Forward,
    /// It is a retransmission of one that is stored.
    Drop,
    /// The relay gets its SDP.
    Ask,
    /// It is forwarded with this SDP.
    Replace(Box<[u8]>),
}

impl BranchMedia {
    /// Media of a request that needs a relay, or ends a relayed call.
    pub(in crate::proxy) fn of_request(
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        hop: Hop<'_>,
        decision: StageDecision,
    ) -> Option<Self> {
        let message = request.message;
        let (role, mark, offerer) = match (request.method, message.to().tag()) {
            (Method::Invite, None) if is_sdp(message) => {
                if env.config.is_own_address(hop.flow.remote) || !env.config.record_route {
                    return None;
                }
                let media = plan_of(decision, env.config, request, hop)?;
                (Role::Begins, begun(media), RelaySide::Caller)
            }
            (Method::Invite, None) => {
                env.counters.media_without_offer += 1;
                return None;
            }
            (Method::Invite | Method::Update | Method::Bye, Some(_)) => {
                let (mark, sender) = MediaMark::of_request(env.config, &env.keys.route, message)?;
                let role = match request.method {
                    Method::Bye => Role::Ends,
                    _ if is_sdp(message) => Role::Changes,
                    Method::Invite => {
                        env.counters.media_without_offer += 1;
                        return None;
                    }
                    _ => return None,
                };
                (role, mark, sender)
            }
            _ => return None,
        };
        Some(Self::new(env, request, hop, role, mark, offerer))
    }

    fn new(
        env: &Env<'_>,
        request: &Request<'_, '_>,
        hop: Hop<'_>,
        role: Role,
        mark: MediaMark,
        offerer: RelaySide,
    ) -> Self {
        Self {
            role,
            mark,
            offerer,
            holder: holder_of(env, request),
            source: source_of_offer(env.config, request),
            interfaces: interfaces_of(env.config, request, hop),
            offered: request.message.body().len(),
            sdp: None,
            answer: None,
            waiting: Vec::new(),
            is_answered: false,
        }
    }

    /// True if the offerer's SRTP ends at the relay.
    pub(in crate::proxy) fn is_downgraded(&self) -> bool {
        let (mark, other) = (&self.mark, self.mark.media_of_other(self.offerer));
        let own = match self.offerer {
            RelaySide::Caller => mark.caller,
            RelaySide::Callee => mark.callee,
        };
        self.sdp.is_some() && own == RelayMedia::Srtp && other == RelayMedia::Plain
    }

    /// True if the SDP of the request is replaced.
    pub(in crate::proxy) fn makes_offer(&self) -> bool {
        matches!(self.role, Role::Begins | Role::Changes)
    }

    /// Offer to the relay; `None` if the SDP is too long. `random` names a new call.
    pub(in crate::proxy) fn offer(&mut self, request: &Message<'_>, random: u64) -> Option<RelayRequest> {
        let relay = match self.role {
            Role::Begins => {
                self.mark.call = RelayCall(random);
                None
            }
            Role::Direct | Role::Changes | Role::Ends => Some(self.mark.relay),
        };
        fits(request).then(|| self.request(RelayKind::Offer, relay, request.body()))
    }

    /// Answer to the relay, from `source` if its SDP is not believed.
    pub(in crate::proxy) fn answer_request(
        &self,
        response: &Message<'_>,
        source: Option<IpAddr>,
    ) -> RelayRequest {
        let answer = self.request(RelayKind::Answer, Some(self.mark.relay), response.body());
        let offerer_media = match self.offerer {
            RelaySide::Caller => self.mark.caller,
            RelaySide::Callee => self.mark.callee,
        };
        let interfaces = self.interfaces.as_ref().map(RelayInterfaces::reversed);
        RelayRequest { to: offerer_media, source, interfaces, ..answer }
    }

    fn request(&self, kind: RelayKind, relay: Option<RelayId>, sdp: &[u8]) -> RelayRequest {
        let to = self.mark.media_of_other(self.offerer);
        let (call, offerer) = (self.mark.call, self.offerer);
        let (holder, source, interfaces) = (self.holder, self.source, self.interfaces.clone());
        RelayRequest { kind, call, relay, offerer, sdp: sdp.into(), to, holder, source, interfaces }
    }

    /// Stores the result of the offer; false if there is none, or it is not credible.
    pub(in crate::proxy) fn set_offer_result(&mut self, result: Option<RelayResult>) -> bool {
        match result.filter(|result| is_credible(&result.sdp, self.offered)) {
            Some(RelayResult { relay, sdp }) => {
                self.mark.relay = relay;
                self.sdp = Some(sdp);
                true
            }
            None => false,
        }
    }

    /// True for the media of a call that no 2xx has answered.
    pub(in crate::proxy) fn is_unanswered(&self) -> bool {
        self.role == Role::Begins && !self.is_answered
    }

    /// SDP in place of that of the request.
    pub(in crate::proxy) fn sdp(&self) -> Option<&[u8]> {
        self.sdp.as_deref()
    }

    /// Mark for a request that begins a dialog.
    pub(in crate::proxy) fn written_mark(&self) -> Option<&MediaMark> {
        (self.role == Role::Begins && self.sdp.is_some()).then_some(&self.mark)
    }

    /// Handles a response with this status; returns its next step.
    pub(in crate::proxy) fn on_response(&mut self, status: u16, message: &Message<'_>) -> AnswerStep {
        self.is_answered |= (200..=299).contains(&status);
        if self.sdp.is_none() || !is_sdp(message) {
            return AnswerStep::Forward;
        }
        let hash = hash_of(message.body());
        match &self.answer {
            Some((of, sdp)) if *of == hash => AnswerStep::Replace(sdp.clone()),
            _ if self.waiting.iter().any(|(waiting, _)| *waiting == status) => AnswerStep::Drop,
            _ => AnswerStep::Ask,
        }
    }

    /// True if one more response may be stored.
    pub(in crate::proxy) fn may_wait(&self, response: &Message<'_>) -> bool {
        self.waiting.len() < WAITING_MAX && fits(response)
    }

    /// SDP in place of that of the stored response, from the result of its query.
    pub(in crate::proxy) fn take_answer(
        &mut self,
        query: u64,
        response: &Message<'_>,
        result: Option<RelayResult>,
    ) -> Option<Box<[u8]>> {
        self.waiting.retain(|(_, of)| *of != query);
        let sdp = result.filter(|result| is_credible(&result.sdp, response.body().len()))?.sdp;
        self.answer = Some((hash_of(response.body()), sdp.clone()));
        Some(sdp)
    }

    /// True while a 2xx is stored.
    pub(in crate::proxy) fn holds_success(&self) -> bool {
        self.waiting.iter().any(|(status, _)| *status >= 200)
    }

    /// Queries of the stored responses.
    pub(in crate::proxy) fn queries(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|(_, query)| *query)
    }

    /// True if the call at the relay ends with this final status of the branch.
    pub(in crate::proxy) fn ends_with(&self, status: u16) -> bool {
        match self.role {
            Role::Begins => self.is_unanswered(),
            Role::Ends => !matches!(status, 401 | 407),
            // RFC 3261 §12.2.1.2: the dialog is over, or has never been.
            Role::Changes => matches!(status, 408 | 481),
            Role::Direct => false,
        }
    }

    /// True if the call at the relay ends with the transaction, whose final response has not come.
    pub(in crate::proxy) fn ends_with_transaction(&self) -> bool {
        self.is_unanswered() || self.role == Role::Ends
    }

    /// Request to delete the call.
    pub(in crate::proxy) fn delete(&self) -> Action {
        let is_begun = self.role != Role::Begins || self.sdp.is_some();
        let relay = is_begun.then_some(self.mark.relay);
        let request = RelayRequest { to: RelayMedia::Same, ..self.request(RelayKind::Delete, relay, &[]) };
        Action::Relay { query: 0, request }
    }

    /// Notes a stored response with this status.
    pub(in crate::proxy) fn wait(&mut self, status: u16, query: u64) {
        self.waiting.push((status, query));
    }

    /// Forwards the media as they are from now on.
    pub(in crate::proxy) const fn set_direct(&mut self) {
        self.role = Role::Direct;
    }

    /// Keeps the call at the relay, if the request would have ended it.
    pub(in crate::proxy) fn keep_call(&mut self) {
        if self.role == Role::Ends {
            self.role = Role::Direct;
        }
    }

    /// Number of bytes of the SDP that it holds.
    pub(in crate::proxy) fn held_bytes(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |(_, sdp)| sdp.len());
        self.sdp().map_or(0, <[u8]>::len) + answer
    }
}

/// Mark of a call that has no name at a relay yet.
const fn begun(media: MediaPlan) -> MediaMark {
    let MediaPlan { caller, callee } = media;
    MediaMark { call: RelayCall(0), relay: RelayId(0), caller, callee }
}

/// True if the message can have a longer SDP.
fn fits(message: &Message<'_>) -> bool {
    message.body().len() <= SDP_BYTES_MAX && message.as_bytes().len() + SDP_ADDED_MAX <= MESSAGE_BYTES_MAX
}

fn is_credible(sdp: &[u8], replaced: usize) -> bool {
    sdp.starts_with(b"v=") && sdp.len() <= SDP_BYTES_MAX.min(replaced + SDP_ADDED_MAX)
}

/// Hash that tells a retransmitted SDP from another one of the same peer, who gains nothing from equal ones.
fn hash_of(sdp: &[u8]) -> u64 {
    let mut hash = SipHasher13::new();
    hash.write(sdp);
    hash.finish()
}

/// Maximum number of stored responses of a branch.
const WAITING_MAX: usize = 4;
/// Maximum length of a message with the SDP of a relay.
const MESSAGE_BYTES_MAX: usize = Limits::MESSAGE_BYTES_CEILING - Limits::BYTES_ADDED_MAX;

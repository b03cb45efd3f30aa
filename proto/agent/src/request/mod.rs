//! Requests of this agent, from the draft to the final response, and the transactions of both directions.
//!
//! ```text
//!   submit ──► name? ── no ──────────────► sent ──► 1xx, 2xx, failure: to the owner
//!               │ yes                       ▲ │
//!               ▼                           │ │ 401, 407 that may be answered: next CSeq, credentials
//!            lookup ── address ─────────────┘ └──► sent again
//!               │ no address, or timeout
//!               ▼
//!            failed
//! ```
//!
//! An accepted INVITE is kept until no further 2xx can arrive, because the ACK of each of them is sent from here.

use crate::context::{AgentContext, Shared};
use crate::draft::{Draft, Purpose, text};
use crate::event::key_of;
use crate::{Abilities, CallId, QueryId};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use challenge::{AccountCredentials, PeerAnswer, Unanswered};
use core::net::SocketAddr;
use reply::warning_text;
use ringway_sansio::{
    ConnectionId, Deadline, Flow, IcmpError, Instant, LocatedServers, TimerKey, Token, Transport, Wheel,
};
use ringway_sip::{HeaderName, Message, Method, Start};
use ringway_transaction::{BranchKey, ClientId, Notice, Slab, SlabKey, Transactions, may_send_to};
use sending::{Peers, ResolvedNames, TcpFailures};
use smallvec::SmallVec;

pub(crate) mod challenge;
pub(crate) mod reply;
mod sending;

/// Client requests, resolved names, connections to peers, credentials, and the transaction layer.
pub(crate) struct Requests {
    transactions: Transactions<Option<CallId>, SlabKey>,
    active: Slab<Request>,
    /// By index of the account.
    credentials: Vec<AccountCredentials>,
    names: ResolvedNames,
    peers: Peers,
    tcp_failures: TcpFailures,
    timers: Wheel<Timer>,
    /// Notices of the transaction layer that are not handled yet.
    notices: Vec<Notice<SlabKey>>,
    /// Failures that the owners are not notified of yet.
    failures: VecDeque<Failure>,
    next_query: u64,
}

/// An active request.
#[derive(Debug)]
struct Request {
    draft: Draft,
    purpose: Purpose,
    /// `None` during a lookup.
    client: Option<ClientId>,
    /// Flow that it was sent to.
    flow: Option<Flow>,
    /// Connection that it was sent on, if known: see [`Peers`].
    connection: Option<ConnectionId>,
    /// Time of the last sending, without retransmissions.
    sent_at: Instant,
    /// Number of challenges it was sent again for.
    rounds: u8,
    /// Header fields of the challenges that it has answered.
    answered: SmallVec<[HeaderName; 2]>,
    /// Credentials for the challenge of a called phone.
    peer_credentials: Option<PeerAnswer>,
    /// Its credentials; its ACK has the same (RFC 3261 §22.1).
    credentials: Vec<(HeaderName, Vec<u8>)>,
    /// ACKs of its 2xx responses.
    acks: Vec<Ack>,
    switched: Switched,
    timer: TimerKey,
}

/// ACK of one 2xx, for retransmission with each retransmitted 2xx.
#[derive(Debug)]
struct Ack {
    remote_tag: Vec<u8>,
    /// `None` during a lookup.
    flow: Option<Flow>,
    bytes: Vec<u8>,
}

/// RFC 3261 §18.1.1: transport of a request that is too large for UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switched {
    NotYet,
    ToTcp,
    /// TCP failed.
    BackToUdp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// A lookup is not answered.
    Lookup(SlabKey),
    /// No further 2xx can arrive for an accepted INVITE.
    Forget(SlabKey),
}

/// A request without a response (RFC 3261 §8.1.3.1), for [`UserAgent::apply`](crate::UserAgent).
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) key: SlabKey,
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
}

/// Result of a request for its owner.
#[derive(Debug)]
pub(crate) struct Answer<'m, 'a> {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// `None`: no response; the status is that of the failure (RFC 3261 §8.1.3.1).
    pub(crate) message: Option<&'m Message<'a>>,
}

/// Result of [`Requests::on_answer`].
#[derive(Debug)]
pub(crate) enum Outcome<'m, 'a> {
    /// Nothing is left to do.
    Handled,
    /// A challenge was accepted; [`Requests::send_again`] is to be called with the next CSeq.
    Challenged,
    /// A response for the owner.
    Answer(Answer<'m, 'a>),
}

/// Permission to answer challenges to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Challenges {
    Answered,
    /// For a cancelled call: its INVITE must not be sent again.
    Ignored,
}

/// Result of [`Requests::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// CANCEL was sent, or follows the first provisional response.
    Sent,
    /// The request had not been sent, and is removed.
    Unsent,
}

/// Reason for not sending a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// No listener has the transport and the address family.
    NoListener,
    /// The limit of concurrent requests is reached.
    TooMany,
    /// A value in it contains a line break.
    Unsafe,
}

impl NotSent {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NoListener => "no socket here can reach that transport and kind of address",
            Self::TooMany => "too many requests are under way",
            Self::Unsafe => "an address or name holds a line break",
        }
    }
}

impl Requests {
    pub(crate) fn new(shared: &mut Shared, now: Instant) -> Self {
        let secrets = &mut shared.random.secrets;
        let branch_key = BranchKey::new(secrets.bytes());
        let (timers, limits) = (shared.config.timers, shared.config.limits.transactions);
        Self {
            transactions: Transactions::new(0, timers, limits, secrets.bytes(), branch_key, now),
            active: Slab::default(),
            credentials: shared.config.accounts.iter().map(|_| AccountCredentials::new()).collect(),
            names: ResolvedNames::default(),
            peers: Peers::default(),
            tcp_failures: TcpFailures::default(),
            timers: Wheel::new(now),
            notices: Vec::new(),
            failures: VecDeque::new(),
            next_query: 1,
        }
    }

    /// Sends a request, at once or after a lookup.
    pub(crate) fn submit(
        &mut self,
        cx: &mut AgentContext<'_>,
        draft: Draft,
        purpose: Purpose,
    ) -> Result<SlabKey, NotSent> {
        if self.active.len() >= cx.config.limits.requests_max {
            cx.counters.too_many_requests += 1;
            return Err(NotSent::TooMany);
        }
        let key = self.active.insert(Request {
            draft,
            purpose,
            client: None,
            flow: None,
            connection: None,
            sent_at: cx.now(),
            rounds: 0,
            answered: SmallVec::new(),
            peer_credentials: None,
            credentials: Vec::new(),
            acks: Vec::new(),
            switched: Switched::NotYet,
            timer: TimerKey::NONE,
        });
        match self.route(cx, key) {
            Ok(()) => Ok(key),
            Err(why) => {
                self.active.remove(key);
                Err(why)
            }
        }
    }

    /// Sends OPTIONS. The result is an [`AgentEvent::QueryAnswered`](crate::AgentEvent::QueryAnswered).
    pub(crate) fn query(&mut self, cx: &mut AgentContext<'_>, draft: Draft) -> Result<QueryId, NotSent> {
        let query = QueryId(self.next_query);
        self.next_query += 1;
        self.submit(cx, draft, Purpose::Query(query)).map(|_| query)
    }

    /// Contents of a response to OPTIONS.
    pub(crate) fn abilities(
        &self,
        now: Instant,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) -> Option<Box<Abilities>> {
        let message = answer.message?;
        let sent_at = self.active.get(key)?.sent_at;
        let field = |name| {
            let lines: Vec<String> = message.lines_of(name).map(text).collect();
            lines.join(", ")
        };
        let user_agent = [HeaderName::UserAgent, HeaderName::Server].map(field);
        Some(Box::new(Abilities {
            allow: field(HeaderName::Allow),
            supported: field(HeaderName::Supported),
            accept: field(HeaderName::Accept),
            user_agent: user_agent.into_iter().find(|name| !name.is_empty()).unwrap_or_default(),
            round_trip: now.since(sent_at),
        }))
    }

    /// Sends the request again with another CSeq.
    pub(crate) fn send_again(&mut self, cx: &mut AgentContext<'_>, key: SlabKey, cseq: Option<u32>) {
        if let Some(request) = self.active.get_mut(key) {
            request.draft.cseq = cseq.unwrap_or(request.draft.cseq.saturating_add(1));
            request.client = None;
        }
        if let Err(why) = self.route(cx, key) {
            self.fail(key, 503, why.reason());
        }
    }

    /// Cancels an INVITE (RFC 3261 §9.1). The CANCEL is sent after the first provisional response.
    pub(crate) fn cancel(&mut self, cx: &mut AgentContext<'_>, key: SlabKey) -> Cancelled {
        let Some(request) = self.active.get(key) else { return Cancelled::Unsent };
        match request.client {
            Some(client) => {
                self.transactions.cancel(&mut cx.io, client);
                Cancelled::Sent
            }
            None => {
                self.forget(key);
                Cancelled::Unsent
            }
        }
    }

    /// Removes a request and its timer.
    pub(crate) fn forget(&mut self, key: SlabKey) {
        if let Some(request) = self.active.remove(key) {
            self.timers.cancel(request.timer);
        }
    }

    pub(crate) fn purpose(&self, key: SlabKey) -> Option<Purpose> {
        self.active.get(key).map(|request| request.purpose)
    }

    pub(crate) fn draft(&self, key: SlabKey) -> Option<&Draft> {
        self.active.get(key).map(|request| &request.draft)
    }

    /// Flow that a request was sent to.
    pub(crate) fn flow(&self, key: SlabKey) -> Option<Flow> {
        self.active.get(key).and_then(|request| request.flow)
    }

    /// Number of 2xx responses to an INVITE that were acknowledged.
    pub(crate) fn ack_count(&self, key: SlabKey) -> usize {
        self.active.get(key).map_or(0, |request| request.acks.len())
    }

    /// True if no peer can have seen the request, not even without its present credentials.
    pub(crate) fn was_never_sent(&self, key: SlabKey) -> bool {
        self.active.get(key).is_some_and(|request| request.client.is_none() && request.rounds == 0)
    }

    /// Number of requests for this purpose.
    pub(crate) fn count_of(&self, purpose: Purpose) -> usize {
        self.active.iter().filter(|(_, request)| request.purpose == purpose).count()
    }

    /// Number of requests that are kept.
    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    /// True if every request has its final response.
    pub(crate) fn is_done(&self) -> bool {
        self.active.iter().all(|(_, request)| !request.acks.is_empty())
    }

    pub(crate) const fn transactions(&self) -> &Transactions<Option<CallId>, SlabKey> {
        &self.transactions
    }

    /// Finds the request of a response, and its purpose. `None`: the response is handled.
    pub(crate) fn receive_response(
        &mut self,
        cx: &mut AgentContext<'_>,
        message: &Message<'_>,
        status: u16,
        flow: Flow,
    ) -> Option<(SlabKey, Purpose)> {
        let (client, key) = match self.transactions.receive_response(&mut cx.io, message, status, |_| true) {
            ringway_transaction::Answer::Pass { client, owner } => (client, owner),
            ringway_transaction::Answer::Absorbed => return None,
            ringway_transaction::Answer::Stateless(_)
            | ringway_transaction::Answer::Elsewhere
            | ringway_transaction::Answer::Stray => {
                cx.counters.stray += 1;
                return None;
            }
        };
        if let (Some(connection), Some(request)) = (flow.connection, self.active.get_mut(key)) {
            request.connection = Some(connection);
            self.tcp_failures.forget(flow.remote);
            let is_displaced = self.peers.note(flow.remote, connection);
            cx.counters.connections_displaced += u64::from(is_displaced);
        }
        let Some(request) = self.active.get(key).filter(|request| request.client == Some(client)) else {
            cx.counters.stray += 1;
            return None;
        };
        Some((key, request.purpose))
    }

    /// Handles a response whose request [`Requests::receive_response`] has found.
    pub(crate) fn on_answer<'m, 'a>(
        &mut self,
        cx: &mut AgentContext<'_>,
        key: SlabKey,
        message: &'m Message<'a>,
        source: SocketAddr,
        status: u16,
        challenges: Challenges,
    ) -> Outcome<'m, 'a> {
        let Some(request) = self.active.get(key) else { return Outcome::Handled };
        let is_accepted_invite = request.draft.method == Method::Invite && (200..300).contains(&status);
        if is_accepted_invite && self.retransmit_ack(cx, key, message) {
            return Outcome::Handled;
        }
        let mut reason = match *message.start() {
            Start::Response { reason, .. } => text(reason),
            Start::Request { .. } => String::new(),
        };
        if let Some(warning) = message.first(HeaderName::Warning).filter(|_| status >= 300) {
            reason.push_str(": ");
            reason.push_str(&warning_text(warning));
        }
        if matches!(status, 401 | 407) && challenges == Challenges::Answered {
            match self.answer_challenge(cx, key, message, source, status) {
                Ok(()) => return Outcome::Challenged,
                Err(Unanswered::NoSecret) if reason.is_empty() => reason = Unanswered::NoSecret.reason(),
                Err(why) => reason = why.reason(),
            }
        }
        if status >= 200 {
            self.take_next_nonce(cx, key, message, source);
        }
        if is_accepted_invite {
            self.keep_until_forks_are_over(cx, key);
        }
        Outcome::Answer(Answer { status, reason, message: Some(message) })
    }

    /// Handles the result of a lookup.
    pub(crate) fn on_resolved(&mut self, cx: &mut AgentContext<'_>, query: u64, servers: LocatedServers) {
        let key = key_of(query);
        let Some(request) = self.active.get_mut(key).filter(|request| request.client.is_none()) else {
            return;
        };
        self.timers.cancel(request.timer);
        let next_hop = request.draft.next_hop.clone();
        let mut usable = servers.iter().filter(|server| may_send_to(server.address.ip().to_canonical()));
        let Some(server) = usable.next() else {
            cx.counters.names_not_found += 1;
            return self.fail(key, 503, "no address was found for the host name");
        };
        let is_displaced = self.names.remember(cx.now(), next_hop, server);
        cx.counters.names_displaced += u64::from(is_displaced);
        if let Err(why) = self.transmit(cx, key, server) {
            self.fail(key, 503, why.reason());
        }
    }

    /// Handles the report that the packet with this token could not be sent.
    pub(crate) fn on_unreachable(&mut self, cx: &mut AgentContext<'_>, token: Token) {
        self.transactions.unreachable(&mut cx.io, token, &mut self.notices);
    }

    /// Handles an ICMP error for a datagram.
    pub(crate) fn on_icmp_error(&mut self, cx: &mut AgentContext<'_>, error: IcmpError<'_>) {
        self.transactions.icmp_error(&mut cx.io, error, &mut self.notices);
    }

    /// Handles the end of a connection: requests that were sent on it fail at once (RFC 3261 §8.1.3.1). A request on a connection
    /// without any response yet fails with [`Event::Unreachable`](ringway_sansio::Event::Unreachable).
    pub(crate) fn on_closed(&mut self, connection: ConnectionId) {
        self.peers.forget(connection);
        let is_lost = |request: &Request| request.connection == Some(connection) && request.acks.is_empty();
        let lost: Vec<SlabKey> =
            self.active.iter().filter(|(_, request)| is_lost(request)).map(|(key, _)| key).collect();
        for key in lost {
            let client = self.active.get_mut(key).and_then(|request| request.client.take());
            if let Some(client) = client {
                self.transactions.drop_client(client);
                self.fail(key, 503, "the connection ended before the answer");
            }
        }
    }

    /// Handles the timers of the transactions that are due.
    pub(crate) fn on_transaction_timeout(&mut self, cx: &mut AgentContext<'_>) {
        self.transactions.on_timeout(&mut cx.io, &mut self.notices);
    }

    /// Handles the timers of requests that are due.
    pub(crate) fn on_timeout(&mut self, cx: &mut AgentContext<'_>) {
        while let Some(timer) = self.timers.expire(cx.now()) {
            match timer {
                Timer::Lookup(key) => {
                    if self.active.get(key).is_some_and(|request| request.client.is_none()) {
                        cx.counters.names_not_found += 1;
                        self.fail(key, 503, "the host name was not looked up in time");
                    }
                }
                Timer::Forget(key) => self.forget(key),
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Deadline> {
        let own = self.timers.next_due().map(|at| Deadline { at, reason: "a lookup, or an accepted INVITE" });
        [self.transactions.next_deadline(), own].into_iter().flatten().min_by_key(|due| due.at)
    }

    /// Takes the next failure of which the owner must be notified.
    pub(crate) fn next_failure(&mut self, cx: &mut AgentContext<'_>) -> Option<Failure> {
        self.handle_notices(cx);
        while let Some(failure) = self.failures.pop_front() {
            // An accepted INVITE has had its response.
            if self.active.get(failure.key).is_some_and(|request| request.acks.is_empty()) {
                return Some(failure);
            }
        }
        None
    }

    fn handle_notices(&mut self, cx: &mut AgentContext<'_>) {
        let mut notices = core::mem::take(&mut self.notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::ClientTimedOut { client, owner } => {
                    if self.is_current(client, owner) {
                        // A server that lost its associations says nothing: the next request must begin another one.
                        let flow = self.active.get(owner).and_then(|request| request.flow);
                        match flow.map(|flow| (flow, flow.transport)) {
                            Some((flow, Transport::Dtls)) => cx.io.out.disconnect(flow),
                            // Fragments may be lost there; TCP may work by now.
                            Some((flow, Transport::Udp)) => self.tcp_failures.forget(flow.remote),
                            Some((_, Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss))
                            | None => {}
                        }
                        self.fail(owner, 408, "nobody answered");
                    }
                }
                Notice::ClientUnreachable { client, owner } => {
                    if self.is_current(client, owner) {
                        self.on_undelivered(cx, owner);
                    }
                }
            }
        }
        self.notices = notices;
        while self.transactions.take_gone().is_some() {}
    }

    /// False for a transaction whose request was sent again in another one.
    fn is_current(&self, client: ClientId, owner: SlabKey) -> bool {
        self.active.get(owner).is_some_and(|request| request.client == Some(client))
    }

    /// Queues a failure. The request stays until its owner is notified.
    fn fail(&mut self, key: SlabKey, status: u16, reason: &'static str) {
        self.failures.push_back(Failure { key, status, reason });
    }
}

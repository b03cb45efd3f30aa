//! The phone: owns the user agent, its calls and what belongs to them.

use crate::call::{History, Mapping, Media};
use crate::{
    Action, Call, CallEnd, CallNumber, PastCall, Phase, PhoneConfig, PhoneEvent, SrtpPolicy, StunServer,
    TransferPolicy,
};
use alloc::format;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use ringway_agent::{Account, AccountId, BadAccount, CallId, UserAgent};
use ringway_sansio::{
    Context, Deadline, Entropy, Event, IcmpError, Instant, Node, Received, Seed, ShardKey, Target, Transport,
};

/// A telephone with one account: signalling, calls, their media and protection.
///
/// A driver runs it as a [`Node`]. Commands are methods that take a [`Context`] too; results are reported as
/// [`Action::Event`]. `command.rs` has the commands, `signalling.rs` the events of the user agent, `media.rs` those of the
/// media.
pub struct Phone {
    pub(crate) agent: UserAgent,
    /// Actions of the user agent that are not handled yet.
    agent_actions: Vec<ringway_agent::Action>,
    pub(crate) config: PhoneConfig,
    pub(crate) entropy: Entropy,
    pub(crate) calls: Vec<Call>,
    last_number: u64,
    history: History,
    /// Address of the STUN server; `None`: there is none, or it is not resolved.
    pub(crate) stun: Option<SocketAddr>,
    is_ringing: bool,
    pub(crate) counters: PhoneCounters,
}

/// Reason why a phone cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhoneError {
    /// The account is not usable.
    #[error(transparent)]
    Account(#[from] BadAccount),
    /// DTLS-SRTP is required, but there is no certificate.
    #[error("DTLS-SRTP is not part of this build; use best, sdes or zrtp")]
    NoDtls,
}

/// Counters of a phone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhoneCounters {
    /// Incoming calls that got 486 because of [`PhoneLimits::calls_max`](crate::PhoneLimits::calls_max) or
    /// [`PhoneLimits::waiting_max`](crate::PhoneLimits::waiting_max).
    pub busy: u64,
    /// Digits dropped from the record of a call, because it was full.
    pub digits_dropped: u64,
    /// Calls dropped from the history, because it was full.
    pub history_dropped: u64,
}

impl Phone {
    /// A phone that is not registered yet: see [`Phone::start`]. `seed` is its only source of randomness.
    ///
    /// # Errors
    /// The account is not usable, or DTLS-SRTP is required and the build does not have it.
    pub fn new(mut config: PhoneConfig, seed: &Seed, now: Instant) -> Result<Self, PhoneError> {
        if config.srtp == SrtpPolicy::Dtls && config.session.dtls.is_none() {
            return Err(PhoneError::NoDtls);
        }
        // A phone that rejects transfers has no room for a call that replaces another.
        config.agent.takes_replaces = config.transfers == TransferPolicy::Ask;
        let agent = UserAgent::new(config.agent.clone(), seed.part(AGENT), now)?;
        Ok(Self {
            agent,
            agent_actions: Vec::new(),
            entropy: Entropy::new(&seed.part(CALLS)),
            calls: Vec::new(),
            last_number: 0,
            history: History::default(),
            stun: None,
            is_ringing: false,
            counters: PhoneCounters::default(),
            config,
        })
    }

    /// Registers the account where it says so, and resolves the STUN server.
    pub fn start(&mut self, cx: &mut Context<'_, Action>) {
        if let Some(StunServer { host, port }) = &self.config.stun {
            match host.trim_matches(['[', ']']).parse::<IpAddr>() {
                Ok(ip) => self.on_stun_resolved(cx, Some(ip)),
                Err(_) => {
                    let target = Target::of_address(host, *port, Transport::Udp);
                    cx.emit(Action::Resolve { query: STUN_QUERY, target });
                }
            }
        }
        match self.account().is_some_and(|account| account.register) {
            true => self.register(cx),
            false => cx.emit(PhoneEvent::Unregistered),
        }
        self.settle(cx);
    }

    /// The account.
    pub fn account(&self) -> Option<&Account> {
        self.config.agent.accounts.first()
    }

    /// All calls that are not over, oldest first.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    /// A call that is not over.
    pub fn call(&self, number: CallNumber) -> Option<&Call> {
        self.calls.iter().find(|call| call.number == number)
    }

    /// Calls that are over, newest first.
    pub fn history(&self) -> impl Iterator<Item = &PastCall> {
        self.history.iter()
    }

    /// The counters.
    pub const fn counters(&self) -> &PhoneCounters {
        &self.counters
    }

    /// The user agent, for its counters.
    pub const fn agent(&self) -> &UserAgent {
        &self.agent
    }

    /// True when no call is left and no request waits for its response.
    pub fn is_done(&self) -> bool {
        self.agent.is_done()
    }

    pub(crate) fn register(&mut self, cx: &mut Context<'_, Action>) {
        cx.emit(PhoneEvent::Registering);
        self.with_agent(cx, |agent, cx| agent.register(cx, ACCOUNT));
    }

    /// Runs `f` with the user agent; [`Phone::settle`] handles the events of it.
    pub(crate) fn with_agent<R>(
        &mut self,
        cx: &mut Context<'_, Action>,
        f: impl FnOnce(&mut UserAgent, &mut Context<'_, ringway_agent::Action>) -> R,
    ) -> R {
        f(&mut self.agent, &mut Context::new(cx.now, cx.out, &mut self.agent_actions))
    }

    /// Handles the events of the user agent. Every entry point ends with it.
    pub(crate) fn settle(&mut self, cx: &mut Context<'_, Action>) {
        loop {
            self.announce_waiting(cx);
            if self.agent_actions.is_empty() {
                break;
            }
            for action in core::mem::take(&mut self.agent_actions) {
                match action {
                    ringway_agent::Action::Resolve { query, target } => {
                        cx.emit(Action::Resolve { query, target });
                    }
                    ringway_agent::Action::Event(event) => self.on_agent_event(cx, event),
                }
            }
        }
        self.release_media(cx);
        let mut live = self.calls.iter().filter(|call| call.end.is_none());
        let is_ringing = matches!(
            (live.next(), live.next()),
            (Some(Call { phase: Phase::RingsHere, waiting: None, .. }), None)
        );
        if is_ringing != self.is_ringing {
            self.is_ringing = is_ringing;
            cx.emit(if is_ringing { Action::StartRinging } else { Action::StopRinging });
        }
    }

    pub(crate) const fn new_number(&mut self) -> CallNumber {
        self.last_number += 1;
        CallNumber(self.last_number)
    }

    pub(crate) fn call_mut(&mut self, number: CallNumber) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.number == number)
    }

    pub(crate) fn number_of(&self, id: CallId) -> Option<CallNumber> {
        self.calls.iter().find(|call| call.id == Some(id)).map(Call::number)
    }

    /// Asks the front end to close the media of a call.
    pub(crate) fn close_media(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        let Some(call) = self.call_mut(number) else { return };
        call.mapping = None;
        if call.media == Media::Open {
            call.media = Media::Closing;
            cx.emit(Action::CloseMedia { call: number });
        }
    }

    /// Ends a call; it is over when its media is closed, so that no event of the media comes behind [`PhoneEvent::Ended`].
    pub(crate) fn end_call(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, end: CallEnd) {
        self.close_media(cx, number);
        if let Some(call) = self.call_mut(number) {
            call.phase = Phase::Ending;
            call.id = None;
            call.end.get_or_insert(end);
        }
        self.finish(cx, number);
    }

    /// Removes a call that has ended, has no media and is known to the front end.
    pub(crate) fn finish(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        let is_over = |call: &Call| {
            call.number == number
                && call.media == Media::Closed
                && call.end.is_some()
                && call.waiting.is_none()
        };
        let Some(place) = self.calls.iter().position(is_over) else { return };
        let call = self.calls.remove(place);
        let (role, talked) = (call.role(), call.talking_since.map(|since| cx.now.since(since)));
        let Call { name, uri, end: Some(end), .. } = call else { return };
        let CallEnd { by, status, reason } = end.clone();
        let past = PastCall { number, role, name, uri, talked, end };
        self.counters.history_dropped += u64::from(self.history.push(past, self.config.limits.history_max));
        cx.emit(PhoneEvent::Ended { call: number, by, status, reason });
    }

    fn on_stun_resolved(&mut self, cx: &mut Context<'_, Action>, address: Option<IpAddr>) {
        let Some(StunServer { host, port }) = &self.config.stun else { return };
        let is_ipv4 = self.config.agent.listeners.first().is_none_or(|listener| listener.address.is_ipv4());
        match address.filter(|ip| ip.is_ipv4() == is_ipv4) {
            Some(ip) => self.stun = Some(SocketAddr::new(ip, *port)),
            None => {
                let reason = format!("no address is known for {host}");
                cx.emit(PhoneEvent::StunFailed { reason });
            }
        }
    }
}

impl Node for Phone {
    type Action = Action;
    type Framer = <UserAgent as Node>::Framer;

    fn shard_of(key: &ShardKey, bytes: &[u8], shards: u16) -> u16 {
        UserAgent::shard_of(key, bytes, shards)
    }

    fn on_message(&mut self, cx: &mut Context<'_, Action>, received: Received<'_>) {
        self.with_agent(cx, |agent, cx| agent.on_message(cx, received));
        self.settle(cx);
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        match event {
            Event::Resolved { query: STUN_QUERY, servers } => {
                self.on_stun_resolved(cx, servers.first().map(|server| server.address.ip()));
            }
            event => self.with_agent(cx, |agent, cx| agent.on_event(cx, event)),
        }
        self.settle(cx);
    }

    fn shard_of_quoted(quoted: &[u8], shards: u16) -> Option<u16> {
        UserAgent::shard_of_quoted(quoted, shards)
    }

    fn on_icmp_error(&mut self, cx: &mut Context<'_, Action>, error: IcmpError<'_>) {
        self.with_agent(cx, |agent, cx| agent.on_icmp_error(cx, error));
        self.settle(cx);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        self.with_agent(cx, UserAgent::on_timeout);
        self.end_late_mappings(cx);
        self.settle(cx);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let mappings = self.calls.iter().filter_map(|call| call.mapping.as_ref());
        let mapping = mappings.map(|mapping: &Mapping| mapping.until).min();
        let mapping = mapping.map(|at| Deadline { at, reason: "the STUN server's time is over" });
        [self.agent.next_deadline(), mapping].into_iter().flatten().min_by_key(|due| due.at)
    }
}

/// The account there is.
pub(crate) const ACCOUNT: AccountId = AccountId(0);

/// Query for the STUN server; the user agent counts its own from 0.
const STUN_QUERY: u64 = u64::MAX;

/// Parts of the seed.
const AGENT: u64 = 0;
const CALLS: u64 = 1;

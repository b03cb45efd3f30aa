//! A phone as a whole: its signalling on a worker, and a media thread for each call.
//!
//! Whoever has one asks it for things and then [waits](Telephone::wait) for what happens, on one thread. What was agreed
//! on for a call's sound goes from the one to the other in here.

use crate::failure::Failure;
use crate::phone::line::{Line, Told};
use crate::phone::settings::{MediaSettings, Settings};
use crate::random;
use ringway_agent::{
    AccountId, Action, AgentEvent, CallError, CallId, CallState, Config, Listener, QueryId, Role, UserAgent,
};
use ringway_linux::{ActionSink, Bound, Clock, Listen, Resolver, Runtime};
use ringway_sansio::{Context, Event, Transport};
use ringway_sdp::LocalMedia;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What happens at a phone.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
pub(crate) enum Happening {
    /// In its signalling.
    Agent {
        /// When.
        at: std::time::Instant,
        /// What.
        event: AgentEvent,
    },
    /// In a call's sound.
    Media(CallId, Told),
}

/// A running phone.
pub(crate) struct Telephone {
    runtime: Runtime<UserAgent>,
    events: Receiver<(std::time::Instant, AgentEvent)>,
    lines: Vec<(CallId, Line)>,
    clock: Clock,
    advertised: IpAddr,
    stun: Option<SocketAddr>,
}

impl Telephone {
    /// Binds its listeners and begins; nothing is registered yet.
    pub(crate) fn start(settings: &Settings, ring: Duration) -> Result<Self, Failure> {
        let clock = Clock::new();
        let bound = bind(settings.bind)?;
        let listener = |listen: &Listen| Listener {
            transport: listen.transport,
            address: SocketAddr::new(settings.advertised, listen.address.port()),
        };
        let mut config =
            Config::new(vec![settings.account.clone()], bound.addresses().iter().map(listener).collect());
        config.ring = ring;
        config.caller_auth.clone_from(&settings.caller_auth);
        config.large_requests = settings.large_requests;
        config.trace = settings.trace;
        let agent = UserAgent::new(config, random::seed()?, clock.now())
            .map_err(|error| Failure::usage(error.to_string()))?;
        let (tell, events) = channel();
        let resolver = start_resolver(&bound, settings.bind.is_ipv4())?;
        let runtime_config = ringway_linux::Config { clock, ..ringway_linux::Config::default() };
        let sink = Arc::new(Sink { tell, resolver });
        let runtime = Runtime::start(bound, runtime_config, vec![agent], sink)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let Settings { advertised, stun, .. } = *settings;
        Ok(Self { runtime, events, lines: Vec::new(), clock, advertised, stun })
    }

    /// Where it listens.
    pub(crate) fn listeners(&self) -> &[Listen] {
        self.runtime.listeners()
    }

    /// Registers its account, and keeps it so.
    pub(crate) fn register(&mut self) -> Result<(), Failure> {
        self.ask(|agent, cx| agent.register(cx, ACCOUNT))
    }

    /// Calls somebody; with the call comes when its INVITE was asked for, which is after a STUN server was waited for.
    pub(crate) fn call(
        &mut self,
        target: &str,
        media: &MediaSettings,
    ) -> Result<(CallId, std::time::Instant), Failure> {
        let (line, local) = self.open_line(media, Role::Caller)?;
        let begun = std::time::Instant::now();
        let target = target.to_owned();
        let may_downgrade = media.may_downgrade;
        let call = self.ask(move |agent, cx| {
            let call = agent.call(cx, ACCOUNT, &target, local)?;
            if may_downgrade {
                agent.allow_unprotected(call, true)?;
            }
            Ok(call)
        })?;
        let call = call.map_err(|error: CallError| Failure::failed(format!("cannot call: {error}")))?;
        self.lines.push((call, line));
        Ok((call, begun))
    }

    /// Sends OPTIONS to `target`.
    pub(crate) fn query(&mut self, target: &str) -> Result<QueryId, Failure> {
        let target = target.to_owned();
        let query = self.ask(move |agent, cx| agent.query(cx, ACCOUNT, &target))?;
        query.map_err(|error| Failure::failed(format!("cannot ask: {error}")))
    }

    /// True for a call that rings here.
    pub(crate) fn is_ringing(&self, call: CallId) -> Result<bool, Failure> {
        self.ask(move |agent, _| agent.call_state(call) == Some(CallState::Ringing))
    }

    /// Says that it rings.
    pub(crate) fn ring(&mut self, call: CallId) -> Result<(), Failure> {
        self.ask_live(call, move |agent, cx| agent.ring(cx, call, 180))
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, call: CallId, media: &MediaSettings) -> Result<(), Failure> {
        let (line, local) = self.open_line(media, Role::Callee)?;
        let may_downgrade = media.may_downgrade;
        self.ask_call(move |agent, cx| {
            agent.answer(cx, call, local)?;
            if may_downgrade { agent.allow_unprotected(call, true) } else { Ok(()) }
        })?;
        self.lines.push((call, line));
        Ok(())
    }

    /// Refuses a call.
    pub(crate) fn reject(&mut self, call: CallId, status: u16) -> Result<(), Failure> {
        self.ask_live(call, move |agent, cx| agent.reject(cx, call, status))
    }

    /// Ends a call, or cancels one that is not answered.
    pub(crate) fn hang_up(&mut self, call: CallId) -> Result<(), Failure> {
        if let Some(line) = self.line(call) {
            line.given_up();
        }
        self.ask_live(call, move |agent, cx| agent.hang_up(cx, call))
    }

    /// Puts the other side on hold.
    pub(crate) fn hold(&mut self, call: CallId) -> Result<(), Failure> {
        self.ask_live(call, move |agent, cx| agent.hold(cx, call))
    }

    /// Takes the call up again.
    pub(crate) fn resume(&mut self, call: CallId) -> Result<(), Failure> {
        self.ask_live(call, move |agent, cx| agent.resume(cx, call))
    }

    /// Asks the other side to call somebody else instead of us.
    pub(crate) fn transfer(&mut self, call: CallId, target: &str) -> Result<(), Failure> {
        let target = target.to_owned();
        self.ask_call(move |agent, cx| agent.transfer(cx, call, &target))
    }

    /// Calls whom the other side names instead.
    pub(crate) fn accept_transfer(&mut self, call: CallId, media: &MediaSettings) -> Result<CallId, Failure> {
        let (line, local) = self.open_line(media, Role::Caller)?;
        let asked = self.ask(move |agent, cx| agent.accept_transfer(cx, call, local))?;
        let call = asked.map_err(|error| Failure::failed(format!("cannot call: {error}")))?;
        self.lines.push((call, line));
        Ok(call)
    }

    /// Does not call whom the other side names instead.
    pub(crate) fn reject_transfer(&mut self, call: CallId) -> Result<(), Failure> {
        self.ask_live(call, move |agent, cx| agent.reject_transfer(cx, call))
    }

    /// The sound of a call.
    pub(crate) fn line(&mut self, call: CallId) -> Option<&mut Line> {
        self.lines.iter_mut().find(|(of, _)| *of == call).map(|(_, line)| line)
    }

    /// Ends a call's sound, to ask it for what it has seen.
    pub(crate) fn take_line(&mut self, call: CallId) -> Option<Line> {
        let place = self.lines.iter().position(|(of, _)| *of == call)?;
        Some(self.lines.swap_remove(place).1)
    }

    /// What happens next; `None`: nothing did for so long.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Result<Option<Happening>, Failure> {
        let end = std::time::Instant::now() + at_most;
        loop {
            for (call, line) in &mut self.lines {
                if let Some(told) = line.poll() {
                    return Ok(Some(Happening::Media(*call, told)));
                }
            }
            if self.runtime.has_failed() {
                return Err(Failure::failed("the phone's worker thread ended by itself; start it again"));
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            let step = if self.lines.is_empty() { left.min(LOOK_EVERY_IDLE) } else { left.min(LOOK_EVERY) };
            match self.events.recv_timeout(step) {
                Ok((at, event)) => {
                    self.hand_over(&event);
                    return Ok(Some(Happening::Agent { at, event }));
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::failed("the phone's worker thread is gone; start it again"));
                }
            }
        }
    }

    /// Ends calls and the registration, and waits a moment for the others to know. What happened in its signalling
    /// meanwhile: the answer to a BYE, for one.
    pub(crate) fn shut_down(mut self) -> Vec<AgentEvent> {
        // Without a worker there is nobody to tell.
        let _ = self.ask(|agent, cx| agent.shut_down(cx));
        self.lines.clear();
        self.runtime.stop(GRACE, UserAgent::is_done);
        self.events.try_iter().map(|(_, event)| event).collect()
    }

    /// What was agreed on, from signalling to sound.
    fn hand_over(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Progress { call, status: RINGING } => {
                if let Some(line) = self.line(*call) {
                    line.ring_there();
                }
            }
            AgentEvent::Answered { call, params } => {
                if let Some(line) = self.line(*call) {
                    line.set_params(params.clone());
                    line.answered();
                }
            }
            AgentEvent::EarlyMedia { call, params } | AgentEvent::MediaChanged { call, params } => {
                if let Some(line) = self.line(*call) {
                    line.set_params(params.clone());
                }
            }
            _ => {}
        }
    }

    /// Ports and sound for a call.
    fn open_line(&self, media: &MediaSettings, role: Role) -> Result<(Line, LocalMedia), Failure> {
        Line::open(media, role, self.advertised, self.stun, random::seed()?, self.clock)
    }

    fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let asked = self.runtime.shards().call(0, f);
        asked.ok_or_else(|| Failure::failed("the phone's worker thread is gone; start it again"))
    }

    /// Asks for something that a call which is over needs no more. It may be over before its `Ended` is read here: the
    /// other side decides when, and that must end no program.
    fn ask_live(
        &self,
        call: CallId,
        f: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> Result<(), CallError> + Send + 'static,
    ) -> Result<(), Failure> {
        self.ask_call(move |agent, cx| match agent.call_state(call) {
            None | Some(CallState::Leaving) => Ok(()),
            Some(_) => f(agent, cx),
        })
    }

    fn ask_call(
        &self,
        f: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> Result<(), CallError> + Send + 'static,
    ) -> Result<(), Failure> {
        self.ask(f)?.map_err(|error| Failure::failed(error.to_string()))
    }
}

/// Where the agent's wishes go.
struct Sink {
    tell: Sender<(std::time::Instant, AgentEvent)>,
    resolver: Resolver,
}

impl ActionSink<Action> for Sink {
    fn act(&self, _worker: usize, shard: u16, actions: std::vec::Drain<'_, Action>) -> u64 {
        for action in actions {
            match action {
                Action::Resolve { query, host } => {
                    // A question that is not taken is one that nobody answers: the agent gives it up after a while.
                    self.resolver.ask(shard, query, &host);
                }
                Action::Event(event) => {
                    // It fails when the phone is being ended, and nobody wants to know.
                    let _ = self.tell.send((std::time::Instant::now(), event));
                }
            }
        }
        0
    }

    fn stored_through(&self) -> u64 {
        0
    }
}

/// One address by both transports, at the same port where that is free.
fn bind(address: SocketAddr) -> Result<Bound, Failure> {
    let failed = |error: ringway_linux::BindError| Failure::failed(error.to_string());
    let listen = |transport, address| Listen { transport, address };
    if address.port() != 0 {
        let both = [listen(Transport::Udp, address), listen(Transport::Tcp, address)];
        return Bound::bind(&both, 1).map_err(failed);
    }
    for _ in 0..PORT_TRIES {
        let free = Bound::bind(&[listen(Transport::Udp, address)], 1).map_err(failed)?;
        let Some(taken) = free.addresses().first().map(|listen| listen.address) else { break };
        drop(free);
        let both = [listen(Transport::Udp, taken), listen(Transport::Tcp, taken)];
        if let Ok(bound) = Bound::bind(&both, 1) {
            return Ok(bound);
        }
    }
    Bound::bind(&[listen(Transport::Udp, address), listen(Transport::Tcp, address)], 1).map_err(failed)
}

fn start_resolver(bound: &Bound, is_ipv4: bool) -> Result<Resolver, Failure> {
    let inboxes = bound.inboxes();
    let usable = move |ip: &IpAddr| ip.is_ipv4() == is_ipv4;
    let answer = move |query, shard, address| {
        inboxes.deliver(shard, Event::Resolved { query, address });
    };
    Resolver::start(usable, answer).map_err(|error| Failure::failed(format!("cannot start threads: {error}")))
}

/// A phone without a screen has one.
const ACCOUNT: AccountId = AccountId(0);

/// RFC 3261 §21.1.2.
const RINGING: u16 = 180;

/// How often sound is asked what happened in it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often it is looked whether the worker still runs.
const LOOK_EVERY_IDLE: Duration = Duration::from_millis(500);

/// How long others have to answer the last BYE and the last REGISTER.
const GRACE: Duration = Duration::from_secs(2);

/// Free UDP ports that are tried for TCP too.
const PORT_TRIES: u32 = 16;

//! Registrations of trunks at their carriers (RFC 3261 §10.2, decision 0057): the first shard keeps them.
//!
//! ```text
//! waiting ── due ──► locating ──► sent ── 2xx ──► waiting, to refresh
//!    ▲                  │          │ 401, 407: sent again with credentials
//!    └───── back-off ◄──┴──────────┘
//! ```

use super::line::write_contact;
use super::sending::Sending;
use super::{Asker, CSEQ_MAX};
use crate::base::{Env, Owner, RegistrationId, Transactions};
use crate::config::{Advertised, SentBy, Trunk};
use crate::dialog::route::{NextHop, hop_of, hop_to};
use crate::tables::{CallRequest, PAUSE_MAX, put_last, retry_after};
use crate::{Action, Config, LogEvent, TrunkEvent};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_auth::Covered;
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServers, Rng, Seed};
use ringway_sip::grammar::number_u32;
use ringway_sip::{Contact, HeaderName, Message, MessageWriter, Method, Uri, hex16, write_number, write_via};
use ringway_transaction::{ClientId, Notice, Outgoing};

/// Registrations of the first shard.
pub(crate) struct Registrations {
    list: Vec<Registration>,
    rng: Rng,
    is_keeper: bool,
    /// Requests of registrations that a reload replaced or removed.
    ended: Vec<ClientId>,
    /// Addresses that contacts have: other ones are registered at once.
    advertised: Vec<Advertised>,
}

struct Registration {
    /// Its number in requests and lookups, which a reload does not change.
    number: u16,
    /// Index of its trunk.
    trunk: usize,
    /// The trunk as it was when this registration began.
    of: Trunk,
    phase: Phase,
    flow: Option<Flow>,
    client: Option<ClientId>,
    /// Connection over which the carrier registered it, and the time.
    registered_by: Option<(ConnectionId, Instant)>,
    /// Number of the Call-ID, and of the last request in it (RFC 3261 §10.2).
    call: u64,
    cseq: u32,
    attempt: u32,
    failures: u32,
    /// Challenges that were answered in this attempt.
    logins: u8,
    /// Seconds that are requested.
    expires_s: u32,
    is_raised: bool,
    is_registered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first attempt begins after this time.
    New(Duration),
    /// The next attempt begins at this time.
    Waiting(Instant),
    /// The servers of its host name are being looked up, until this time at most.
    Locating(Instant),
    Sent,
}

impl Registrations {
    pub(crate) fn new(config: &Config, seed: &Seed, shard: u16) -> Self {
        let rng = Rng::new(&seed.part(REGISTRATION_KEY));
        let mut registrations =
            Self { list: Vec::new(), rng, is_keeper: shard == 0, ended: Vec::new(), advertised: Vec::new() };
        registrations.reconfigure(config);
        registrations
    }

    /// Applies a configuration: a trunk that is the same keeps its registration.
    pub(crate) fn reconfigure(&mut self, config: &Config) {
        if !self.is_keeper || !cfg!(feature = "operator") {
            return;
        }
        let is_moved = self.advertised != config.advertised;
        self.advertised.clone_from(&config.advertised);
        let mut before = core::mem::take(&mut self.list);
        let used: BTreeSet<u16> = before.iter().map(|present| present.number).collect();
        let mut next = 0;
        for (index, trunk) in config.trunking.registering() {
            let same = before.iter().position(|present| {
                (&present.of.name, &present.of.uri, &present.of.login, &present.of.domain)
                    == (&trunk.name, &trunk.uri, &trunk.login, &trunk.domain)
            });
            self.list.push(match same {
                Some(at) => {
                    let present = before.swap_remove(at);
                    let phase = match present.phase {
                        Phase::Waiting(_) if is_moved => Phase::Waiting(Instant::default()),
                        phase => phase,
                    };
                    Registration { trunk: index, of: trunk.clone(), phase, ..present }
                }
                None => {
                    let number = (next..=u16::MAX).find(|number| !used.contains(number)).unwrap_or_default();
                    next = number.saturating_add(1);
                    Registration::new((number, index), trunk, &mut self.rng)
                }
            });
        }
        self.ended.extend(before.into_iter().filter_map(|gone| gone.client));
    }

    /// Sends nothing any more, because the server stops.
    pub(crate) fn stop(&mut self) {
        self.is_keeper = false;
        self.ended.extend(self.list.drain(..).filter_map(|registration| registration.client));
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        if !self.ended.is_empty() {
            return Some(Instant::default());
        }
        let due = self.list.iter().filter_map(|registration| match registration.phase {
            Phase::New(_) => Some(Instant::default()),
            Phase::Waiting(at) | Phase::Locating(at) => Some(at),
            Phase::Sent => None,
        });
        due.min()
    }

    /// Begins the attempts that are due.
    pub(crate) fn on_timeout(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        self.ended.drain(..).for_each(|client| transactions.drop_client(client));
        for index in 0..self.list.len() {
            match self.list.get(index).map(|registration| registration.phase) {
                Some(Phase::New(spread)) => self.set_phase(index, Phase::Waiting(env.cx.now + spread)),
                Some(Phase::Waiting(at)) if at <= env.cx.now => self.begin(env, transactions, index),
                Some(Phase::Locating(at)) if at <= env.cx.now => self.fail(env, index, 0, Duration::ZERO),
                _ => {}
            }
        }
    }

    /// Registers again after the loss of a connection that the carrier may call by, at most once in [`RECONNECT_MIN`].
    pub(crate) fn on_closed(&mut self, now: Instant, connection: ConnectionId) {
        if !cfg!(feature = "operator") {
            return;
        }
        let Self { list, rng, .. } = self;
        for registration in list {
            let lost = registration.registered_by.take_if(|(by, _)| *by == connection);
            let (Some((_, since)), Phase::Waiting(at)) = (lost, registration.phase) else { continue };
            if registration.failures == 0 {
                let soon = now + Duration::from_millis(500 + rng.below(1500));
                registration.phase = Phase::Waiting(at.min(soon.max(since + RECONNECT_MIN)));
            }
        }
    }

    fn index_of(&self, number: u16) -> Option<usize> {
        self.list.iter().position(|registration| registration.number == number)
    }

    fn set_phase(&mut self, index: usize, phase: Phase) {
        if let Some(registration) = self.list.get_mut(index) {
            registration.phase = phase;
        }
    }

    fn begin(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        let Some(registration) = self.list.get_mut(index) else { return };
        registration.attempt = registration.attempt.wrapping_add(1) & ATTEMPT_MASK;
        (registration.logins, registration.is_raised, registration.client) = (0, false, None);
        let query = Asker::Registration.query(registration.number, registration.attempt);
        let uri = Uri::parse(registration.of.uri.as_bytes());
        match uri.map_or(NextHop::Unreachable, |uri| hop_of(env.config, &uri)) {
            NextHop::Flow(flow) => {
                registration.flow = Some(flow);
                self.send(env, transactions, index);
            }
            NextHop::Name(host) => {
                registration.phase = Phase::Locating(env.cx.now + LOCATING_MAX);
                let target = host.target(registration.call, None);
                env.cx.actions.push(Action::Resolve { query, target });
            }
            NextHop::Unreachable => self.fail(env, index, 0, Duration::ZERO),
        }
    }

    /// Handles the result of a lookup; false if it is none of a registration.
    pub(crate) fn on_resolved(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        query: u64,
        servers: &LocatedServers,
    ) -> bool {
        let Some((number, attempt)) = Asker::Registration.read(query) else { return false };
        let Some(index) = self.index_of(number) else { return true };
        let Some(registration) = self.list.get_mut(index) else { return true };
        if registration.attempt != attempt || !matches!(registration.phase, Phase::Locating(_)) {
            return true;
        }
        // Another server of the name after each failure (RFC 3263 §4.3).
        let servers = put_last(*servers, |server| env.tables.has_failed(env.cx.now, server));
        let count = servers.iter().count().max(1);
        let skipped = registration.failures as usize % count;
        let flows = servers.iter().skip(skipped).chain(servers.iter().take(skipped));
        let flow = flows.filter_map(|server| match hop_to(env.config, server.address, server.transport) {
            NextHop::Flow(flow) => Some(Flow { host: server.host, ..flow }),
            NextHop::Name(_) | NextHop::Unreachable => None,
        });
        registration.flow = flow.into_iter().next();
        match registration.flow {
            Some(_) => self.send(env, transactions, index),
            None => self.fail(env, index, 0, Duration::ZERO),
        }
        true
    }

    fn send(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        let Some(registration) = self.list.get_mut(index) else { return };
        let Some(flow) = registration.flow else { return };
        registration.cseq = registration.cseq % CSEQ_MAX + 1;
        registration.phase = Phase::Sent;
        let call_id = hex16(registration.call);
        let Ok(Sending { flow, .. }) = env.sending_flow_of(flow, &call_id, CallRequest::Pending) else {
            return self.fail(env, index, 0, Duration::ZERO);
        };
        let (trunking, trunk) = (&env.config.trunking, registration.trunk);
        let covered = Covered { method: Method::Register, uri: registration.of.uri.as_bytes(), body: b"" };
        let credentials =
            env.tables.change_trunk_logins(None, |logins| logins.credentials(trunking, trunk, covered));
        let id = RegistrationId { registration: registration.number, attempt: registration.attempt };
        let outgoing = Outgoing { flow, is_invite: false, owner: Owner::Registration(id) };
        let (config, key) = (env.config, &env.keys.line);
        let host = config.sent_by(flow.listener, flow.remote.ip());
        let sent = transactions.start_client(&mut env.cx, outgoing, |out, branch| {
            registration.write(key, (&flow, host), credentials.as_ref(), branch, out);
        });
        registration.client = sent;
        if sent.is_none() {
            env.counters.overflow += 1;
            self.fail(env, index, 0, Duration::ZERO);
        }
    }

    /// Handles a response to a REGISTER.
    pub(crate) fn on_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: RegistrationId,
        (message, status, flow): (&Message<'_>, u16, &Flow),
    ) {
        let Some(index) = self.index_of(id.registration) else { return };
        let Some(registration) = self.list.get_mut(index) else { return };
        if registration.attempt != id.attempt || registration.phase != Phase::Sent || status < 200 {
            return;
        }
        registration.client = None;
        match status {
            200..=299 => {
                let granted_s = registration.granted_s(&env.keys.line, message);
                registration.registered_by = flow.connection.map(|connection| (connection, env.cx.now));
                match granted_s {
                    0 => self.fail(env, index, status, Duration::ZERO),
                    granted_s => self.succeed(env, index, granted_s),
                }
            }
            401 | 407 => {
                let (trunking, trunk) = (&env.config.trunking, registration.trunk);
                let learnt = env
                    .tables
                    .change_trunk_logins(None, |logins| logins.learn(trunking, trunk, (message, status)));
                registration.logins += 1;
                match learnt.is_some() && registration.logins <= LOGINS_MAX {
                    true => self.send(env, transactions, index),
                    false => {
                        env.host.note_trunk(env.cx.now, trunk, TrunkEvent::LoginRefused);
                        self.fail(env, index, status, REFUSED_PAUSE);
                    }
                }
            }
            423 if !registration.is_raised => {
                let least = message.first(HeaderName::MinExpires).and_then(number_u32).unwrap_or_default();
                registration.is_raised = true;
                registration.expires_s = least.clamp(registration.expires_s, EXPIRES_S_MAX);
                self.send(env, transactions, index);
            }
            403 | 404 => self.fail(env, index, status, REFUSED_PAUSE),
            503 => {
                let pause = retry_after(message).unwrap_or_default().min(PAUSE_MAX);
                self.fail(env, index, status, pause);
            }
            _ => self.fail(env, index, status, Duration::ZERO),
        }
    }

    fn succeed(&mut self, env: &mut Env<'_>, index: usize, granted_s: u32) {
        let Self { list, rng, .. } = self;
        let Some(registration) = list.get_mut(index) else { return };
        // 50 to 90 % of the time, so that many trunks do not refresh together.
        let share = 500 + rng.below(400);
        let refresh = Duration::from_millis(u64::from(granted_s) * share);
        registration.phase = Phase::Waiting(env.cx.now + refresh.max(REFRESH_MIN));
        registration.failures = 0;
        env.counters.trunk_registrations += 1;
        env.host.note_trunk(env.cx.now, registration.trunk, TrunkEvent::Registered(granted_s));
        if !core::mem::replace(&mut registration.is_registered, true) {
            env.observe(&LogEvent::TrunkRegistered { name: &registration.of.name });
        }
    }

    /// Plans the next attempt, `pause` later at least.
    fn fail(&mut self, env: &mut Env<'_>, index: usize, status: u16, pause: Duration) {
        let Self { list, rng, .. } = self;
        let Some(registration) = list.get_mut(index) else { return };
        registration.failures = registration.failures.saturating_add(1);
        registration.client = None;
        let back_off = BACK_OFF_MIN * 2_u32.pow(registration.failures.min(BACK_OFF_EXPONENT_MAX) - 1);
        let back_off = back_off.min(BACK_OFF_MAX);
        let half = back_off / 2;
        let wait = half + Duration::from_millis(rng.below(1 + half.as_millis() as u64));
        registration.phase = Phase::Waiting(env.cx.now + wait.max(pause));
        env.counters.trunk_registration_failures += 1;
        env.host.note_trunk(env.cx.now, registration.trunk, TrunkEvent::NotRegistered(status));
        // The first failure is reported, and the next success again.
        let was_registered = core::mem::take(&mut registration.is_registered);
        if registration.failures == 1 || was_registered {
            env.observe(&LogEvent::TrunkNotRegistered { name: &registration.of.name, status });
        }
    }

    /// Takes the notices of failed requests out of the list.
    pub(crate) fn take_notices(&mut self, env: &mut Env<'_>, notices: &mut Vec<Notice<Owner>>) {
        notices.retain(|notice| {
            let (Notice::ClientTimedOut { owner, .. } | Notice::ClientUnreachable { owner, .. }) = *notice;
            let Owner::Registration(id) = owner else { return true };
            let index = self.index_of(id.registration);
            let is_it = |of: &Registration| of.attempt == id.attempt && of.phase == Phase::Sent;
            if let Some(index) = index.filter(|index| self.list.get(*index).is_some_and(is_it)) {
                self.fail(env, index, 408, Duration::ZERO);
            }
            false
        });
    }
}

impl Registration {
    fn new((number, trunk): (u16, usize), of: &Trunk, rng: &mut Rng) -> Self {
        // Spread over a second: a restart of a server with many trunks is no burst.
        let spread = Duration::from_millis(rng.below(1000));
        let call = rng.next_u64();
        Self {
            number,
            trunk,
            of: of.clone(),
            phase: Phase::New(spread),
            flow: None,
            client: None,
            registered_by: None,
            call,
            cseq: 0,
            // An answer to another registration that had the number is none of it.
            attempt: call as u32 & ATTEMPT_MASK,
            failures: 0,
            logins: 0,
            expires_s: EXPIRES_S,
            is_raised: false,
            is_registered: false,
        }
    }

    /// Writes the REGISTER (RFC 3261 §10.2).
    fn write(
        &self,
        key: &[u8; 16],
        (flow, host): (&Flow, SentBy<'_>),
        credentials: Option<&(HeaderName, Vec<u8>)>,
        branch: &[u8],
        out: &mut Vec<u8>,
    ) {
        let call_id = hex16(self.call);
        let mut request = MessageWriter::request(out, Method::Register, self.of.uri.as_bytes());
        request.header_with(HeaderName::Via, |out| {
            write_via(out, flow.transport.via_token(), |out| host.write(out), branch);
        });
        request.header_number(HeaderName::MaxForwards, 70);
        request.header_with(HeaderName::From, |out| {
            self.write_account(out);
            out.extend_from_slice(b";tag=");
            out.extend_from_slice(&call_id);
        });
        request.header_with(HeaderName::To, |out| self.write_account(out));
        request.header(HeaderName::CallId, &call_id);
        request.header_with(HeaderName::CSeq, |out| {
            write_number(out, u64::from(self.cseq));
            out.extend_from_slice(b" REGISTER");
        });
        request
            .header_with(HeaderName::Contact, |out| write_contact(key, &self.of, host, flow.transport, out));
        request.header_number(HeaderName::Expires, u64::from(self.expires_s));
        if let Some((name, value)) = credentials {
            request.header(*name, value);
        }
        // An unsafe text is not sent: the configuration refuses them.
        let _ = request.finish();
    }

    /// Appends `<sip:USERNAME@DOMAIN>`.
    fn write_account(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<sip:");
        out.extend_from_slice(self.of.account().as_bytes());
        out.push(b'@');
        out.extend_from_slice(self.of.account_domain());
        out.push(b'>');
    }

    /// Seconds that a 2xx grants our contact (RFC 3261 §10.2.4); 0: it is none of several. Some carriers rewrite it, or list none: of several
    /// without our token the shortest time of the account's counts.
    fn granted_s(&self, key: &[u8; 16], message: &Message<'_>) -> u32 {
        let line = super::line::line_of(key, &self.of);
        let is_ours = |contact: &Contact<'_>| contact.address.uri.params().value(b"line") == Some(&line);
        let of_all = message.first(HeaderName::Expires).and_then(number_u32);
        let contacts = || message.values(HeaderName::Contact).filter_map(|value| Contact::parse(value).ok());
        let (first, is_only) = (contacts().next(), contacts().nth(1).is_none());
        let granted = match contacts().find(is_ours).or(first.filter(|_| is_only)) {
            Some(contact) => contact.expires.or(of_all).unwrap_or(self.expires_s),
            None if is_only => of_all.unwrap_or_default(),
            None => {
                let is_of_account =
                    |contact: &Contact<'_>| contact.address.uri.user() == Some(self.of.account().as_bytes());
                let times = contacts().filter(is_of_account).filter_map(|contact| contact.expires.or(of_all));
                times.min().unwrap_or_default()
            }
        };
        granted.min(EXPIRES_S_MAX)
    }
}

/// Part of a shard's seed for times and Call-IDs.
const REGISTRATION_KEY: u64 = 9;
const ATTEMPT_MASK: u32 = u32::MAX >> 1;
/// Time that is requested, in seconds.
const EXPIRES_S: u32 = 3600;
/// Longest time that is requested or counts.
const EXPIRES_S_MAX: u32 = 86_400;
/// Shortest time between a registration and the next one because its connection was lost.
const RECONNECT_MIN: Duration = Duration::from_secs(60);
/// Shortest time between two refreshes, whatever is granted.
const REFRESH_MIN: Duration = Duration::from_secs(10);
/// Challenges that are answered in an attempt: the second one is that of an old nonce.
const LOGINS_MAX: u8 = 2;
const BACK_OFF_MIN: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
const BACK_OFF_EXPONENT_MAX: u32 = 10;
/// Least pause after a refusal that another attempt will hardly change.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);
/// Time limit of a lookup.
const LOCATING_MAX: Duration = Duration::from_secs(30);

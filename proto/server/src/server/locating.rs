//! Requests that wait for the bindings of their user, while this node has not read all of the store that nodes share.

use super::Server;
use super::dispatch::{Handlers, proceed};
use crate::auth::Grant;
use crate::env::Env;
use crate::location::LocationTable;
use crate::request::Request;
use crate::route::{Routed, preprocess};
use crate::{Action, Aor, CallName, LocateRefusal, Services};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Context, Flow, Instant, Seed, Wheel};
use ringway_sip::{Message, Method, Start};
use ringway_transaction::Incoming;

/// Waiting requests, by query number.
pub(super) struct Locating {
    waiting: HashMap<u64, Waiting, SeededHash>,
    last_query: u64,
    deadlines: Wheel<u64>,
}

struct Waiting {
    request: Box<[u8]>,
    flow: Flow,
    grant: Grant,
    call: Option<CallName>,
    /// Value of Authentication-Info for its response.
    answer_info: Vec<u8>,
}

impl Locating {
    /// Maximum time for which a request waits.
    const DURATION_MAX: Duration = Duration::from_millis(50);

    pub(super) fn new(seed: &Seed, now: Instant) -> Self {
        let waiting = HashMap::with_hasher(SeededHash::new(seed));
        Self { waiting, last_query: 0, deadlines: Wheel::new(now) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.deadlines.next_due()
    }

    /// Begins to wait for the bindings of the user of a request. False: the request does not wait.
    #[cold]
    pub(super) fn begin(
        &mut self,
        env: &mut Env<'_, impl Services>,
        table: &LocationTable,
        (request, routed): (&Request<'_, '_>, &Routed<'_>),
    ) -> bool {
        let mut aor = Aor::default();
        if !matches!(request.method, Method::Invite | Method::Message)
            || request.message.to().tag().is_some()
            || !env.config.read_target(&routed.uri, &mut aor)
            || !env.services.is_known(aor.user(), aor.domain())
            || table.lookup(aor.as_bytes(), env.cx.now).next().is_some()
        {
            return false;
        }
        let source = request.flow.remote.ip();
        match env.services.begin_locate(env.cx.now, source) {
            Ok(()) => {}
            Err(LocateRefusal::TooOften) => {
                env.counters.locates_too_often += 1;
                return false;
            }
            Err(LocateRefusal::TooMany) => {
                env.counters.locates_too_many += 1;
                return false;
            }
        }
        let message = request.message.as_bytes();
        if !env.services.reserve(source, message.len(), !request.grant.sender.is_believed()) {
            env.services.end_locate();
            env.counters.locates_too_many += 1;
            return false;
        }
        env.counters.locates += 1;
        self.last_query += 1;
        let query = self.last_query;
        self.deadlines.arm(env.cx.now + Self::DURATION_MAX, query);
        let answer_info = env.answer_info.clone();
        let waiting = Waiting {
            request: message.into(),
            flow: request.flow,
            grant: request.grant,
            call: request.call.copied(),
            answer_info,
        };
        self.waiting.insert(query, waiting);
        env.cx.actions.push(Action::Locate { query, aor });
        true
    }

    fn end(&mut self, services: &impl Services, query: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&query)?;
        services.end_locate();
        services.release(waiting.flow.remote.ip(), waiting.request.len());
        Some(waiting)
    }
}

impl<S: Services> Server<S> {
    /// Goes on with the request that waits for the result of a query, if it does.
    pub(super) fn on_located(&mut self, cx: &mut Context<'_, Action>, query: u64) {
        let Some(waiting) = self.locating.end(self.environment.services(), query) else { return };
        let env = &mut self.environment.env(cx);
        let Waiting { request, flow, grant, call, answer_info } = waiting;
        env.answer_info.extend_from_slice(&answer_info);
        // Only a reload with lower limits can have made it unreadable.
        let Ok(message) = &Message::parse(&request, &env.config.message_limits) else { return };
        let Start::Request { method, uri } = *message.start() else { return };
        // A retransmission may have waited too.
        let Incoming::New(key) = self.transactions.receive_request(&mut env.cx, message) else { return };
        let Ok(routed) = preprocess(env.config, &env.keys.route, message, uri) else { return };
        let request =
            Request { message, method, uri, flow, peer: None, key: Some(key), grant, call: call.as_ref() };
        let to_us = routed.next_route.is_none() && routed.is_of_domains;
        let Self { transactions, registrar, proxy, events, messages, .. } = self;
        let handlers = Handlers { transactions, table: registrar.table(), proxy, events, messages };
        proceed(env, handlers, (&request, &routed), to_us);
    }

    /// Goes on with the requests whose time has passed.
    pub(super) fn expire_locates(&mut self, cx: &mut Context<'_, Action>) {
        while let Some(query) = self.locating.deadlines.expire(cx.now) {
            if self.locating.waiting.contains_key(&query) {
                self.environment.counters_mut().locates_unanswered += 1;
            }
            self.on_located(cx, query);
        }
    }
}

//! Requests that wait for the bindings of their user, while this node has not read all of the store that nodes share.

use super::Server;
use super::dispatch::{Handlers, may_wait, proceed};
use super::held::{Held, HeldIndex, Holds};
use crate::base::{Env, Request, Verstat};
use crate::config::domain;
use crate::dialog::route::{Routed, preprocess};
use crate::location::LocationTable;
use crate::tables::SharedTables;
use crate::{Action, Aor, LocateRefusal};
use alloc::collections::VecDeque;
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Context, Instant, Seed, TableSize, Wheel};
use ringway_sip::{Limits, Message, Method};
use ringway_transaction::{Incoming, MatchKey};
use smallvec::SmallVec;

/// Lookups under way, by query number, with the requests that wait for each.
pub(super) struct Locating {
    lookups: HashMap<u64, Lookup, SeededHash>,
    /// Lookup of each user, by the name.
    by_user: HashMap<Aor, u64, SeededHash>,
    index: HeldIndex,
    last_query: u64,
    deadlines: Wheel<u64>,
    misses: Misses,
}

struct Lookup {
    aor: Aor,
    requests: SmallVec<[Held; 1]>,
}

impl Locating {
    /// Maximum time for which a request waits.
    const DURATION_MAX: Duration = Duration::from_millis(50);

    pub(super) fn new(seed: &Seed, now: Instant) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            lookups: HashMap::with_hasher(hash),
            by_user: HashMap::with_hasher(hash),
            index: HeldIndex::new(hash),
            last_query: 0,
            deadlines: Wheel::new(now),
            misses: Misses::new(seed),
        }
    }

    /// Memory of what is known of users without bindings; requests that wait are booked.
    pub(super) const fn size() -> TableSize {
        Misses::size()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lookups.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        // Called after each message: usually none waits.
        if self.lookups.is_empty() { None } else { self.deadlines.next_due() }
    }

    /// True while the bindings of `user@domain` are looked up.
    pub(super) fn looks_up(&self, aor: &[u8]) -> bool {
        !self.is_empty()
            && domain::split(aor)
                .is_some_and(|(user, domain)| self.by_user.contains_key(&Aor::new(user, domain)))
    }

    /// Notes that a user may have bindings now.
    pub(super) fn forget_miss(&mut self, aor: &[u8]) {
        self.misses.forget(aor);
    }

    /// Begins to wait for the bindings of the user of a request. False: the request does not wait.
    #[cold]
    pub(super) fn begin(
        &mut self,
        env: &mut Env<'_>,
        table: &LocationTable,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) -> bool {
        let mut aor = Aor::default();
        if !matches!(request.method, Method::Invite | Method::Message)
            || request.message.to().tag().is_some()
            || !env.config.read_target(&routed.uri, &mut aor)
            || !(env.host.is_known(aor.user(), aor.domain()) || env.hides_users(request))
            || is_registered(table, aor.as_bytes(), env.cx.now)
        {
            return false;
        }
        if self.misses.has(env.cx.now, aor.as_bytes()) {
            env.counters.locates_remembered += 1;
            return false;
        }
        let known = self.by_user.get(&aor).copied();
        let (client, sender) = (request.client(env.config), request.grant.sender);
        if known.is_none() && !may_begin(env, client, sender.is_proven()) {
            return false;
        }
        let Some(held) = Held::of(env, request) else {
            if known.is_none() {
                env.tables.end_locate();
            }
            env.counters.locates_too_many += 1;
            return false;
        };
        let query = known.unwrap_or_else(|| self.look_up(env, aor));
        self.index.add(request.key, query);
        if let Some(lookup) = self.lookups.get_mut(&query) {
            lookup.requests.push(held);
        }
        true
    }

    fn look_up(&mut self, env: &mut Env<'_>, aor: Aor) -> u64 {
        env.counters.locates += 1;
        self.last_query += 1;
        let query = self.last_query;
        self.deadlines.arm(env.cx.now + Self::DURATION_MAX, query);
        self.lookups.insert(query, Lookup { aor: aor.clone(), requests: SmallVec::new() });
        self.by_user.insert(aor.clone(), query);
        env.cx.actions.push(Action::Locate { query, aor });
        query
    }

    fn end(&mut self, tables: &SharedTables, query: u64) -> Option<Lookup> {
        let lookup = self.lookups.remove(&query)?;
        self.by_user.remove(&lookup.aor);
        tables.end_locate();
        for held in &lookup.requests {
            self.index.release(tables, held);
        }
        Some(lookup)
    }
}

impl Holds for Locating {
    fn index(&self) -> &HeldIndex {
        &self.index
    }

    fn index_mut(&mut self) -> &mut HeldIndex {
        &mut self.index
    }

    fn take(&mut self, tables: &SharedTables, key: MatchKey, cancel: &Request<'_, '_>) -> Option<Held> {
        let lookup = self.lookups.get_mut(&self.index.query_of(key)?)?;
        let at = lookup.requests.iter().position(|held| held.is_cancelled_by(key, cancel))?;
        let held = lookup.requests.remove(at);
        self.index.release(tables, &held);
        Some(held)
    }
}

/// Counts the begin of a lookup. False: a limit is reached.
fn may_begin(env: &mut Env<'_>, source: IpAddr, is_proven: bool) -> bool {
    match env.tables.begin_locate(env.cx.now, source, is_proven) {
        Ok(()) => true,
        Err(LocateRefusal::TooOften) => {
            env.counters.locates_too_often += 1;
            false
        }
        Err(LocateRefusal::TooMany) => {
            env.counters.locates_too_many += 1;
            false
        }
    }
}

/// True for a user with bindings of phones: those of the administrator are at every node.
fn is_registered(table: &LocationTable, aor: &[u8], now: Instant) -> bool {
    table.lookup(aor, now).any(|binding| !binding.is_permanent())
}

impl Server {
    /// Goes on with the requests that wait for the result of a query. A user without bindings is not looked up again for a second.
    pub(super) fn on_located(&mut self, cx: &mut Context<'_, Action>, query: u64) {
        let Some(lookup) = self.locating.lookups.get(&query) else { return };
        let aor = lookup.aor.as_bytes();
        if !is_registered(self.registrar.table(), aor, cx.now) {
            self.locating.misses.note(cx.now, aor);
        }
        self.end_lookup(cx, query);
    }

    fn end_lookup(&mut self, cx: &mut Context<'_, Action>, query: u64) {
        let Some(lookup) = self.locating.end(self.environment.tables(), query) else { return };
        for held in lookup.requests {
            self.go_on(cx, held, |_, _| None);
        }
    }

    /// Goes on with a request that waited: answered or not, as `check` decides. `None`: it waits for nothing else.
    pub(super) fn go_on(
        &mut self,
        cx: &mut Context<'_, Action>,
        held: Held,
        check: impl FnOnce(&mut Env<'_>, &Request<'_, '_>) -> Option<Checked>,
    ) {
        let env = &mut self.environment.env(cx);
        let line = held.line(env.config);
        let Held { request, flow, grant, call, answer_info, .. } = held;
        env.input.answer_info.clone_from(&answer_info);
        let Ok(message) = &Message::parse(&request, &Limits::STORED) else { return };
        let Some(request) = Request::of(message, flow, grant) else { return };
        let Incoming::New(key) = self.transactions.receive_request(&mut env.cx, message) else { return };
        let Ok(routed) = preprocess(env.config, &env.keys.route, message, request.uri) else { return };
        let mut request = Request { key: Some(key), line, call: call.as_ref(), ..request };
        let to_us = routed.next_route.is_none() && routed.is_of_domains;
        match check(env, &request) {
            None => {}
            Some(Checked::Answered) => return,
            Some(Checked::Passes(verstat)) => {
                request.grant.verstat = verstat;
                let table = self.registrar.table();
                if to_us && may_wait(env) && self.locating.begin(env, table, &request, &routed) {
                    return;
                }
            }
        }
        let Self { transactions, registrar, proxy, events, messages, .. } = self;
        let handlers = Handlers { transactions, table: registrar.table(), proxy, events, messages };
        proceed(env, handlers, &request, &routed, to_us);
    }

    /// Goes on with the requests whose time has passed.
    pub(super) fn expire_locates(&mut self, cx: &mut Context<'_, Action>) {
        while let Some(query) = self.locating.deadlines.expire(cx.now) {
            if self.locating.lookups.contains_key(&query) {
                self.environment.counters_mut().locates_unanswered += 1;
            }
            self.end_lookup(cx, query);
        }
    }
}

/// Decision about a request that waited for a check.
pub(super) enum Checked {
    /// It goes on with this result for the called phone.
    Passes(Verstat),
    /// It was refused.
    Answered,
}

/// Users that had no bindings a moment ago: they are not looked up again so soon. Beyond the maximum the oldest is forgotten.
pub(super) struct Misses {
    /// End of each, by the keyed hash of its user.
    until: HashMap<u64, Instant, SeededHash>,
    /// The same in the order of the ends; some are forgotten already.
    order: VecDeque<(Instant, u64)>,
    hash: SeededHash,
}

impl Misses {
    /// Time for which a user is remembered.
    pub(super) const DURATION: Duration = Duration::from_secs(1);
    pub(super) const USERS_MAX: usize = 16_384;

    pub(super) const fn size() -> TableSize {
        TableSize::of_map("users without bindings", Self::USERS_MAX, size_of::<(u64, Instant)>())
            .with_list(Self::USERS_MAX, size_of::<(Instant, u64)>())
    }

    pub(super) fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self { until: HashMap::with_hasher(hash), order: VecDeque::new(), hash }
    }

    pub(super) fn note(&mut self, now: Instant, aor: &[u8]) {
        self.forget_old(now);
        let (user, until) = (self.hash.hash_one(aor), now + Self::DURATION);
        self.until.insert(user, until);
        self.order.push_back((until, user));
    }

    pub(super) fn has(&self, now: Instant, aor: &[u8]) -> bool {
        !self.until.is_empty() && self.until.get(&self.hash.hash_one(aor)).is_some_and(|until| *until > now)
    }

    pub(super) fn forget(&mut self, aor: &[u8]) {
        if !self.until.is_empty() {
            self.until.remove(&self.hash.hash_one(aor));
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(&(until, user)) = self.order.front()
            && (until <= now || self.order.len() >= Self::USERS_MAX)
        {
            self.order.pop_front();
            if self.until.get(&user) == Some(&until) {
                self.until.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_remembered_for_a_second_and_their_number_is_bounded() {
        let (mut misses, now) = (Misses::new(&Seed::from_number(1)), Instant::from_secs(10));
        misses.note(now, b"bob@x");
        let later = now + Misses::DURATION;
        assert!(misses.has(now, b"bob@x") && !misses.has(now, b"carol@x") && !misses.has(later, b"bob@x"));
        misses.forget(b"bob@x");
        assert!(!misses.has(now, b"bob@x"));
        let taken = allocation_counter::measure(|| {
            for number in 0..8 * Misses::USERS_MAX as u32 {
                misses.note(now, &number.to_be_bytes());
            }
        });
        assert!((1..=Misses::size().bytes).contains(&(taken.bytes_current as u64)), "{taken:?}");
        assert_eq!((misses.until.len(), misses.order.len()), (Misses::USERS_MAX, Misses::USERS_MAX));
        misses.note(later, b"bob@x");
        assert_eq!((misses.until.len(), misses.order.len()), (1, 1));
    }
}

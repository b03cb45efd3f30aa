//! The tables that all shards of a server share.

use super::{
    Account, BlockList, CallCounts, Caller, CountedCall, DialogExtensions, DialogStateFilter, DialogStates,
    EntryOwner, FailedServers, Lifetime, Limited, LocateLimits, LocateRefusal, MemoryBudget, NeighbourRoute,
    NeighbourTable, NotCounted, PausedTrunks, Payer, RequestPriority, ServiceRoute, ServiceRoutes, SideTable,
    Throttles, Traffic, TrafficRates, TrunkLogins, TrunkPause,
};
use crate::{CallRate, CallRates, Config, Hold, Trunk, TrunkLimits};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use ringway_auth::{ChallengeLimits, GuessLimits, Login, LoginResult, NonceId, NonceUse, ReplayWindows};
use ringway_sansio::{
    ConnectionId, Defence, Flow, Guarded, Instant, LocatedServer, Locks, MemoryBound, Seed, TableSize,
};
use ringway_sip::OverloadControl;

/// Limits of [`SharedTables`].
#[derive(Clone, Debug)]
pub struct TableLimits {
    /// Number of parts, each with its own lock, of the tables that each message needs; at least 1.
    pub parts: usize,
    /// Memory of pending requests and of stream connections.
    pub memory: Arc<MemoryBound>,
    /// Maximum number of nonces whose counts are kept, about 64 bytes each.
    pub nonces_max: usize,
    /// Lifetime of a nonce.
    pub nonce_lifetime: Duration,
    /// Maximum number of users and sources with a recent successful login, about 20 bytes each; half of them in each of two generations. With
    /// more of them, every login moves an entry between these.
    pub proofs_max: usize,
    /// Maximum number of moved sides of dialogs, and of flows that phones left.
    pub sides_max: usize,
    /// Requests of one source in a second; 0: no limit.
    pub per_second: u32,
    /// Users whose bindings a node holds.
    pub hold: Hold,
}

/// Tables in memory that all shards share. No method waits for more than a lock that is held for some hundred instructions.
pub struct SharedTables {
    seed: Seed,
    memory: Arc<MemoryBound>,
    nonces: Parts<ReplayWindows>,
    rates: Parts<TrafficRates>,
    is_rate_limited: AtomicBool,
    budgets: Parts<MemoryBudget>,
    guesses: Guarded<GuessLimits>,
    challenges: Guarded<ChallengeLimits>,
    blocks: Guarded<BlockList>,
    has_blocked_networks: AtomicBool,
    has_blocked_callers: AtomicBool,
    dialogs: Guarded<DialogExtensions>,
    sides: Guarded<SideTable>,
    has_moved_sides: AtomicBool,
    failed: Guarded<FailedServers>,
    without_tcp: Guarded<FailedServers>,
    neighbours: Guarded<NeighbourTable>,
    locates: Guarded<LocateLimits>,
    paused_trunks: Guarded<PausedTrunks>,
    trunk_logins: Guarded<TrunkLogins>,
    throttles: Guarded<Throttles>,
    has_throttles: AtomicBool,
    service_routes: Guarded<ServiceRoutes>,
    has_service_routes: AtomicBool,
    call_rates: Guarded<CallRates>,
    call_counts: Guarded<CallCounts>,
    has_counted_calls: AtomicBool,
    /// Calls of trunks that were verified in the present second.
    trunk_checks: Guarded<CallCounts>,
    dialog_state_filter: Arc<DialogStateFilter>,
    dialog_states: Guarded<DialogStates>,
}

/// A table in parts, each with its own lock.
type Parts<T> = Box<[Guarded<T>]>;

impl SharedTables {
    /// Creates empty tables with the locks of the driver `L`.
    pub fn new<L: Locks>(limits: &TableLimits, seed: &Seed, now: Instant) -> Self {
        let count = limits.parts.max(1);
        let windows = |_| ReplayWindows::new(limits.nonces_max / count, limits.nonce_lifetime, now);
        let rates = |part| TrafficRates::new(limits.per_second, count, &seed.part(RATES_KEY + part));
        let budget =
            |part| MemoryBudget::of(Arc::clone(&limits.memory), count, &seed.part(BUDGETS_KEY + part));
        let dialog_state_filter = Arc::new(DialogStateFilter::new(&seed.part(205)));
        Self {
            memory: Arc::clone(&limits.memory),
            nonces: parts::<L, _>(count, windows),
            rates: parts::<L, _>(count, rates),
            is_rate_limited: AtomicBool::new(limits.per_second > 0),
            budgets: parts::<L, _>(count, budget),
            guesses: Guarded::new::<L>(GuessLimits::new(limits.proofs_max, &seed.part(200), now)),
            challenges: Guarded::new::<L>(ChallengeLimits::new(&seed.part(202))),
            blocks: Guarded::new::<L>(BlockList::default()),
            has_blocked_networks: AtomicBool::new(false),
            has_blocked_callers: AtomicBool::new(false),
            dialogs: Guarded::new::<L>(DialogExtensions::new(&seed.part(201))),
            sides: Guarded::new::<L>(SideTable::new(&seed.part(209), limits.sides_max)),
            has_moved_sides: AtomicBool::new(false),
            failed: Guarded::new::<L>(FailedServers::default()),
            without_tcp: Guarded::new::<L>(FailedServers::default()),
            neighbours: Guarded::new::<L>(NeighbourTable::default()),
            locates: Guarded::new::<L>(LocateLimits::new(limits.hold, &seed.part(207))),
            paused_trunks: Guarded::new::<L>(PausedTrunks::default()),
            trunk_logins: Guarded::new::<L>(TrunkLogins::new(&seed.part(208))),
            throttles: Guarded::new::<L>(Throttles::default()),
            has_throttles: AtomicBool::new(false),
            service_routes: Guarded::new::<L>(ServiceRoutes::default()),
            has_service_routes: AtomicBool::new(false),
            call_rates: Guarded::new::<L>(CallRates::new(&seed.part(203))),
            call_counts: Guarded::new::<L>(CallCounts::new(&seed.part(210))),
            has_counted_calls: AtomicBool::new(false),
            trunk_checks: Guarded::new::<L>(CallCounts::new(&seed.part(211))),
            dialog_states: Guarded::new::<L>(DialogStates::new(
                Arc::clone(&dialog_state_filter),
                &seed.part(206),
                now,
            )),
            dialog_state_filter,
            seed: *seed,
        }
    }

    /// The most memory that the tables take with a configuration and so many watched users, besides what is booked on
    /// [`TableLimits::memory`] and what the configuration lists itself.
    pub(crate) fn sizes(limits: &TableLimits, config: &Config, watched: usize) -> Vec<TableSize> {
        let trunks = &config.trunking.trunks;
        let calls_of = |trunk: &Trunk| {
            let of_ways = [trunk.call_limits, trunk.calls_in].into_iter().flatten();
            let limits = of_ways.filter_map(|limits| limits.under_way).chain(trunk.calls_both);
            limits.fold(0, |sum: usize, calls| sum.saturating_add(calls as usize))
        };
        let trunk_calls = trunks.iter().map(calls_of).fold(0, usize::saturating_add);
        let named = trunks.len() + config.neighbours.len();
        let mut sizes = vec![
            ReplayWindows::size(limits.nonces_max),
            TrafficRates::size(limits.parts.max(1)),
            MemoryBudget::size().times(limits.parts.max(1)),
            ChallengeLimits::size(),
            DialogExtensions::size(),
            FailedServers::size().times(2),
            LocateLimits::size(),
            TrunkLogins::size(named),
            Throttles::size(),
            CallRates::size(),
        ];
        sizes.extend(GuessLimits::sizes(limits.proofs_max));
        sizes.extend(SideTable::sizes(limits.sides_max));
        sizes.extend(NeighbourTable::sizes(named));
        sizes.extend(CallCounts::sizes(trunk_calls));
        sizes.extend(DialogStates::sizes(watched));
        sizes
    }

    /// Applies the rate of each source and the lifetime of nonces of a new configuration. The counted rates begin anew.
    pub fn reconfigure(&self, per_second: u32, nonce_lifetime: Duration) {
        for (part, rates) in (0..).zip(&self.rates) {
            let seed = self.seed.part(RATES_KEY + part);
            let parts = self.rates.len();
            rates.change((), |rates| *rates = TrafficRates::new(per_second, parts, &seed));
        }
        self.is_rate_limited.store(per_second > 0, Ordering::Relaxed);
        self.nonces
            .iter()
            .for_each(|windows| windows.change((), |windows| windows.set_lifetime(nonce_lifetime)));
    }

    /// Limit of the memory of pending requests and stream connections.
    pub const fn memory(&self) -> &Arc<MemoryBound> {
        &self.memory
    }

    /// Number of nonces whose counts are kept, and of those that were evicted early.
    pub fn nonces(&self) -> (usize, u64) {
        self.nonces.iter().fold((0, 0), |(kept, evicted), windows| {
            let (more, early) = windows.read((0, 0), |windows| (windows.len(), windows.evicted()));
            (kept + more, evicted + early)
        })
    }

    /// Marks a nonce count as used (see [`ReplayWindows`]).
    pub(crate) fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        part_of(&self.nonces, nonce.counter as usize).map_or(NonceUse::Forgotten, |windows| {
            windows.change(NonceUse::Replayed, |windows| windows.use_count(now, nonce, count, request))
        })
    }

    /// False if this source is over its rate of such traffic (see [`TrafficRates`]).
    pub(crate) fn admit(&self, now: Instant, source: IpAddr, traffic: Traffic) -> bool {
        !(self.is_rate_limited.load(Ordering::Relaxed) && Defence::SourceRate.is_on())
            || part_of(&self.rates, part_of_source(source))
                .is_none_or(|rates| rates.change(false, |rates| rates.admit(now, source, traffic)))
    }

    /// Gives back what a request of this source took that was none.
    pub(crate) fn give_back(&self, now: Instant, source: IpAddr) {
        if self.is_rate_limited.load(Ordering::Relaxed)
            && let Some(rates) = part_of(&self.rates, part_of_source(source))
        {
            rates.change((), |rates| rates.give_back(now, source));
        }
    }

    /// Changes a copy of the block lists, and uses it from then on: no request waits for the change.
    pub fn change_blocks(&self, change: impl FnOnce(&mut BlockList)) {
        let mut list = self.blocks.read(BlockList::default(), Clone::clone);
        change(&mut list);
        let (networks, callers) = (list.has_networks(), list.has_callers());
        self.blocks.change((), |blocks| core::mem::swap(blocks, &mut list));
        self.has_blocked_networks.store(networks, Ordering::Relaxed);
        self.has_blocked_callers.store(callers, Ordering::Relaxed);
    }

    /// True if the block list has this source.
    pub(crate) fn is_source_blocked(&self, source: IpAddr) -> bool {
        cfg!(feature = "operator")
            && self.has_blocked_networks.load(Ordering::Relaxed)
            && Defence::Blocks.is_on()
            && self.blocks.read(true, |blocks| blocks.blocks_source(source))
    }

    /// True if the block list has this caller.
    pub(crate) fn is_caller_blocked<'c>(&self, caller: impl FnOnce() -> Caller<'c>) -> bool {
        cfg!(feature = "operator")
            && self.has_blocked_callers.load(Ordering::Relaxed)
            && Defence::Blocks.is_on()
            && self.blocks_caller(&caller())
    }

    fn blocks_caller(&self, caller: &Caller<'_>) -> bool {
        self.blocks.read(true, |blocks| blocks.blocks_caller(caller))
    }

    /// Reserves memory for a request that is forwarded (see [`MemoryBudget`]); false if there is none.
    pub fn reserve(&self, payer: Payer, bytes: usize) -> bool {
        self.change_budget(payer, |budget| budget.reserve(payer, bytes))
    }

    /// Reserves more memory for a request that has some.
    pub(crate) fn reserve_more(&self, payer: Payer, bytes: usize) -> bool {
        self.change_budget(payer, |budget| budget.reserve_more(payer, bytes))
    }

    /// Releases a part of the memory that a request reserved.
    pub(crate) fn shrink(&self, payer: Payer, bytes: usize) {
        self.change_budget(payer, |budget| budget.shrink(payer, bytes));
    }

    /// Counts a request as answered.
    pub(crate) fn answered(&self, payer: Payer) {
        self.change_budget(payer, |budget| budget.answered(payer));
    }

    /// Releases the memory that a request reserved, at its end.
    pub(crate) fn release(&self, payer: Payer, bytes: usize) {
        self.change_budget(payer, |budget| budget.release(payer, bytes));
    }

    fn change_budget<R: Default>(&self, payer: Payer, change: impl FnMut(&mut MemoryBudget) -> R) -> R {
        let part = match payer {
            Payer::Stranger(source) | Payer::Known(source) => part_of_source(source),
            // A mark is a keyed hash.
            Payer::Dialog(mark) | Payer::End(mark) => mark as usize,
        };
        let Some(budget) = part_of(&self.budgets, part) else { return R::default() };
        budget.change(R::default(), change)
    }

    /// Bytes that pending requests have reserved.
    pub fn reserved_bytes(&self) -> usize {
        self.memory.used()
    }

    /// True if some account has a reservation.
    pub fn has_reservations(&self) -> bool {
        self.budgets.iter().any(|budget| budget.read(true, |budget| !budget.is_empty()))
    }

    /// Extends a dialog's Record-Route mark for this time; false: there is no room (see [`DialogExtensions`]).
    pub(crate) fn extend_dialog(&self, lifetime: Lifetime, mark: u64, owner: EntryOwner) -> bool {
        self.dialogs.change(false, |dialogs| dialogs.extend(lifetime, mark, owner))
    }

    /// True if this mark was extended and has not ended.
    pub(crate) fn is_dialog_extended(&self, now: Instant, mark: u64) -> bool {
        self.dialogs.read(false, |dialogs| dialogs.is_extended(now, mark))
    }

    /// True if some side of a dialog moved, or some phone left a flow.
    pub(crate) fn has_moved_sides(&self) -> bool {
        self.has_moved_sides.load(Ordering::Relaxed)
    }

    /// Reads the table of these.
    pub(crate) fn read_sides<R>(&self, otherwise: R, read: impl FnMut(&SideTable) -> R) -> R {
        self.sides.read(otherwise, read)
    }

    /// Changes the table of these.
    pub(crate) fn change_sides<R>(&self, otherwise: R, mut change: impl FnMut(&mut SideTable) -> R) -> R {
        self.sides.change(otherwise, |sides| {
            let result = change(sides);
            self.has_moved_sides.store(!sides.is_empty(), Ordering::Relaxed);
            result
        })
    }

    /// False after too many wrong passwords of this user or from this source (see [`GuessLimits`]): the password is then not checked.
    pub(crate) fn may_log_in(&self, now: Instant, login: &Login<'_>) -> bool {
        self.guesses.change(false, |guesses| guesses.may_log_in(now, login))
    }

    /// Notes the result of a login.
    pub(crate) fn on_login(&self, now: Instant, login: &Login<'_>, result: LoginResult) {
        self.guesses.change((), |guesses| guesses.on_login(now, login, result));
    }

    /// Number of logins by result: proven, wrong, slowed.
    pub fn logins(&self) -> [u64; 3] {
        self.guesses.read([0; 3], GuessLimits::logins)
    }

    /// Takes a token for a challenge to an unusable digest of this user (see [`ChallengeLimits`]); false if there is none.
    pub(crate) fn may_challenge(&self, now: Instant, login: &Login<'_>) -> bool {
        self.challenges.change(false, |challenges| challenges.may_challenge(now, login))
    }

    /// Counts the begin of a read-through for a request from `source` (see [`LocateLimits`]).
    ///
    /// # Errors
    /// A limit is reached: the user has no bindings.
    pub(crate) fn begin_locate(
        &self,
        now: Instant,
        source: IpAddr,
        is_proven: bool,
    ) -> Result<(), LocateRefusal> {
        if !cfg!(feature = "cluster") {
            return Err(LocateRefusal::TooMany);
        }
        self.locates.change(Err(LocateRefusal::TooMany), |locates| locates.begin(now, source, is_proven))
    }

    /// Counts the end of a read-through.
    pub(crate) fn end_locate(&self) {
        self.locates.change((), LocateLimits::end);
    }

    /// Notes what a server asked for (RFC 7339). False: there are too many such servers.
    pub(crate) fn note_control(&self, now: Instant, server: SocketAddr, control: &OverloadControl) -> bool {
        if control.validity_ms == 0 && !self.has_throttles.load(Ordering::Relaxed) {
            return true;
        }
        self.throttles.change(true, |throttles| {
            let is_noted = throttles.note(now, server, control);
            self.has_throttles.store(!throttles.is_empty(), Ordering::Relaxed);
            is_noted
        })
    }

    /// True if a server may get a request now: it asked for no reduction, or the request is within it. `draw` is random.
    pub(crate) fn may_send(
        &self,
        now: Instant,
        server: SocketAddr,
        priority: RequestPriority,
        draw: u64,
    ) -> bool {
        // Usually none asked for anything.
        !self.has_throttles.load(Ordering::Relaxed)
            || self.throttles.change(true, |throttles| {
                let may = throttles.admit(now, server, priority, draw);
                self.has_throttles.store(!throttles.is_empty(), Ordering::Relaxed);
                may
            })
    }

    /// True if a request to this server failed a short time ago (see [`FailedServers`]).
    pub(crate) fn has_failed(&self, now: Instant, server: &LocatedServer) -> bool {
        self.failed.read(false, |failed| failed.has(now, server))
    }

    /// Time until which a failure of this server counts.
    pub(crate) fn failed_until(&self, now: Instant, server: &LocatedServer) -> Option<Instant> {
        self.failed.read(None, |failed| failed.until(now, server))
    }

    /// Notes that a request to this server failed, which counts until `until`.
    pub fn note_failed(&self, now: Instant, server: &LocatedServer, until: Instant) {
        self.failed.change((), |failed| failed.note(now, server, until));
    }

    /// True if no TCP connection to this next hop was established a short time ago, so that long requests go there in datagrams.
    pub(crate) fn is_without_tcp(&self, now: Instant, server: &LocatedServer) -> bool {
        self.without_tcp.read(false, |failed| failed.has(now, server))
    }

    /// Notes the same until `until`.
    pub(crate) fn note_without_tcp(&self, now: Instant, server: &LocatedServer, until: Instant) {
        self.without_tcp.change((), |failed| failed.note(now, server, until));
    }

    /// Reads the table of neighbours.
    pub fn read_neighbours<R>(&self, otherwise: R, read: impl FnMut(&NeighbourTable) -> R) -> R {
        if cfg!(feature = "operator") { self.neighbours.read(otherwise, read) } else { otherwise }
    }

    /// Changes the table of neighbours.
    pub(crate) fn change_neighbours<R>(
        &self,
        otherwise: R,
        change: impl FnMut(&mut NeighbourTable) -> R,
    ) -> R {
        if cfg!(feature = "operator") { self.neighbours.change(otherwise, change) } else { otherwise }
    }

    /// Way of a message for a stream flow without a connection (see [`NeighbourTable`]).
    pub(crate) fn neighbour_route(&self, flow: &Flow) -> NeighbourRoute {
        self.read_neighbours(NeighbourRoute::Other, |table| table.route(flow))
    }

    /// Connection of the neighbour with this index in the configuration.
    pub fn neighbour_connection(&self, neighbour: usize) -> Option<ConnectionId> {
        self.read_neighbours(None, |table| table.connection(neighbour))
    }

    /// True if the neighbour with this index works.
    pub fn is_neighbour_up(&self, neighbour: usize) -> bool {
        self.read_neighbours(false, |table| table.is_up(neighbour))
    }

    /// Reason why the trunk with this index is tried last at present (see [`PausedTrunks`]).
    pub fn trunk_pause(&self, now: Instant, trunk: usize) -> Option<TrunkPause> {
        self.paused_trunks.read(None, |paused| paused.of(now, trunk))
    }

    /// Notes that the trunk with this index is tried last until `until`.
    pub(crate) fn pause_trunk(&self, trunk: usize, pause: TrunkPause, until: Instant) {
        self.paused_trunks.change((), |paused| paused.note(trunk, pause, until));
    }

    /// Gives each trunk of a new list its pauses and its challenge: `earlier` has its index in the former list.
    pub(crate) fn move_trunks(&self, earlier: &[Option<u16>]) {
        self.paused_trunks.change((), |paused| paused.move_to(earlier));
        self.change_trunk_logins((), |logins| logins.move_to(earlier));
    }

    /// Notes that the trunk with this index, which was silent, sent a response.
    pub(crate) fn note_answering_trunk(&self, trunk: usize) {
        self.paused_trunks.change((), |paused| paused.clear(trunk));
    }

    /// Reads or changes the answered challenges of trunks.
    pub(crate) fn change_trunk_logins<R>(
        &self,
        otherwise: R,
        change: impl FnMut(&mut TrunkLogins) -> R,
    ) -> R {
        if cfg!(feature = "operator") { self.trunk_logins.change(otherwise, change) } else { otherwise }
    }

    /// Replaces the route for requests to a trunk that its carrier gave; an empty one is none.
    pub(crate) fn set_service_route(&self, name: &str, uri: &str, route: &ServiceRoute) {
        self.service_routes.change((), |routes| {
            routes.set(name, uri, route);
            self.has_service_routes.store(!routes.is_empty(), Ordering::Relaxed);
        });
    }

    /// Route for requests to a trunk.
    pub(crate) fn service_route(&self, trunk: &Trunk) -> Option<ServiceRoute> {
        match cfg!(feature = "operator") && self.has_service_routes.load(Ordering::Relaxed) {
            true => self.service_routes.read(None, |routes| routes.of(trunk)),
            false => None,
        }
    }

    /// Counts a call of the user `aor` to a number with this prefix (see [`CallRates`]).
    pub(crate) fn admit_call(&self, now: Instant, aor: &[u8], prefix: &str, per_hour: u32) -> CallRate {
        if !cfg!(feature = "operator") {
            return CallRate::Admitted;
        }
        self.call_rates.change(CallRate::Admitted, |rates| rates.admit(now, aor, prefix, per_hour))
    }

    /// Counts a call for accounts with limits (see [`CallCounts::begin`]).
    ///
    /// # Errors
    /// It would be one too many for an account, or there is no room to count it.
    pub(crate) fn begin_counted(
        &self,
        lifetime: Lifetime,
        accounts: &[Limited<'_>],
        call: u64,
    ) -> Result<Box<CountedCall>, NotCounted> {
        self.has_counted_calls.store(true, Ordering::Relaxed);
        self.call_counts.change(Err(NotCounted::NoRoom), |calls| calls.begin(lifetime, accounts, call))
    }

    /// Counts a call of a trunk that is verified; false: there are as many in this second as may be.
    pub(crate) fn admit_check(&self, now: Instant, trunk: &str, per_second: u32) -> bool {
        let limits = TrunkLimits { under_way: None, per_second: Some(per_second) };
        let accounts = [(Account::FromTrunk(trunk), limits)];
        let present = Lifetime { now, until: now };
        self.trunk_checks.change(false, |checks| checks.begin(present, &accounts, 0).is_ok())
    }

    /// True if a call was ever counted, also under an earlier configuration.
    pub(crate) fn has_counted_calls(&self) -> bool {
        self.has_counted_calls.load(Ordering::Relaxed)
    }

    /// True if one of these accounts can have no further call at present.
    pub(crate) fn is_any_full(&self, now: Instant, accounts: &[Limited<'_>]) -> bool {
        self.call_counts
            .change(false, |calls| accounts.iter().any(|account| calls.reached(now, account).is_some()))
    }

    /// Ends, or notes the answer or a refresh of, counted calls.
    pub(crate) fn change_counted(&self, change: impl FnMut(&mut CallCounts)) {
        self.call_counts.change((), change);
    }

    /// Number of calls under way to a trunk, and from it, if it has a limit of them.
    pub fn trunk_calls(&self, trunk: &str) -> (u32, u32) {
        self.call_counts.read((0, 0), |calls| {
            (calls.len_of(&Account::ToTrunk(trunk)), calls.len_of(&Account::FromTrunk(trunk)))
        })
    }

    /// Filter in front of the table of lamps.
    pub fn dialog_state_filter(&self) -> &DialogStateFilter {
        &self.dialog_state_filter
    }

    /// Reads or changes the table of lamps.
    pub fn change_dialog_states<R>(&self, otherwise: R, change: impl FnMut(&mut DialogStates) -> R) -> R {
        if cfg!(feature = "events") { self.dialog_states.change(otherwise, change) } else { otherwise }
    }
}

fn parts<L: Locks, T: Send + Sync + 'static>(count: usize, part: impl FnMut(u64) -> T) -> Parts<T> {
    (0..count as u64).map(part).map(Guarded::new::<L>).collect()
}

fn part_of<T>(parts: &[Guarded<T>], hash: usize) -> Option<&Guarded<T>> {
    parts.get(hash % parts.len().max(1))
}

/// Hash of a source in the tables that are partitioned by source; those of an IPv6 network of 48 bits are counted together too.
fn part_of_source(source: IpAddr) -> usize {
    match source.to_canonical() {
        IpAddr::V4(v4) => v4.octets().into_iter().fold(0, |sum, octet| sum * 31 + usize::from(octet)),
        IpAddr::V6(v6) => v6
            .segments()
            .into_iter()
            .take(3)
            .fold(0, |sum: usize, segment| sum.wrapping_mul(31).wrapping_add(usize::from(segment))),
    }
}

/// First part of the seed for the rates, and for the budgets.
const RATES_KEY: u64 = 100;
const BUDGETS_KEY: u64 = 301;

//! Data of all shards that a server reads and writes at once, in memory.

use crate::{
    BindingChange, CallNames, CallRate, Caller, LampFilter, LampTable, LocateRefusal, LogEvent,
    NeighbourRoute, NeighbourTable, NodeState, Payer, SideTable, Traffic, TrunkEvent, TrunkLogins,
    TrunkPause,
};
use alloc::sync::Arc;
use core::net::IpAddr;
use ringway_auth::{Login, LoginResult, NonceId, NonceUse};
use ringway_location::NodeName;
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServer};
use ringway_sip::Message;
use ringway_sip::digest::Ha1;

/// Error of a store that cannot write at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;

/// Services that all shards share. No method may wait for a disk, a network, or a lock whose holder waits for one.
pub trait Services {
    /// H(A1) of a subscriber.
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1>;

    /// H(A1) of the same password for the user name `user@domain`, if it is known.
    fn full_credentials(&self, _user: &[u8], _domain: &[u8]) -> Option<Ha1> {
        None
    }

    /// True for a subscriber, registered or not.
    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool;

    /// Marks a nonce count as used (see [`ReplayWindows`](ringway_auth::ReplayWindows)).
    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse;

    /// False if this source is over its rate of such traffic (see [`TrafficRates`](crate::TrafficRates)).
    fn admit(&self, now: Instant, source: IpAddr, traffic: Traffic) -> bool;

    /// Gives back what a request of this source took that was none.
    fn give_back(&self, now: Instant, source: IpAddr);

    /// True if the block list has this source (see [`BlockList`](crate::BlockList)).
    fn is_source_blocked(&self, _source: IpAddr) -> bool {
        false
    }

    /// True if the block list has this caller.
    fn is_caller_blocked(&self, _caller: &Caller<'_>) -> bool {
        false
    }

    /// Reserves memory for a request that is forwarded (see [`MemoryBudget`](crate::MemoryBudget)); false if there is
    /// none.
    fn reserve(&self, _payer: Payer, _bytes: usize) -> bool {
        true
    }

    /// Reserves more memory for a request that has some.
    fn reserve_more(&self, _payer: Payer, _bytes: usize) -> bool {
        true
    }

    /// Releases a part of the memory that a request reserved.
    fn shrink(&self, _payer: Payer, _bytes: usize) {}

    /// Counts a request as answered.
    fn answered(&self, _payer: Payer) {}

    /// Releases the memory that a request reserved, at its end.
    fn release(&self, _payer: Payer, _bytes: usize) {}

    /// Extends a dialog's Record-Route mark until `until` (see [`DialogExtensions`](crate::tables::DialogExtensions)).
    fn extend_dialog(&self, _now: Instant, _mark: u64, _until: Instant) {}

    /// True if this mark was extended and has not ended.
    fn is_dialog_extended(&self, _now: Instant, _mark: u64) -> bool {
        false
    }

    /// True if some side of a dialog moved, or some phone left a flow.
    fn has_moved_sides(&self) -> bool {
        false
    }

    /// Reads or changes the table of these (see [`SideTable`]).
    fn change_sides(&self, _change: &mut dyn FnMut(&mut SideTable)) {}

    /// False after too many wrong passwords of this user or from this source (see
    /// [`GuessLimits`](ringway_auth::GuessLimits)): the password is then not checked.
    fn may_log_in(&self, _now: Instant, _login: &Login<'_>) -> bool {
        true
    }

    /// Takes a token for a challenge to an unusable digest of this user (see
    /// [`ChallengeLimits`](ringway_auth::ChallengeLimits)); false if there is none.
    fn may_challenge(&self, _now: Instant, _login: &Login<'_>) -> bool {
        true
    }

    /// Notes the result of a login.
    fn on_login(&self, _now: Instant, _login: &Login<'_>, _result: LoginResult) {}

    /// False if bindings are not stored, so that no records are needed.
    fn keeps_bindings(&self) -> bool {
        true
    }

    /// Maximum length in bytes of a record of `aor` that [`Services::store`] can write. Called before bindings change: a
    /// REGISTER that cannot be stored changes nothing.
    ///
    /// # Errors
    /// Nothing can be stored at present. A REGISTER must not get a 200 then.
    fn record_bytes_max(&self, _aor: &[u8]) -> Result<usize, StoreFailed> {
        Ok(usize::MAX)
    }

    /// True if the store failed and can write nothing at present, also where a REGISTER gets its 200 all the same.
    fn has_store_failed(&self) -> bool {
        false
    }

    /// Stores the bindings of an address-of-record; an empty record removes them.
    fn store(&self, aor: &[u8], record: &[u8]);

    /// Passes an encoded [`Update`](ringway_location::Update) of an address-of-record to the store that nodes share; returns the
    /// number that it is written with. 0: it is not written, and no record will have it.
    fn share(&self, _aor: &[u8], _update: &[u8]) -> u64 {
        0
    }

    /// False while another process may run that has the name of this node. Its bindings are not those of an earlier process then.
    fn has_name(&self) -> bool {
        !self.is_name_taken()
    }

    /// True while another process that runs has the name of this node: what registers here is not reached from other nodes.
    fn is_name_taken(&self) -> bool {
        false
    }

    /// False while this node has not read all bindings of the store that nodes share: a user without bindings may have some then.
    fn is_location_warm(&self) -> bool {
        true
    }

    /// Counts the begin of a read-through for a request from `source` (see [`LocateLimits`](crate::LocateLimits)).
    ///
    /// # Errors
    /// A limit is reached: the user has no bindings.
    fn begin_locate(&self, _now: Instant, _source: IpAddr, _is_proven: bool) -> Result<(), LocateRefusal> {
        Ok(())
    }

    /// Counts the end of a read-through.
    fn end_locate(&self) {}

    /// State of another node.
    fn node_state(&self, _node: &NodeName) -> NodeState {
        NodeState::Up
    }

    /// Notes a change, for listings that follow them; `flow` is the flow of the REGISTER, if that is the cause.
    fn on_change(&self, _aor: &[u8], _change: BindingChange, _flow: Option<Flow>) {}

    /// True while decisions are wanted ([`LogEvent::Decided`]).
    fn is_tracing(&self) -> bool {
        false
    }

    /// True if decisions are wanted while this received message is handled; asked once for each that is parsed, while a trace runs.
    fn is_traced(&self, _message: &Message<'_>) -> bool {
        self.is_tracing()
    }

    /// Names of the calls whose steps are recorded; `None` while none is.
    fn call_names(&self) -> Option<&CallNames> {
        None
    }

    /// Notes an event for the log.
    fn observe(&self, _now: Instant, _event: &LogEvent<'_>) {}

    /// True if a request to this server failed a short time ago (see [`FailedServers`](crate::FailedServers)).
    fn has_failed(&self, _now: Instant, _server: &LocatedServer) -> bool {
        false
    }

    /// Notes that a request to this server failed, which counts until `until`.
    fn note_failed(&self, _now: Instant, _server: &LocatedServer, _until: Instant) {}

    /// Way of a message for a stream flow without a connection (see [`NeighbourTable`]).
    fn neighbour_route(&self, _flow: &Flow) -> NeighbourRoute {
        NeighbourRoute::Other
    }

    /// Connection of the neighbour with this index in the configuration.
    fn neighbour_connection(&self, _neighbour: usize) -> Option<ConnectionId> {
        None
    }

    /// True if the neighbour with this index works.
    fn is_neighbour_up(&self, _neighbour: usize) -> bool {
        true
    }

    /// Reason why the trunk with this index is tried last at present (see [`PausedTrunks`](crate::PausedTrunks)).
    fn trunk_pause(&self, _now: Instant, _trunk: usize) -> Option<TrunkPause> {
        None
    }

    /// Notes that the trunk with this index is tried last until `until`.
    fn pause_trunk(&self, _trunk: usize, _pause: TrunkPause, _until: Instant) {}

    /// Notes that the trunk with this index, which was silent, sent a response.
    fn note_answering_trunk(&self, _trunk: usize) {}

    /// Notes what happened at the trunk with this index.
    fn note_trunk(&self, _now: Instant, _trunk: usize, _event: TrunkEvent) {}

    /// Reads or changes the answered challenges of trunks.
    fn change_trunk_logins(&self, _change: &mut dyn FnMut(&mut TrunkLogins)) {}

    /// Counts a call of the user `aor` to a number with this prefix (see [`CallRates`](crate::CallRates)).
    fn admit_call(&self, _now: Instant, _aor: &[u8], _prefix: &str, _per_hour: u32) -> CallRate {
        CallRate::Admitted
    }

    /// Filter in front of the table of lamps; `None`: there is no table.
    fn lamps(&self) -> Option<&LampFilter> {
        None
    }

    /// Reads or changes the table of lamps (see [`LampTable`]).
    fn change_lamps(&self, _change: &mut dyn FnMut(&mut LampTable)) {}

    /// Changes the table of neighbours.
    fn change_neighbours(&self, _change: &mut dyn FnMut(&mut NeighbourTable)) {}
}

impl<S: Services> Services for Arc<S> {
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        (**self).credentials(user, domain)
    }

    fn full_credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        (**self).full_credentials(user, domain)
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        (**self).is_known(user, domain)
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        (**self).use_nonce(now, nonce, count, request)
    }

    fn admit(&self, now: Instant, source: IpAddr, traffic: Traffic) -> bool {
        (**self).admit(now, source, traffic)
    }

    fn give_back(&self, now: Instant, source: IpAddr) {
        (**self).give_back(now, source);
    }

    fn is_source_blocked(&self, source: IpAddr) -> bool {
        (**self).is_source_blocked(source)
    }

    fn is_caller_blocked(&self, caller: &Caller<'_>) -> bool {
        (**self).is_caller_blocked(caller)
    }

    fn reserve(&self, payer: Payer, bytes: usize) -> bool {
        (**self).reserve(payer, bytes)
    }

    fn reserve_more(&self, payer: Payer, bytes: usize) -> bool {
        (**self).reserve_more(payer, bytes)
    }

    fn shrink(&self, payer: Payer, bytes: usize) {
        (**self).shrink(payer, bytes);
    }

    fn answered(&self, payer: Payer) {
        (**self).answered(payer);
    }

    fn release(&self, payer: Payer, bytes: usize) {
        (**self).release(payer, bytes);
    }

    fn extend_dialog(&self, now: Instant, mark: u64, until: Instant) {
        (**self).extend_dialog(now, mark, until);
    }

    fn is_dialog_extended(&self, now: Instant, mark: u64) -> bool {
        (**self).is_dialog_extended(now, mark)
    }

    fn has_moved_sides(&self) -> bool {
        (**self).has_moved_sides()
    }

    fn change_sides(&self, change: &mut dyn FnMut(&mut SideTable)) {
        (**self).change_sides(change);
    }

    fn may_log_in(&self, now: Instant, login: &Login<'_>) -> bool {
        (**self).may_log_in(now, login)
    }

    fn may_challenge(&self, now: Instant, login: &Login<'_>) -> bool {
        (**self).may_challenge(now, login)
    }

    fn on_login(&self, now: Instant, login: &Login<'_>, result: LoginResult) {
        (**self).on_login(now, login, result);
    }

    fn keeps_bindings(&self) -> bool {
        (**self).keeps_bindings()
    }

    fn record_bytes_max(&self, aor: &[u8]) -> Result<usize, StoreFailed> {
        (**self).record_bytes_max(aor)
    }

    fn has_store_failed(&self) -> bool {
        (**self).has_store_failed()
    }

    fn store(&self, aor: &[u8], record: &[u8]) {
        (**self).store(aor, record);
    }

    fn share(&self, aor: &[u8], update: &[u8]) -> u64 {
        (**self).share(aor, update)
    }

    fn has_name(&self) -> bool {
        (**self).has_name()
    }

    fn is_name_taken(&self) -> bool {
        (**self).is_name_taken()
    }

    fn is_location_warm(&self) -> bool {
        (**self).is_location_warm()
    }

    fn begin_locate(&self, now: Instant, source: IpAddr, is_proven: bool) -> Result<(), LocateRefusal> {
        (**self).begin_locate(now, source, is_proven)
    }

    fn end_locate(&self) {
        (**self).end_locate();
    }

    fn node_state(&self, node: &NodeName) -> NodeState {
        (**self).node_state(node)
    }

    fn on_change(&self, aor: &[u8], change: BindingChange, flow: Option<Flow>) {
        (**self).on_change(aor, change, flow);
    }

    fn is_tracing(&self) -> bool {
        (**self).is_tracing()
    }

    fn is_traced(&self, message: &Message<'_>) -> bool {
        (**self).is_traced(message)
    }

    fn call_names(&self) -> Option<&CallNames> {
        (**self).call_names()
    }

    fn observe(&self, now: Instant, event: &LogEvent<'_>) {
        (**self).observe(now, event);
    }

    fn has_failed(&self, now: Instant, server: &LocatedServer) -> bool {
        (**self).has_failed(now, server)
    }

    fn note_failed(&self, now: Instant, server: &LocatedServer, until: Instant) {
        (**self).note_failed(now, server, until);
    }

    fn neighbour_route(&self, flow: &Flow) -> NeighbourRoute {
        (**self).neighbour_route(flow)
    }

    fn neighbour_connection(&self, neighbour: usize) -> Option<ConnectionId> {
        (**self).neighbour_connection(neighbour)
    }

    fn is_neighbour_up(&self, neighbour: usize) -> bool {
        (**self).is_neighbour_up(neighbour)
    }

    fn trunk_pause(&self, now: Instant, trunk: usize) -> Option<TrunkPause> {
        (**self).trunk_pause(now, trunk)
    }

    fn pause_trunk(&self, trunk: usize, pause: TrunkPause, until: Instant) {
        (**self).pause_trunk(trunk, pause, until);
    }

    fn note_answering_trunk(&self, trunk: usize) {
        (**self).note_answering_trunk(trunk);
    }

    fn note_trunk(&self, now: Instant, trunk: usize, event: TrunkEvent) {
        (**self).note_trunk(now, trunk, event);
    }

    fn change_trunk_logins(&self, change: &mut dyn FnMut(&mut TrunkLogins)) {
        (**self).change_trunk_logins(change);
    }

    fn admit_call(&self, now: Instant, aor: &[u8], prefix: &str, per_hour: u32) -> CallRate {
        (**self).admit_call(now, aor, prefix, per_hour)
    }

    fn lamps(&self) -> Option<&LampFilter> {
        (**self).lamps()
    }

    fn change_lamps(&self, change: &mut dyn FnMut(&mut LampTable)) {
        (**self).change_lamps(change);
    }

    fn change_neighbours(&self, change: &mut dyn FnMut(&mut NeighbourTable)) {
        (**self).change_neighbours(change);
    }
}

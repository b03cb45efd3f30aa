//! The program that a server runs in: what it answers at once ([`Host`]), and what it is requested to do ([`Action`]).

use crate::report::CallNames;
use crate::{Aor, BindingChange, LogEvent, NodeState, TrunkEvent};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_location::NodeName;
use ringway_sansio::{Flow, Instant, NumberTarget, RelayRequest, Target};
use ringway_sip::Message;
use ringway_sip::digest::Ha1;

/// Error of a store that cannot write at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;

/// User name in the credentials of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// `user`.
    User,
    /// `user@domain`.
    WithDomain,
}

/// State of the store of bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// True if the store failed and can write nothing at present, also where a REGISTER gets its 200 all the same.
    pub has_failed: bool,
    /// False while this node has not read all bindings of the store that nodes share: a user without bindings may have some then.
    pub is_warm: bool,
    /// Name of this node.
    pub name: NodeNameStatus,
}

/// Right of this node to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeNameStatus {
    /// It has the name, or there are no other nodes.
    Own,
    /// Another process may run that has the name: its bindings are not those of an earlier process.
    Unconfirmed,
    /// Another process that runs has the name: what registers here is not reached from other nodes.
    Taken,
}

/// Notes an event for the log.
#[inline]
pub(crate) fn observe(host: &dyn Host, now: Instant, event: &LogEvent<'_>) {
    if cfg!(feature = "operator") {
        host.observe(now, event);
    }
}

/// The program that a server runs in: users, store, other nodes, observers. No method may wait for a disk, a network, or a lock whose holder
/// waits for one.
pub trait Host: Send + Sync {
    /// H(A1) of a subscriber for this form of its name, if it is known.
    fn credentials(&self, user: &[u8], domain: &[u8], form: NameForm) -> Option<Ha1>;

    /// True for a subscriber, registered or not.
    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool;

    /// False while the password of this user cannot be read: it is not checked, and the request is refused as after too many wrong ones.
    fn has_read(&self, user: &[u8], domain: &[u8]) -> bool;

    /// State of the store.
    fn store_status(&self) -> StoreStatus;

    /// Maximum length in bytes of a record of `aor` that [`Host::store`] can write. Called before bindings change: a REGISTER that cannot be
    /// stored changes nothing.
    ///
    /// # Errors
    /// Nothing can be stored at present. A REGISTER must not get a 200 then.
    fn record_bytes_max(&self, aor: &[u8]) -> Result<usize, StoreFailed>;

    /// Stores the bindings of an address-of-record; an empty record removes them.
    fn store(&self, aor: &[u8], record: &[u8]);

    /// Passes an encoded [`Update`](ringway_location::Update) of an address-of-record to the store that nodes share; returns the
    /// number that it is written with. 0: it is not written, and no record will have it.
    fn share(&self, aor: &[u8], update: &[u8]) -> u64;

    /// State of another node.
    fn node_state(&self, node: &NodeName) -> NodeState;

    /// Nodes that can register the trunks with this [hash](crate::Trunking::registering_hash) at present, this one among them if it can.
    /// Passes the hash to the others. `None`: the other nodes are not known yet, soon after the start.
    fn nodes_with_trunks(&self, trunks: u64) -> Option<Vec<NodeName>>;

    /// Notes a change, for listings that follow them; `flow` is the flow of the REGISTER, if that is the cause.
    fn on_change(&self, aor: &[u8], change: BindingChange, flow: Option<Flow>);

    /// True if decisions are wanted ([`LogEvent::Decided`]) while this message is handled, which was received on this flow; `None`: while
    /// any may be handled. One that is refused before it is parsed is reported instead ([`LogEvent::Received`]).
    fn is_traced(&self, received: Option<(&Message<'_>, &Flow)>) -> bool;

    /// Names of the calls whose steps are recorded; `None` while none is.
    fn call_names(&self) -> Option<&CallNames>;

    /// Notes an event for the log.
    fn observe(&self, now: Instant, event: &LogEvent<'_>);

    /// Notes what happened at the trunk with this index.
    fn note_trunk(&self, now: Instant, trunk: usize, event: TrunkEvent);
}

/// Requested action: anything but a packet or a query to the [`Host`](crate::Host).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up the servers of a host name; the result is [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// Number of the query, for the result.
        query: u64,
        /// The host name, and what its URI says.
        target: Target,
    },
    /// Look up the URIs of a telephone number; the result is
    /// [`Event::NumberResolved`](ringway_sansio::Event::NumberResolved).
    ResolveNumber {
        /// Number of the query, for the result.
        query: u64,
        /// The telephone number, and the zones.
        target: NumberTarget,
    },
    /// Fetch the certificate at this URL, of a host that [`StirConfig::hosts`](crate::StirConfig::hosts) has; the result is
    /// [`Event::SignerFound`](ringway_sansio::Event::SignerFound).
    FindSigner {
        /// Number of the query, for the result.
        query: u64,
        /// The URL.
        url: Box<str>,
    },
    /// Read the bindings of a user from the store that nodes share. The record is passed to [`Server::on_record`](crate::Server::on_record),
    /// then follows [`Event::Located`](ringway_sansio::Event::Located), in 50 ms at most.
    Locate {
        /// Number of the query, for the result.
        query: u64,
        /// The user.
        aor: Aor,
    },
    /// Deliver [`Event::StateChanged`](ringway_sansio::Event::StateChanged) with `user@domain` to the shard of this user
    /// ([`shard_of_user`](crate::shard_of_user)). One that is lost delays a NOTIFY by 30 s.
    CallsChanged {
        /// User whose calls changed.
        user: Aor,
    },
    /// Send a request to a media relay; the result is [`Event::Relayed`](ringway_sansio::Event::Relayed). A request to
    /// delete has none.
    Relay {
        /// Number of the query, for the result.
        query: u64,
        /// The request.
        request: RelayRequest,
    },
}

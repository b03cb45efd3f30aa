//! The program that a server runs in, as the server sees it.

use crate::report::CallNames;
use crate::{BindingChange, LogEvent, NodeState, TrunkEvent};
use ringway_location::NodeName;
use ringway_sansio::{Flow, Instant};
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

    /// False if bindings are not stored, so that no records are needed. It never changes.
    fn keeps_bindings(&self) -> bool;

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

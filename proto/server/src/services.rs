//! What a server asks of its surroundings, answered from memory and at once.

use crate::auth::{Login, LoginResult, NonceId, NonceUse};
use crate::{BindingChange, LogEvent};
use alloc::sync::Arc;
use core::net::IpAddr;
use ringway_sansio::{Flow, Instant};
use ringway_sip::digest::Ha1;

/// The store cannot keep a promise now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailed;

/// Shared by all shards. No method may wait for a disk, a network or a lock that somebody holds while waiting.
pub trait Services {
    /// H(A1) of a subscriber of ours.
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1>;

    /// True for a subscriber of ours, registered or not.
    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool;

    /// Marks a nonce count as used (see [`ReplayWindows`](crate::auth::ReplayWindows)).
    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse;

    /// False when this source sent more requests than it may (see [`SourceRates`](crate::SourceRates)).
    fn admit(&self, now: Instant, source: IpAddr) -> bool;

    /// Takes memory for a request that is forwarded (see [`MemoryBudget`](crate::MemoryBudget)); false: there is none.
    fn reserve(&self, _source: IpAddr, _bytes: usize, _is_stranger: bool) -> bool {
        true
    }

    /// Gives back a part of what was reserved for a request.
    fn shrink(&self, _source: IpAddr, _bytes: usize) {}

    /// Gives back what is reserved for one request, which is over.
    fn release(&self, _source: IpAddr, _bytes: usize) {}

    /// Moves the end of a dialog's Record-Route mark (see [`DialogExtensions`](crate::auth::DialogExtensions)).
    fn extend_dialog(&self, _now: Instant, _mark: u64, _until: Instant) {}

    /// True when the end of this mark was moved and has not come yet.
    fn is_dialog_extended(&self, _now: Instant, _mark: u64) -> bool {
        false
    }

    /// False when too many passwords were guessed of this user or from this source (see
    /// [`GuessLimits`](crate::auth::GuessLimits)): then the password is not checked.
    fn may_log_in(&self, _now: Instant, _login: &Login<'_>) -> bool {
        true
    }

    /// Takes note of how an attempt to log in ended.
    fn on_login(&self, _now: Instant, _login: &Login<'_>, _result: LoginResult) {}

    /// False when nothing is kept over a restart: then no records need to be made.
    fn keeps_bindings(&self) -> bool {
        true
    }

    /// The longest record of `aor` that [`Services::store`] can keep, in bytes. Asked before bindings change: a REGISTER
    /// that cannot be stored changes nothing.
    ///
    /// # Errors
    /// Nothing can be kept now, and whoever is told 200 must be able to rely on it.
    fn record_bytes_max(&self, _aor: &[u8]) -> Result<usize, StoreFailed> {
        Ok(usize::MAX)
    }

    /// Keeps the bindings of an address-of-record over a restart; an empty record: it has none any more.
    fn store(&self, aor: &[u8], record: &[u8]);

    /// Takes note of a change, for a listing that follows them; `flow` is that of the REGISTER, where one was the reason.
    fn on_change(&self, _aor: &[u8], _change: BindingChange, _flow: Option<Flow>) {}

    /// Takes note of an event for a log.
    fn observe(&self, _now: Instant, _event: &LogEvent<'_>) {}
}

impl<S: Services> Services for Arc<S> {
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        (**self).credentials(user, domain)
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        (**self).is_known(user, domain)
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        (**self).use_nonce(now, nonce, count, request)
    }

    fn admit(&self, now: Instant, source: IpAddr) -> bool {
        (**self).admit(now, source)
    }

    fn reserve(&self, source: IpAddr, bytes: usize, is_stranger: bool) -> bool {
        (**self).reserve(source, bytes, is_stranger)
    }

    fn shrink(&self, source: IpAddr, bytes: usize) {
        (**self).shrink(source, bytes);
    }

    fn release(&self, source: IpAddr, bytes: usize) {
        (**self).release(source, bytes);
    }

    fn extend_dialog(&self, now: Instant, mark: u64, until: Instant) {
        (**self).extend_dialog(now, mark, until);
    }

    fn is_dialog_extended(&self, now: Instant, mark: u64) -> bool {
        (**self).is_dialog_extended(now, mark)
    }

    fn may_log_in(&self, now: Instant, login: &Login<'_>) -> bool {
        (**self).may_log_in(now, login)
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

    fn store(&self, aor: &[u8], record: &[u8]) {
        (**self).store(aor, record);
    }

    fn on_change(&self, aor: &[u8], change: BindingChange, flow: Option<Flow>) {
        (**self).on_change(aor, change, flow);
    }

    fn observe(&self, now: Instant, event: &LogEvent<'_>) {
        (**self).observe(now, event);
    }
}

//! Reports to the service manager (sd_notify(3)); without one they have no effect.

use sd_notify::NotifyState;

/// Reports that the server listens.
pub(super) fn ready() {
    report(&[NotifyState::Ready]);
}

/// Reports that the server stops.
pub(super) fn stopping() {
    report(&[NotifyState::Stopping]);
}

fn report(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}

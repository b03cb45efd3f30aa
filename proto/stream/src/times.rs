//! Times of a connection, the deadlines computed from them, and the rate limit of answers to keep-alives.

use crate::{CloseReason, StreamLimits};
use ringway_sansio::{Defence, Instant};

/// Side that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The peer.
    Accepted,
    /// This program.
    Dialled,
}

/// Times of one connection, for comparison with [`StreamLimits`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    origin: Origin,
    is_connected: bool,
    /// Time of dialling, or, once it is connected, of that event.
    since: Instant,
    last_bytes: Instant,
    last_message: Instant,
    kept_until: Instant,
    partial_since: Option<Instant>,
    waiting_since: Option<Instant>,
    ending_since: Option<Instant>,
    has_received_message: bool,
}

impl Times {
    /// Creates the times of a connection that begins now. An accepted one is connected.
    pub(crate) const fn new(origin: Origin, now: Instant) -> Self {
        Self {
            origin,
            is_connected: matches!(origin, Origin::Accepted),
            since: now,
            last_bytes: now,
            last_message: now,
            kept_until: now,
            partial_since: None,
            waiting_since: None,
            ending_since: None,
            has_received_message: false,
        }
    }

    pub(crate) const fn origin(&self) -> Origin {
        self.origin
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.is_connected
    }

    pub(crate) const fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn connected(&mut self, now: Instant) {
        self.is_connected = true;
        self.since = now;
        self.last_bytes = now;
        // The peer can read only from now on.
        self.waiting_since = self.waiting_since.map(|_| now);
    }

    pub(crate) const fn received_bytes(&mut self, now: Instant) {
        self.last_bytes = now;
    }

    /// Updates the state of framing: `is_partial` if a message is incomplete, `has_whole` if one was completed.
    pub(crate) fn framed(&mut self, is_partial: bool, has_whole: bool, now: Instant) {
        self.has_received_message |= has_whole;
        if has_whole {
            self.last_message = now;
        }
        self.partial_since = match is_partial {
            false => None,
            true if has_whole => Some(now),
            true => self.partial_since.or(Some(now)),
        };
    }

    pub(crate) const fn sent_message(&mut self, now: Instant) {
        self.last_message = now;
    }

    pub(crate) fn keep(&mut self, until: Instant) {
        self.kept_until = self.kept_until.max(until);
    }

    pub(crate) fn is_kept(&self, now: Instant) -> bool {
        self.kept_until > now
    }

    /// Notes that bytes are queued for the peer.
    pub(crate) fn queued(&mut self, now: Instant) {
        self.waiting_since = self.waiting_since.or(Some(now));
    }

    /// Notes that the peer accepted some of them.
    pub(crate) const fn written(&mut self, now: Instant) {
        self.waiting_since = Some(now);
    }

    /// Notes that the queue is empty.
    pub(crate) const fn drained(&mut self) {
        self.waiting_since = None;
    }

    /// Notes that nothing more is received.
    pub(crate) fn ending(&mut self, now: Instant) {
        self.ending_since = self.ending_since.or(Some(now));
    }

    /// Time at which the connection must be closed if nothing happens, and the reason.
    pub(crate) fn deadline(&self, limits: &StreamLimits, is_handshaking: bool) -> (Instant, CloseReason) {
        let is_dialling = !self.is_connected || (is_handshaking && self.origin == Origin::Dialled);
        if is_dialling {
            return (self.since + limits.connect, CloseReason::NotConnected);
        }
        if let Some(since) = self.ending_since {
            let stalled = self.waiting_since.map_or(Instant::FAR, |since| since + limits.write_stall);
            return (stalled.min(since + limits.linger), CloseReason::Unread);
        }
        let mut first = (self.last_bytes + limits.idle, CloseReason::Idle);
        let mut sooner = |at: Instant, why| {
            if at < first.0 {
                first = (at, why);
            }
        };
        if let Some(since) = self.partial_since.filter(|_| Defence::MessageTime.is_on()) {
            sooner(since + limits.message, CloseReason::Slow);
        }
        if is_handshaking && Defence::HandshakeTime.is_on() {
            sooner(self.since + limits.handshake, CloseReason::Handshake);
        }
        if self.origin == Origin::Accepted && !self.has_received_message && Defence::FirstMessage.is_on() {
            sooner(self.since + limits.first_message, CloseReason::Slow);
        }
        if self.origin == Origin::Accepted {
            sooner(self.kept_until.max(self.last_message + limits.unused), CloseReason::Unused);
        }
        if let Some(since) = self.waiting_since {
            sooner(since + limits.write_stall, CloseReason::Unread);
        }
        first
    }
}

/// Token bucket of the answers (pongs) of one connection: each costs a write. Phones send a keep-alive every 15 seconds
/// or less often (RFC 5626 §4.4.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlives {
    left: u64,
    refilled_s: u64,
}

impl KeepAlives {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { left: AT_ONCE_MAX, refilled_s: now.as_secs() }
    }

    /// Takes up to `wanted` answers; fewer if the limit is reached.
    pub(crate) fn take(&mut self, wanted: usize, now: Instant) -> usize {
        let passed_s = now.as_secs().saturating_sub(self.refilled_s);
        self.refilled_s += passed_s;
        self.left = (self.left.saturating_add(passed_s)).min(AT_ONCE_MAX);
        if !Defence::KeepAlives.is_on() {
            return wanted;
        }
        let taken = self.left.min(wanted as u64);
        self.left -= taken;
        taken as usize
    }
}

/// Maximum number of answers at once; one more each second.
const AT_ONCE_MAX: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn only_messages_and_what_keeps_it_hold_an_accepted_connection() {
        let limits = StreamLimits { unused: Duration::from_secs(60), ..StreamLimits::default() };
        let at = Instant::from_secs;
        let mut times = Times::new(Origin::Accepted, at(0));
        times.framed(false, true, at(10));
        times.received_bytes(at(50));
        times.framed(false, false, at(50));
        assert_eq!(
            times.deadline(&limits, false),
            (at(70), CloseReason::Unused),
            "a keep-alive is no message"
        );
        times.sent_message(at(65));
        assert_eq!(times.deadline(&limits, false), (at(125), CloseReason::Unused));
        times.keep(at(3600));
        times.keep(at(100));
        assert_eq!(times.deadline(&limits, false), (at(3600), CloseReason::Unused));
        times.keep(Instant::FAR);
        assert_eq!(times.deadline(&limits, false), (at(7550), CloseReason::Idle));
        let dialled = Times { is_connected: true, ..Times::new(Origin::Dialled, at(0)) };
        assert_eq!(dialled.deadline(&limits, false), (at(7500), CloseReason::Idle));
    }
}

//! Retransmission schedules (RFC 6189 §6).

use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::Instant;

/// A message that is retransmitted until its answer arrives.
pub(crate) struct Retransmission {
    pub(crate) message: Vec<u8>,
    /// Name of the answer.
    pub(crate) awaited: &'static str,
    interval: Duration,
    interval_max: Duration,
    left: u32,
    at: Instant,
    is_extended: bool,
}

/// Result of [`Retransmission::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    NotYet,
    Again,
    /// The schedule is over, and so is the wait for the answer.
    GiveUp,
}

impl Retransmission {
    /// Schedule of a Hello: retransmitted after 50 ms, 100 ms and then every 200 ms, for almost 4 s.
    pub(crate) fn hello(now: Instant, message: Vec<u8>) -> Self {
        let interval = Duration::from_millis(50);
        Self {
            message,
            awaited: "HelloACK",
            interval,
            interval_max: Duration::from_millis(200),
            left: 20,
            at: now + interval,
            is_extended: false,
        }
    }

    /// Schedule of the other messages: retransmitted after 150 ms, 300 ms, 600 ms and then every 1.2 s, for
    /// 9.45 s, and a last wait.
    pub(crate) fn message(now: Instant, message: Vec<u8>, awaited: &'static str) -> Self {
        let interval = Duration::from_millis(150);
        Self {
            message,
            awaited,
            interval,
            interval_max: Duration::from_millis(1200),
            left: 10,
            at: now + interval,
            is_extended: false,
        }
    }

    /// Continues the Hellos for 12 s in all, because the peer has sent a ZRTP packet.
    pub(crate) fn extend(&mut self) {
        if !self.is_extended {
            self.is_extended = true;
            self.left += 42;
        }
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Due {
        if now < self.at {
            return Due::NotYet;
        }
        let Some(left) = self.left.checked_sub(1) else { return Due::GiveUp };
        self.left = left;
        self.interval = (self.interval * 2).min(self.interval_max);
        self.at = now + self.interval;
        Due::Again
    }

    pub(crate) const fn at(&self) -> Instant {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut retransmission: Retransmission) -> Vec<u64> {
        let mut times = Vec::new();
        loop {
            let now = retransmission.at();
            times.push(now.as_millis());
            match retransmission.poll(now) {
                Due::NotYet => panic!("not due at its deadline"),
                Due::Again => {}
                Due::GiveUp => return times,
            }
        }
    }

    #[test]
    fn hellos_follow_t1() {
        let sent = times(Retransmission::hello(Instant::default(), Vec::new()));
        assert_eq!(sent[..5], [50, 150, 350, 550, 750]);
        assert_eq!((sent.len(), sent[19], sent[20]), (21, 3750, 3950));
        let mut extended = Retransmission::hello(Instant::default(), Vec::new());
        extended.extend();
        extended.extend();
        let sent = times(extended);
        assert_eq!((sent.len(), sent[61]), (63, 12_150));
    }

    #[test]
    fn other_messages_follow_t2() {
        let sent = times(Retransmission::message(Instant::default(), Vec::new(), ""));
        assert_eq!(sent, [150, 450, 1050, 2250, 3450, 4650, 5850, 7050, 8250, 9450, 10650]);
    }
}

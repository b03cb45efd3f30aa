//! ICMP errors of a worker's datagram sockets, and their limit.

use crate::counters::Counters;
use crate::sys::{IcmpBatch, queue_icmp_errors};
use ringway_sansio::{Flow, IcmpError, Instant, ListenerId};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

/// Takes ICMP errors from the sockets, at most [`ERRORS_PER_S_MAX`] a second.
///
/// Anybody can send errors for any port of ours. Beyond the limit the kernel discards them until the second is over, so that
/// they cost nothing.
pub(crate) struct IcmpErrors {
    batch: IcmpBatch,
    /// Begin of the second that `left` is for.
    since: Instant,
    left: usize,
    is_paused: bool,
}

impl IcmpErrors {
    /// Begins with the errors of `sockets`. Where the kernel refuses, requests to closed ports time out.
    pub(crate) fn new(sockets: &[Option<UdpSocket>], now: Instant) -> Self {
        switch(sockets.iter().flatten(), true);
        Self { batch: IcmpBatch::new(ERRORS_PER_CALL), since: now, left: ERRORS_PER_S_MAX, is_paused: false }
    }

    /// Begins with the errors of new sockets.
    pub(crate) fn begin(&self, sockets: &[UdpSocket]) {
        if !self.is_paused {
            switch(sockets, true);
        }
    }

    /// Takes one batch of errors of a listener's socket and passes those that concern a transport user (RFC 3261 §18.4) to
    /// `each`; returns the number of all.
    pub(crate) fn take(
        &mut self,
        sockets: &[Option<UdpSocket>],
        listener: ListenerId,
        counters: &Counters,
        mut each: impl FnMut(IcmpError<'_>),
    ) -> usize {
        let Some(Some(socket)) = sockets.get(usize::from(listener.0)) else { return 0 };
        let count = self.batch.receive(socket.as_fd());
        for error in (0..count).filter_map(|index| self.batch.error(index)) {
            counters.icmp_errors.increment();
            if error.is_unreachable {
                let flow = Flow::udp(listener, Flow::canonical(error.to));
                each(IcmpError { flow, quoted: error.quoted });
            }
        }
        self.left = self.left.saturating_sub(count);
        if self.left == 0 && !self.is_paused {
            counters.icmp_pauses.increment();
            self.is_paused = true;
            switch(sockets.iter().flatten(), false);
        }
        count
    }

    /// Begins a new second when it is time.
    pub(crate) fn refill(&mut self, sockets: &[Option<UdpSocket>], now: Instant) {
        if self.left == ERRORS_PER_S_MAX || now < self.since + SECOND {
            return;
        }
        self.since = now;
        self.left = ERRORS_PER_S_MAX;
        if std::mem::take(&mut self.is_paused) {
            switch(sockets.iter().flatten(), true);
        }
    }
}

/// Switches the queueing of errors on or off. It fails only for sockets that are not of IP.
fn switch<'s>(sockets: impl IntoIterator<Item = &'s UdpSocket>, is_on: bool) {
    for socket in sockets {
        let is_ipv6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
        let _ = queue_icmp_errors(socket.as_fd(), is_ipv6, is_on);
    }
}

/// Maximum number of errors that a worker takes in a second.
pub(crate) const ERRORS_PER_S_MAX: usize = 1000;

const ERRORS_PER_CALL: usize = 16;

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of errors of one datagram to a closed port.
    fn errors(icmp: &mut IcmpErrors, sockets: &[Option<UdpSocket>], counters: &Counters) -> usize {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = sockets[0].as_ref().unwrap();
        // On loopback the error is queued before `send_to` returns; a pending one makes it fail once.
        while socket.send_to(b"request", closed).is_err() {}
        icmp.take(sockets, ListenerId(0), counters, |error| {
            assert_eq!((error.flow, error.quoted), (Flow::udp(ListenerId(0), closed), &b"request"[..]));
        })
    }

    #[test]
    fn errors_beyond_the_limit_are_discarded_until_the_second_is_over() {
        let start = Instant::from_secs(9);
        let sockets = [Some(UdpSocket::bind("127.0.0.1:0").unwrap()), None];
        let counters = Counters::default();
        let mut icmp = IcmpErrors::new(&sockets, start);
        let taken: usize = (0..ERRORS_PER_S_MAX).map(|_| errors(&mut icmp, &sockets, &counters)).sum();
        assert_eq!(taken, ERRORS_PER_S_MAX);
        assert_eq!((0..50).map(|_| errors(&mut icmp, &sockets, &counters)).sum::<usize>(), 0);
        icmp.refill(&sockets, start + SECOND / 2);
        assert_eq!(errors(&mut icmp, &sockets, &counters), 0);
        assert_eq!((counters.icmp_errors.read(), counters.icmp_pauses.read()), (1000, 1));
        icmp.refill(&sockets, start + SECOND);
        assert_eq!(errors(&mut icmp, &sockets, &counters), 1);
    }
}

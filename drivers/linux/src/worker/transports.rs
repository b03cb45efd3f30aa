//! Sockets of a worker below its messages: connections of either kind (streams and associations), sending of datagram
//! batches, ICMP errors and their limit.

use crate::associations::AssociationTable;
use crate::counters::Counters;
use crate::shared::Common;
use crate::shared::connections::{self, Kind, kind_of};
use crate::sys::{IcmpBatch, Sending, queue_icmp_errors, wait_writable};
use crate::tcp::Streams;
use crate::tcp::stream::More;
use ringway_sansio::{ConnectionId, Dialler, Flow, Framer, IcmpError, Instant, ListenerId, Token, Transport};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Connections of a worker: streams and associations.
pub(crate) struct Connected<'a, F> {
    pub(crate) streams: &'a mut Streams<F>,
    pub(crate) associations: &'a mut AssociationTable,
    pub(crate) udp: &'a [Option<UdpSocket>],
    pub(crate) now: Instant,
}

impl<F: Framer> Connected<'_, F> {
    pub(crate) fn send(&mut self, flow: Flow, (token, dialler): (Token, Dialler), bytes: &[u8], more: More) {
        let Self { streams, associations, udp, now } = self;
        match (flow.connection, flow.transport) {
            (Some(id), Transport::Dtls) => associations.send(udp, id, token, bytes, *now),
            (None, Transport::Dtls) => associations.dial(udp, flow, token, bytes, *now),
            (Some(id), _) => streams.send(id, token, bytes, more, *now),
            (None, _) => streams.dial(flow, (token, dialler), bytes, more, *now),
        }
    }

    pub(crate) fn keep(&mut self, id: ConnectionId, until: Instant) {
        match kind_of(id) {
            Kind::Stream => self.streams.keep(id, until),
            Kind::Association => self.associations.keep(id, until),
        }
    }

    pub(crate) fn disconnect(&mut self, flow: &Flow) {
        match flow.transport {
            Transport::Dtls => self.associations.disconnect(self.udp, flow, self.now),
            _ => self.streams.disconnect(flow),
        }
    }
}

/// Sends over a connection of this worker, or passes the packet to its owner. The owner of a connection to be dialled depends
/// on the remote address, so that all workers use the same one.
pub(crate) fn send_connected<F: Framer>(
    common: &Common,
    worker: usize,
    connections: &mut Connected<'_, F>,
    (flow, token, dialler): (Flow, Token, Dialler),
    bytes: &[u8],
    more: More,
) {
    let owner = owner_of(common, &flow);
    if owner == worker {
        return connections.send(flow, (token, dialler), bytes, more);
    }
    let Some(inbox) = common.inboxes.of(owner) else { return connections.streams.unreachable(token) };
    if !inbox.push_stream(flow, (token, dialler), bytes) {
        connections.streams.inbox_full(token);
    }
}

/// Worker that has the connection of a flow, or dials it.
pub(crate) fn owner_of(common: &Common, flow: &Flow) -> usize {
    match flow.connection {
        Some(id) => connections::owner_of(id),
        None => common.dialler_of(flow),
    }
}

/// Sends the batch in order and clears it. Tags are tokens; `refused` gets the tokens of packets that the kernel
/// refuses. If the socket's buffer remains full, the rest is dropped and counted, like a loss on the network; SIP
/// retransmits.
pub(crate) fn send_all(
    sending: &mut Sending<'_, '_>,
    socket: BorrowedFd<'_>,
    counters: &Counters,
    mut refused: impl FnMut(Token),
) {
    let mut waits_left = WAITS_MAX;
    let mut tries_left = TRIES_MAX;
    while sending.left() > 0 {
        let error = match sending.send(socket) {
            Ok(sent) => {
                counters.datagrams_out.add(sent as u64);
                tries_left = TRIES_MAX;
                continue;
            }
            Err(error) => error,
        };
        let no_room = error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS);
        if no_room {
            if waits_left == 0 || !wait_writable(socket, WAIT) {
                counters.send_drops.add(sending.left() as u64);
                break;
            }
            waits_left -= 1;
        } else if error.kind() != ErrorKind::Interrupted {
            // An ICMP error for an earlier packet makes one call fail; a refusal of this packet repeats itself.
            tries_left -= 1;
            if tries_left > 0 {
                continue;
            }
            tries_left = TRIES_MAX;
            counters.send_errors.increment();
            if let Some(tag) = sending.skip() {
                refused(Token(tag));
            }
        }
    }
    sending.clear();
}

/// Maximum duration of one wait for buffer space.
const WAIT: Duration = Duration::from_millis(2);

/// Number of failures after which a packet is refused. So many ICMP errors do not arrive between as many calls.
const TRIES_MAX: u32 = 5;

/// Maximum number of waits in one batch.
const WAITS_MAX: u32 = 4;

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
const ERRORS_PER_S_MAX: usize = 1000;

const ERRORS_PER_CALL: usize = 16;

const SECOND: Duration = Duration::from_secs(1);

/// True for the error of a socket for which an ICMP error came.
pub(super) fn is_icmp(error: &io::Error) -> bool {
    let kinds = [ErrorKind::ConnectionRefused, ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable];
    kinds.contains(&error.kind())
}

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

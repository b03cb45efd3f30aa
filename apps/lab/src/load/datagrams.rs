//! UDP sockets of one side of the load.

use super::locals::Locals;
use super::{Input, Place, WireCounters, token};
use anyhow::{Context as _, Result};
use ringway_linux::sys::{
    BATCH_MAX, Epoll, IcmpBatch, Interest, ReceiveBatch, SendBatch, Sending, Wait, queue_icmp_errors,
    set_buffers, wait_writable,
};
use ringway_sansio::{Flow, IcmpError, ListenerId, Outbox, Received};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Buffers for system calls with many datagrams, of one thread.
pub(crate) struct Batches {
    receive: ReceiveBatch,
    send: SendBatch,
    icmp: IcmpBatch,
}

impl Batches {
    pub(crate) fn new() -> Self {
        Self {
            receive: ReceiveBatch::new(BATCH_MAX),
            send: SendBatch::new(BATCH_MAX),
            icmp: IcmpBatch::new(ICMP_BATCH),
        }
    }
}

/// UDP sockets; a listener is a socket.
pub(crate) struct Datagrams {
    sockets: Vec<UdpSocket>,
    target: SocketAddr,
    /// Listeners of the packets that are being sent.
    listeners: Vec<ListenerId>,
}

impl Datagrams {
    /// Opens sockets at `locals`, watched by `epoll` with tokens of `player`.
    pub(crate) fn open(locals: &Locals, target: SocketAddr, epoll: &Epoll, player: u8) -> Result<Self> {
        let mut sockets = Vec::new();
        for (index, local) in locals.addresses().enumerate() {
            let socket = UdpSocket::bind((local, 0)).with_context(|| locals.advice(local))?;
            set_buffers(socket.as_fd(), BUFFER_BYTES);
            queue_icmp_errors(socket.as_fd(), local.is_ipv6(), true).context("ask for ICMP errors")?;
            epoll
                .add(socket.as_fd(), token(player, Place::Socket(index)), Interest::Read)
                .context("watch a socket")?;
            sockets.push(socket);
        }
        Ok(Self { sockets, target, listeners: Vec::new() })
    }

    /// Addresses of the sockets.
    pub(crate) fn locals(&self) -> Result<Vec<SocketAddr>> {
        self.sockets.iter().map(|socket| socket.local_addr().context("read a socket's address")).collect()
    }

    /// Receives one batch of datagrams, and ICMP errors, of a socket. Further ones make the socket ready again.
    pub(crate) fn receive(
        &self,
        index: usize,
        is_error: bool,
        batches: &mut Batches,
        counters: &mut WireCounters,
        each: &mut dyn FnMut(Input<'_>),
    ) -> Result<()> {
        if is_error {
            self.take_icmp_errors(index, &mut batches.icmp, counters, each);
        }
        let Some(socket) = self.sockets.get(index) else { return Ok(()) };
        let count = match batches.receive.receive(socket.as_fd(), Wait::Never) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            // An ICMP error makes one call fail.
            Err(_) if self.take_icmp_errors(index, &mut batches.icmp, counters, each) > 0 => 0,
            Err(error) => return Err(error).context("receive"),
        };
        for number in 0..count {
            let Some((remote, bytes)) = batches.receive.datagram(number) else { continue };
            let flow = Flow::udp(listener(index), Flow::canonical(remote));
            each(Input::Message(Received::new(flow, bytes)));
        }
        Ok(())
    }

    fn take_icmp_errors(
        &self,
        index: usize,
        icmp: &mut IcmpBatch,
        counters: &mut WireCounters,
        each: &mut dyn FnMut(Input<'_>),
    ) -> usize {
        let Some(socket) = self.sockets.get(index) else { return 0 };
        let count = icmp.receive(socket.as_fd());
        for error in (0..count).filter_map(|number| icmp.error(number)) {
            let remote = Flow::canonical(error.to);
            if error.is_unreachable {
                counters.refused += u64::from(remote == self.target);
                let flow = Flow::udp(listener(index), remote);
                each(Input::Icmp(IcmpError { flow, quoted: error.quoted }));
            }
        }
        count
    }

    /// Sends the packets of `out` whose destination is permitted, one batch for each socket.
    pub(crate) fn send(
        &mut self,
        out: &Outbox,
        is_permitted: impl Fn(SocketAddr) -> bool,
        batches: &mut Batches,
        counters: &mut WireCounters,
    ) {
        self.listeners.clear();
        for (packet, _) in out.packets() {
            if !self.listeners.contains(&packet.flow.listener) {
                self.listeners.push(packet.flow.listener);
            }
        }
        let Self { sockets, listeners, .. } = self;
        for listener in listeners {
            let Some(socket) = sockets.get(usize::from(listener.0)) else { continue };
            let mut sending = batches.send.begin();
            for (packet, bytes) in out.packets().filter(|(packet, _)| packet.flow.listener == *listener) {
                if !is_permitted(packet.flow.remote) {
                    counters.not_permitted += 1;
                    continue;
                }
                if !sending.push(packet.flow.remote, bytes, 0) {
                    send_all(&mut sending, socket.as_fd(), counters);
                    sending.push(packet.flow.remote, bytes, 0);
                }
            }
            send_all(&mut sending, socket.as_fd(), counters);
        }
    }
}

/// Sends the batch in order and clears it. Packets that the system does not accept are counted; SIP retransmits.
fn send_all(sending: &mut Sending<'_, '_>, socket: BorrowedFd<'_>, counters: &mut WireCounters) {
    let mut tries_left = TRIES_MAX;
    while sending.left() > 0 {
        match sending.send(socket) {
            Ok(_) => tries_left = TRIES_MAX,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && wait_writable(socket, WAIT) => {}
            Err(error) => {
                // An ICMP error for an earlier packet makes one call fail; a refusal of this packet repeats itself.
                tries_left -= 1;
                if tries_left == 0 || error.kind() == ErrorKind::WouldBlock {
                    counters.unsent += 1;
                    sending.skip();
                    tries_left = TRIES_MAX;
                }
            }
        }
    }
    sending.clear();
}

fn listener(index: usize) -> ListenerId {
    ListenerId(u8::try_from(index).unwrap_or(u8::MAX))
}

/// Buffers of a socket in each direction.
const BUFFER_BYTES: usize = 4 << 20;
/// Number of ICMP errors that are taken at once.
const ICMP_BATCH: usize = 16;
/// Number of failures after which a packet is given up.
const TRIES_MAX: u32 = 5;
/// Longest wait for room in a socket's buffer.
const WAIT: Duration = Duration::from_millis(2);

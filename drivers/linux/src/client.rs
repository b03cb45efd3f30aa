//! Interface of UDP clients of services, whose sockets the workers read in their loops.

use ringway_sansio::Instant;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// UDP client of a service, such as the control of media relays, with a socket for each worker.
///
/// The workers call it without a lock on a node. It must not block. Its results go to shards by
/// [`Inboxes::deliver_at`](crate::Inboxes::deliver_at), in the same turn of the calling worker.
pub trait DatagramClient: fmt::Debug + Send + Sync {
    /// Socket that a worker reads. `None`: it has none.
    fn socket(&self, worker: usize) -> Option<BorrowedFd<'_>>;

    /// Handles a datagram of the worker's socket.
    fn on_datagram(&self, worker: usize, now: Instant, from: SocketAddr, bytes: &[u8]);

    /// Performs what is due. An early call has no effect.
    fn on_timeout(&self, worker: usize, now: Instant);

    /// Time of the next necessary call of [`DatagramClient::on_timeout`], by any worker; [`Instant::FAR`] if there is none.
    /// It may become earlier only in calls by a worker, and before the workers begin to read the sockets.
    fn next_due(&self) -> Instant;
}

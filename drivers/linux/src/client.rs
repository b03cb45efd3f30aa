//! UDP clients of services, whose sockets the workers read in their loops.

use crate::inbox::Inboxes;
use crate::listeners::confirmed;
use crate::socket_change::SocketChange;
use ringway_sansio::Instant;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// UDP client of a service, such as the control of media relays, with a socket for each worker.
///
/// The workers call it without a lock on a node. It must not block. Its results go to shards by
/// [`Inboxes::deliver_at`], in the same turn of the calling worker.
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

/// A client that the workers serve until this value is dropped.
#[must_use]
#[derive(Debug)]
pub struct Watched {
    inboxes: Inboxes,
    client: Arc<dyn DatagramClient>,
}

impl Watched {
    /// Makes every worker serve a client.
    pub(crate) fn begin(client: Arc<dyn DatagramClient>, inboxes: Inboxes) -> io::Result<Self> {
        // The workers forget it if one of them fails.
        let watched = Self { inboxes, client };
        for worker in 0..watched.inboxes.workers() {
            let client = Arc::clone(&watched.client);
            confirmed(&watched.inboxes, worker, |done| SocketChange::Watch(client, done))?;
        }
        Ok(watched)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        for worker in 0..self.inboxes.workers() {
            if let Some(inbox) = self.inboxes.of(worker) {
                inbox.change_sockets(SocketChange::Forget(Arc::clone(&self.client)));
            }
        }
    }
}

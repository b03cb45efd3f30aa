//! Listeners that are added and closed while the runtime runs.
//!
//! A new listener is bound and given to every worker before anything reads from it, so that a failure changes nothing.
//! Each worker confirms what it did: after a listener was closed, its address can be bound again.

use crate::inbox::Inboxes;
use crate::listen::{BindError, LISTENERS_MAX, Listen, bind_copies};
use crate::socket_change::SocketChange;
use ringway_sansio::ListenerId;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// New listeners with a socket at each worker, which nothing is read from yet. Dropping it closes them.
#[must_use]
pub struct Attached {
    inboxes: Inboxes,
    listeners: Vec<(ListenerId, Listen)>,
}

impl Attached {
    /// Binds the listeners and gives them to the workers.
    pub(crate) fn bind(wanted: &[(ListenerId, Listen)], inboxes: Inboxes) -> Result<Self, BindError> {
        let mut attached = Self { inboxes, listeners: Vec::new() };
        for &(id, listen) in wanted {
            if usize::from(id.0) >= LISTENERS_MAX {
                return Err(BindError::TooMany);
            }
            let (actual, sockets) = bind_copies(listen, attached.inboxes.workers())?;
            // From now on it is closed if a worker refuses.
            attached.listeners.push((id, actual));
            for (worker, socket) in sockets.into_iter().enumerate() {
                confirmed(&attached.inboxes, worker, |done| SocketChange::Add(id, socket, done))
                    .map_err(|why| BindError::Listener { listener: listen, why })?;
            }
        }
        Ok(attached)
    }

    /// Numbers and actual addresses of the listeners, in the order in which they were given.
    pub fn listeners(&self) -> &[(ListenerId, Listen)] {
        &self.listeners
    }

    /// Makes every worker read from them.
    pub(crate) fn open(mut self) {
        for (id, _) in self.listeners.drain(..) {
            for worker in 0..self.inboxes.workers() {
                if let Some(inbox) = self.inboxes.of(worker) {
                    inbox.change_sockets(SocketChange::Read(id));
                }
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for (id, _) in self.listeners.drain(..) {
            change(&self.inboxes, id, SocketChange::Discard);
        }
    }
}

/// Makes every worker close a listener, and waits for it.
pub(crate) fn close(inboxes: &Inboxes, id: ListenerId) {
    change(inboxes, id, SocketChange::Close);
}

fn change(
    inboxes: &Inboxes,
    id: ListenerId,
    of: impl Fn(ListenerId, SyncSender<io::Result<()>>) -> SocketChange,
) {
    for worker in 0..inboxes.workers() {
        // A worker that does not confirm has ended, and its sockets with it.
        let _ = confirmed(inboxes, worker, |done| of(id, done));
    }
}

/// Requests a change from a worker and waits for its result.
pub(crate) fn confirmed(
    inboxes: &Inboxes,
    worker: usize,
    change: impl FnOnce(SyncSender<io::Result<()>>) -> SocketChange,
) -> io::Result<()> {
    let (done, confirmed) = sync_channel(1);
    let inbox = inboxes.of(worker).ok_or(io::ErrorKind::NotFound)?;
    inbox.change_sockets(change(done));
    match confirmed.recv_timeout(CONFIRMATION_MAX) {
        Ok(result) => result,
        Err(_) => Err(io::Error::other("a worker thread does not answer; restart the server")),
    }
}

/// Time limit for the confirmation of a worker.
const CONFIRMATION_MAX: Duration = Duration::from_secs(5);

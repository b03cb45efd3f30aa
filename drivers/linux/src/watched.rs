//! UDP clients that the workers were made to serve.

use crate::client::DatagramClient;
use crate::inbox::Inboxes;
use crate::listeners::confirmed;
use crate::socket_change::SocketChange;
use std::io;
use std::sync::Arc;

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

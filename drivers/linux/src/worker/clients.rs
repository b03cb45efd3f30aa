//! UDP clients that a worker serves.

use super::{BATCHES_PER_TURN, CLIENT, Worker};
use crate::client::DatagramClient;
use crate::sys::{Interest, Wait};
use ringway_sansio::{Flow, Instant, Node};
use std::io;
use std::sync::Arc;

/// Clients by the number in their epoll token.
pub(super) type Clients = Vec<Option<Arc<dyn DatagramClient>>>;

impl<N: Node> Worker<N> {
    pub(super) fn add_client(&mut self, client: Arc<dyn DatagramClient>) -> io::Result<()> {
        let free = self.clients.iter().position(Option::is_none);
        let number = free.unwrap_or(self.clients.len());
        if let Some(socket) = client.socket(self.index) {
            self.epoll.add(socket, CLIENT | number as u64, Interest::Read)?;
        }
        match self.clients.get_mut(number) {
            Some(place) => *place = Some(client),
            None => self.clients.push(Some(client)),
        }
        Ok(())
    }

    pub(super) fn forget_client(&mut self, client: &Arc<dyn DatagramClient>) {
        let is_it = |place: &Option<Arc<dyn DatagramClient>>| {
            place.as_ref().is_some_and(|known| Arc::ptr_eq(known, client))
        };
        let Some(number) = self.clients.iter().position(is_it) else { return };
        if let Some(socket) = client.socket(self.index) {
            // It fails only for an unwatched descriptor, and this one was added. Closing the socket ends the rest.
            let _ = self.epoll.modify(socket, CLIENT | number as u64, Interest::Nothing);
        }
        if let Some(place) = self.clients.get_mut(number) {
            *place = None;
        }
    }

    /// Passes the datagrams of a client's socket to it.
    pub(super) fn read_client(&mut self, token: u64) {
        let Self { clients, receive, common, index, now, .. } = self;
        let number = (token & !CLIENT) as usize;
        let Some(Some(client)) = clients.get(number) else { return };
        let Some(socket) = client.socket(*index) else { return };
        for _ in 0..BATCHES_PER_TURN {
            let Ok(count) = receive.receive(socket, Wait::Never) else { return };
            *now = common.clock.now();
            for (remote, bytes) in (0..count).filter_map(|index| receive.datagram(index)) {
                client.on_datagram(*index, *now, Flow::canonical(remote), bytes);
            }
            if count * 4 < receive.capacity() {
                return;
            }
        }
    }

    pub(super) fn expire_clients(&self) {
        for client in self.clients.iter().flatten() {
            if client.next_due() <= self.now {
                client.on_timeout(self.index, self.now);
            }
        }
    }

    /// Time of the next timeout of a client.
    pub(super) fn clients_due(&self) -> Option<Instant> {
        self.clients.iter().flatten().map(|client| client.next_due()).min()
    }
}

//! Listeners and UDP clients that a worker gets, serves and gives up while it runs.

use super::{BATCHES_PER_TURN, CLIENT, OTHER, Worker};
use crate::inbox::{DatagramClient, ListenSocket, SocketChange};
use crate::sys::{Interest, Wait};
use ringway_sansio::{Flow, Instant, ListenerId, Node, Queue, Transport};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

impl<N: Node> Worker<N> {
    /// Applies the changes that other threads requested.
    pub(super) fn change_sockets(&mut self) {
        let changes = self.inbox().map(|inbox| inbox.take_socket_changes()).unwrap_or_default();
        for change in changes {
            match change {
                SocketChange::Add(id, socket, done) => {
                    // It fails only if the caller's thread is gone.
                    let _ = done.send(self.add_listener(id, socket));
                }
                SocketChange::Read(id) => self.read_listener(id),
                SocketChange::Discard(id, done) => {
                    self.drop_listener(usize::from(id.0));
                    let _ = done.send(Ok(()));
                }
                SocketChange::Close(id, done) => {
                    self.close_listener(id);
                    let _ = done.send(Ok(()));
                }
                SocketChange::Watch(client, done) => {
                    let _ = done.send(self.add_client(client));
                }
                SocketChange::Forget(client) => self.forget_client(&client),
            }
        }
    }

    fn add_listener(&mut self, id: ListenerId, socket: ListenSocket) -> io::Result<()> {
        let listener = usize::from(id.0);
        let token = OTHER | listener as u64;
        if self.udp.len() <= listener {
            self.udp.resize_with(listener + 1, || None);
            self.queues.resize_with(listener + 1, Queue::default);
        }
        match socket {
            ListenSocket::Datagram(socket, transport) => {
                self.epoll.add(socket.as_fd(), token, Interest::Nothing)?;
                self.streams.add_listener(listener, None, transport);
                if let Some(place) = self.udp.get_mut(listener) {
                    self.icmp.begin(std::slice::from_ref(place.insert(socket)));
                }
            }
            ListenSocket::Stream(socket, transport) => {
                self.epoll.add(socket.as_fd(), token, Interest::Nothing)?;
                self.streams.add_listener(listener, Some((socket, token)), transport);
            }
        }
        Ok(())
    }

    fn read_listener(&mut self, id: ListenerId) {
        let listener = usize::from(id.0);
        match self.udp.get(listener) {
            // It fails only for an unwatched descriptor, and this one was added.
            Some(Some(socket)) => {
                let _ = self.epoll.modify(socket.as_fd(), OTHER | listener as u64, Interest::Read);
            }
            Some(None) | None => self.streams.watch_listener(listener, Interest::Read),
        }
    }

    /// Handles what has arrived, and closes the socket.
    fn close_listener(&mut self, id: ListenerId) {
        let listener = usize::from(id.0);
        if self.udp.get(listener).is_some_and(Option::is_some) {
            self.read_datagrams(listener);
            if self.streams.transport_of(listener) == Transport::Dtls {
                let Self { associations, udp, now, .. } = self;
                associations.close_listener(udp, id, *now);
                self.flush();
            }
        } else {
            self.streams.accept(listener, self.now);
        }
        self.drop_listener(listener);
    }

    fn drop_listener(&mut self, listener: usize) {
        self.streams.close_listener(listener);
        if let Some(place) = self.udp.get_mut(listener) {
            *place = None;
        }
    }
}

/// Clients by the number in their epoll token.
pub(super) type Clients = Vec<Option<Arc<dyn DatagramClient>>>;

impl<N: Node> Worker<N> {
    fn add_client(&mut self, client: Arc<dyn DatagramClient>) -> io::Result<()> {
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

    fn forget_client(&mut self, client: &Arc<dyn DatagramClient>) {
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

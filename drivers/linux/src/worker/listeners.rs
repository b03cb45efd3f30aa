//! Listeners and clients that a worker gets and gives up while it runs.

use super::{OTHER, Worker};
use crate::socket_change::{ListenSocket, SocketChange};
use crate::sys::Interest;
use ringway_sansio::{ListenerId, Node, Transport};
use std::io;
use std::os::fd::AsFd;

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

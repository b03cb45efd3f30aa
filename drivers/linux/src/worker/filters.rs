//! New requests that the kernel drops at the sockets of a worker, because of overload.

use super::Counters;
use crate::sys::{attach_filter, detach_filter};
use ringway_sansio::{Instant, Queue};
use std::net::UdpSocket;
use std::os::fd::AsFd;

/// Filters of the sockets, by listener: the time of each until which it is attached.
#[derive(Default)]
pub(super) struct Filters(Vec<Option<Instant>>);

impl Filters {
    /// Makes the kernel drop at a socket what a shard wants dropped.
    pub(super) fn set(
        &mut self,
        listener: usize,
        queues: &[Queue],
        sockets: &[Option<UdpSocket>],
        counters: &Counters,
    ) {
        let Some(shedding) = queues.get(listener).and_then(Queue::take_shedding) else { return };
        let Some(Some(socket)) = sockets.get(listener) else { return };
        if attach_filter(socket.as_fd(), &shedding).is_err() {
            return;
        }
        counters.filters_set.increment();
        if self.0.len() <= listener {
            self.0.resize(listener + 1, None);
        }
        if let Some(until) = self.0.get_mut(listener) {
            *until = Some(shedding.until);
        }
    }

    /// Ends those whose time is over.
    pub(super) fn end(&mut self, now: Instant, sockets: &[Option<UdpSocket>]) {
        for (until, socket) in self.0.iter_mut().zip(sockets) {
            if let (Some(_), Some(socket)) = (until.take_if(|until| *until <= now), socket) {
                let _ = detach_filter(socket.as_fd());
            }
        }
    }

    /// Time at which the next one ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().copied().flatten().min()
    }
}

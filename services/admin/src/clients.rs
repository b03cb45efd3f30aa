//! The connections of the admin API: a limited number; old ones are closed for new ones.

use ringway_sansio::source_of;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The open connections, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<Open>,
    /// Connections closed to make room for newer ones.
    displaced: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_age: BTreeMap<u64, Client>,
}

#[derive(Debug)]
struct Client {
    source: IpAddr,
    since: Instant,
    /// Dropping it ends the connection.
    _end: oneshot::Sender<()>,
}

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    clients: Arc<Clients>,
    number: u64,
}

impl Clients {
    /// Takes a slot for a connection from `address`; the receiver ends when the slot is taken away again. With all slots
    /// taken, the oldest connection of the source with the most connections is closed.
    ///
    /// # Errors
    /// That connection is younger than [`SERVED_MIN`]: the time until it is not.
    pub(crate) fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        now: Instant,
    ) -> Result<(Slot, oneshot::Receiver<()>), Duration> {
        let mut open = self.lock();
        if open.by_age.len() >= CONNECTIONS_MAX {
            let (number, age) = open.oldest_of_the_largest(now).unwrap_or_default();
            if let Some(wait) = SERVED_MIN.checked_sub(age).filter(|wait| !wait.is_zero()) {
                return Err(wait);
            }
            open.by_age.remove(&number);
            self.displaced.fetch_add(1, Ordering::Relaxed);
        }
        let (end, ended) = oneshot::channel();
        let number = open.next;
        open.next += 1;
        open.by_age.insert(number, Client { source: source_of(address), since: now, _end: end });
        drop(open);
        Ok((Slot { clients: Arc::clone(self), number }, ended))
    }

    /// Connections closed to make room for newer ones, since the start.
    pub(crate) fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn oldest_of_the_largest(&self, now: Instant) -> Option<(u64, Duration)> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for client in self.by_age.values() {
            *counts.entry(client.source).or_default() += 1;
        }
        let most = counts.values().max()?;
        let (number, client) =
            self.by_age.iter().find(|(_, client)| counts.get(&client.source) == Some(most))?;
        Some((*number, now.duration_since(client.since)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.clients.lock().by_age.remove(&self.number);
    }
}

/// Connections served at once.
pub(crate) const CONNECTIONS_MAX: usize = 128;

/// Time for which a connection is not closed for another: enough for a client that sends its request at once.
const SERVED_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn the_oldest_of_the_largest_source_makes_room_once_it_had_its_time() {
        let clients = Arc::new(Clients::default());
        let start = Instant::now();
        let (_other, mut other_ended) = clients.enter(ip(9), start).unwrap();
        let mut crowd: Vec<_> = (1..CONNECTIONS_MAX).map(|_| clients.enter(ip(1), start).unwrap()).collect();
        assert_eq!(clients.enter(ip(2), start).unwrap_err(), SERVED_MIN);
        let (slot, _new) = clients.enter(ip(2), start + SERVED_MIN).unwrap();
        assert_eq!(crowd[0].1.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(other_ended.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it has but one");
        assert_eq!((clients.displaced(), clients.lock().by_age.len()), (1, CONNECTIONS_MAX));
        drop((slot, crowd));
        assert_eq!(clients.lock().by_age.len(), 1);
    }
}

//! Sessions of a client that later connections resume.
//!
//! The store of rustls keeps eight tickets of a server, and a ticket of TLS 1.3 serves one connection (RFC 8446 §C.4): of many
//! connections to one server at a time, most would begin with a full handshake.

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sessions by the names of their servers.
pub(crate) struct Sessions {
    servers: Mutex<Servers<Tls13ClientSessionValue>>,
}

/// Servers with tickets of the type `T`.
struct Servers<T> {
    by_name: HashMap<ServerName<'static>, Server<T>>,
    /// Tickets of all servers.
    tickets: usize,
}

/// Memory of one server.
struct Server<T> {
    /// Its group of the key exchange.
    group: Option<NamedGroup>,
    /// Session of TLS 1.2.
    session: Option<Tls12ClientSessionValue>,
    /// Tickets of TLS 1.3, the oldest first.
    tickets: VecDeque<T>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self { servers: Mutex::new(Servers::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Servers<Tls13ClientSessionValue>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Servers<T> {
    fn new() -> Self {
        Self { by_name: HashMap::new(), tickets: 0 }
    }

    /// The server of this name. Of too many, one gives way.
    fn server(&mut self, name: ServerName<'static>) -> &mut Server<T> {
        if self.by_name.len() >= SERVERS_MAX && !self.by_name.contains_key(&name) {
            self.forget_one();
        }
        let new = || Server { group: None, session: None, tickets: VecDeque::new() };
        self.by_name.entry(name).or_insert_with(new)
    }

    fn forget_one(&mut self) {
        let name = self.by_name.keys().next().cloned();
        if let Some(server) = name.and_then(|name| self.by_name.remove(&name)) {
            self.tickets -= server.tickets.len();
        }
    }

    fn insert(&mut self, name: ServerName<'static>, ticket: T) {
        // The server's own oldest one gives way, or those of another server.
        if self.tickets >= TICKETS_MAX && self.take(&name, VecDeque::pop_front).is_none() {
            self.forget_one();
        }
        self.server(name).tickets.push_back(ticket);
        self.tickets += 1;
    }

    fn take(&mut self, name: &ServerName<'static>, which: fn(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        let ticket = which(&mut self.by_name.get_mut(name)?.tickets)?;
        self.tickets -= 1;
        Some(ticket)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.lock().server(name).group = Some(group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().by_name.get(name)?.group
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.lock().server(name).session = Some(session);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock().by_name.get(name)?.session.clone()
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        if let Some(server) = self.lock().by_name.get_mut(name) {
            server.session = None;
        }
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.lock().insert(name, ticket);
    }

    /// The newest one: it is valid for the longest time.
    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().take(name, VecDeque::pop_back)
    }
}

/// Without secrets.
impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// Servers with a session, and tickets of all servers.
const SERVERS_MAX: usize = 512;
const TICKETS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ServerName<'static> {
        ServerName::try_from(format!("s{number}.example.org")).unwrap()
    }

    #[test]
    fn servers_have_a_limit() {
        let sessions = Sessions::new();
        for number in 0..2 * SERVERS_MAX {
            sessions.set_kx_hint(name(number), NamedGroup::X25519);
            assert_eq!(sessions.kx_hint(&name(number)), Some(NamedGroup::X25519));
        }
        assert_eq!(sessions.lock().by_name.len(), SERVERS_MAX);
        assert!(sessions.take_tls13_ticket(&name(0)).is_none());
    }

    #[test]
    fn tickets_have_a_limit_and_the_newest_is_taken_first() {
        let mut servers = Servers::new();
        for ticket in 0..TICKETS_MAX + 3 {
            servers.insert(name(1), ticket);
        }
        // Those of one server give way to another one's.
        assert_eq!((servers.tickets, servers.by_name[&name(1)].tickets.front()), (TICKETS_MAX, Some(&3)));
        servers.insert(name(2), 9);
        assert_eq!((servers.tickets, servers.by_name.len()), (1, 1));
        servers.insert(name(2), 10);
        assert_eq!(servers.take(&name(2), VecDeque::pop_back), Some(10));
        assert_eq!(servers.take(&name(2), VecDeque::pop_back), Some(9));
        assert_eq!((servers.take(&name(2), VecDeque::pop_back), servers.tickets), (None, 0));
    }
}

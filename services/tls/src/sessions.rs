//! Resumption of sessions on the server's side: tickets, and session identifiers for clients without tickets.

use rustls::crypto::GetRandomFailed;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache};
use rustls::ticketer::TicketRotator;
use rustls::{Error, ServerConfig};
use std::sync::Arc;

/// Keys of tickets. A key makes tickets for one lifetime, and is accepted for one more (RFC 5077 §5.5).
pub(crate) struct TicketKeys(Arc<dyn ProducesTickets>);

impl TicketKeys {
    pub(crate) fn new(lifetime_s: u32) -> Result<Self, Error> {
        let rotator = TicketRotator::new(lifetime_s, || {
            let key = Ticketer::new().map_err(|_| GetRandomFailed)?;
            Ok(Box::new(Key(key)))
        })?;
        Ok(Self(Arc::new(rotator)))
    }

    /// Lets a server make and accept tickets with these keys, and remember session identifiers.
    pub(crate) fn apply(&self, config: &mut ServerConfig) {
        config.ticketer = Arc::clone(&self.0);
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        config.send_tls13_tickets = TICKETS;
    }

    /// Switches resumption off.
    pub(crate) fn none(config: &mut ServerConfig) {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
}

#[derive(Debug)]
struct Key(Arc<dyn ProducesTickets>);

impl ProducesTickets for Key {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}

/// Number of remembered sessions of clients without tickets.
const SESSIONS_MAX: usize = 4096;
/// Number of tickets for each TLS 1.3 connection. A ticket is used once (RFC 8446 §C.4), and a phone opens one connection
/// after another, each of which brings the next ticket. A client that opens several at once resumes the first.
const TICKETS: usize = 1;

//! This machine's public address as a STUN server sees it, for `[[advertise]] address = "auto"` (decision 0056).
//!
//! A thread asks every 30 s. An answer is a stranger's word: it counts only if it is a public address, and a change only if a second
//! answer agrees. The main thread puts it into the settings; nothing waits for it.

use crate::{address, password};
use ringway_linux::Clock;
use ringway_sansio::Instant;
use ringway_server::is_private;
use ringway_settings::HostPort;
use ringway_stun::{DEFAULT_PORT, StunClient, StunEvent};
use ringway_transaction::may_send_to;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

/// The address that is known, and counters.
#[derive(Debug, Default)]
pub(super) struct PublicAddress {
    ip: Mutex<Option<IpAddr>>,
    /// Lookups of the server's name and requests that failed.
    failures: AtomicU64,
    /// Answers that are no public address.
    refused: AtomicU64,
    /// Changes of the address.
    changes: AtomicU64,
}

/// Thread that asks a server; it ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Watch(Arc<AtomicBool>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PublicAddress {
    /// Address that the server saw; `None`: it has not answered yet.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        *self.ip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters, with their help.
    pub(super) fn counts(&self) -> [(&'static str, &'static str, u64); 3] {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            (
                "stun_failures",
                "Requests to the STUN server of [[advertise]] that failed.",
                value(&self.failures),
            ),
            ("stun_refused", "Its answers that are no public address.", value(&self.refused)),
            ("public_address_changes", "Changes of the address that it saw.", value(&self.changes)),
        ]
    }

    /// Begins to ask `server`; `on_change` is called when the address becomes known, and when it changes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn watch(
        self: &Arc<Self>,
        server: &HostPort,
        on_change: impl Fn() + Send + 'static,
    ) -> io::Result<Watch> {
        let stop = Arc::new(AtomicBool::new(false));
        let asker = Asker {
            server: server.clone(),
            found: Arc::clone(self),
            on_change: Box::new(on_change),
            stop: Arc::clone(&stop),
            clock: Clock::new(),
            last_failure: String::new(),
        };
        thread::Builder::new().name("public-address".into()).spawn(move || asker.run())?;
        Ok(Watch(stop))
    }

    /// Notes an address; false: it is the present one.
    fn set(&self, ip: IpAddr) -> bool {
        let mut present = self.ip.lock().unwrap_or_else(PoisonError::into_inner);
        let before = present.replace(ip);
        if before.is_some_and(|before| before != ip) {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        before != Some(ip)
    }
}

/// Judges the answers of one server.
#[derive(Debug, Default)]
struct Answers {
    /// Address that differs from the present one, until a second answer has it too.
    candidate: Option<IpAddr>,
}

/// Use of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Used,
    /// Another request is to confirm it.
    AskedAgain,
    /// It is no public address.
    Refused,
}

impl Answers {
    fn verdict(&mut self, present: Option<IpAddr>, ip: IpAddr) -> Verdict {
        if is_private(ip) || !may_send_to(ip) {
            return Verdict::Refused;
        }
        if present.is_none_or(|present| present == ip) || self.candidate == Some(ip) {
            self.candidate = None;
            return Verdict::Used;
        }
        self.candidate = Some(ip);
        Verdict::AskedAgain
    }
}

/// State of the thread.
struct Asker {
    server: HostPort,
    found: Arc<PublicAddress>,
    on_change: Box<dyn Fn() + Send>,
    stop: Arc<AtomicBool>,
    clock: Clock,
    /// Failure that was logged: the same one is not repeated.
    last_failure: String,
}

impl Asker {
    fn run(mut self) {
        while !self.is_stopped() {
            if let Err(why) = self.ask() {
                self.fail(&why.to_string());
            }
            self.pause(PAUSE);
        }
    }

    /// Asks until it is stopped, or the socket fails.
    fn ask(&mut self) -> io::Result<()> {
        let server = address::lookup(&self.server, DEFAULT_PORT)?
            .ok_or_else(|| io::Error::other("its name has no address"))?;
        let any: SocketAddr =
            if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        let mut client = self.client(server)?;
        self.send(&socket, |out, now| client.start(now, out));
        let mut answers = Answers::default();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while !self.is_stopped() {
            let due =
                client.next_deadline().map_or(STOP_WITHIN, |deadline| deadline.at.since(self.clock.now()));
            socket.set_read_timeout(Some(due.clamp(Duration::from_millis(1), STOP_WITHIN)))?;
            let event = match socket.recv(&mut buffer) {
                Ok(length) => {
                    client.on_datagram(self.clock.now(), server, buffer.get(..length).unwrap_or_default())
                }
                Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => None,
                // ICMP: nobody is there. The client repeats its request until its time is over.
                Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => None,
                Err(why) => return Err(why),
            };
            let mut timed_out = None;
            self.send(&socket, |out, now| timed_out = client.on_timeout(now, out));
            match event.or(timed_out) {
                // The name may have another address, and the socket another way.
                Some(StunEvent::Failed(why)) => return Err(io::Error::other(why.to_string())),
                Some(StunEvent::Mapped(address)) => {
                    self.last_failure.clear();
                    let ip = address.ip().to_canonical();
                    match answers.verdict(self.found.ip(), ip) {
                        Verdict::Used => self.use_ip(ip),
                        Verdict::AskedAgain => {
                            // A server that answers another address each time gets no flood of requests.
                            self.pause(AGAIN_AFTER);
                            client = self.client(server)?;
                            self.send(&socket, |out, now| client.start(now, out));
                        }
                        Verdict::Refused => {
                            self.found.refused.fetch_add(1, Ordering::Relaxed);
                            self.warn(&format!(
                                "it answers {ip}, which is no public address and is not advertised; use another server"
                            ));
                        }
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    fn use_ip(&mut self, ip: IpAddr) {
        if self.found.set(ip) {
            tracing::info!("public address {ip}, by the STUN server {}", self.name());
            (self.on_change)();
        }
    }

    fn client(&self, server: SocketAddr) -> io::Result<StunClient> {
        let seed = password::seed().map_err(|_| io::Error::other("the system has no random numbers"))?;
        Ok(StunClient::new(server, &seed))
    }

    fn send(&self, socket: &UdpSocket, act: impl FnOnce(&mut dyn FnMut(&[u8]), Instant)) {
        // A request that is not sent is repeated, and counts as unanswered in the end.
        act(&mut |bytes| drop(socket.send(bytes)), self.clock.now());
    }

    fn name(&self) -> String {
        let HostPort { host, port } = &self.server;
        port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    }

    fn fail(&mut self, why: &str) {
        self.found.failures.fetch_add(1, Ordering::Relaxed);
        self.warn(why);
    }

    /// Logs a failure, unless it is the one that was logged last.
    fn warn(&mut self, why: &str) {
        if self.last_failure != why {
            let present = self.found.ip().map_or_else(
                || "no address is advertised for `auto`".to_owned(),
                |ip| format!("{ip} remains advertised"),
            );
            tracing::warn!("[[advertise]] stun {}: {why}; {present}", self.name());
            why.clone_into(&mut self.last_failure);
        }
    }

    fn pause(&self, time: Duration) {
        let end = self.clock.now() + time;
        while self.clock.now() < end && !self.is_stopped() {
            thread::sleep(STOP_WITHIN.min(time));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Pause before a request that is to confirm a change.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Pause after a failure of the socket or of the name.
const PAUSE: Duration = Duration::from_secs(30);
/// Time within which the thread sees that it has to end.
const STOP_WITHIN: Duration = Duration::from_millis(500);
/// Maximum length of an answer.
const DATAGRAM_BYTES_MAX: usize = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_needs_two_equal_answers_and_a_private_address_is_none() {
        let (first, second): (IpAddr, IpAddr) =
            ("203.0.113.5".parse().unwrap(), "203.0.113.6".parse().unwrap());
        let mut answers = Answers::default();
        assert_eq!(answers.verdict(None, first), Verdict::Used);
        assert_eq!(answers.verdict(Some(first), second), Verdict::AskedAgain);
        assert_eq!(answers.verdict(Some(first), first), Verdict::Used, "the second answer was another one");
        assert_eq!(answers.verdict(Some(first), second), Verdict::AskedAgain);
        assert_eq!(answers.verdict(Some(first), second), Verdict::Used);
        for ip in ["10.0.0.1", "127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "fe80::1", "::"] {
            assert_eq!(answers.verdict(None, ip.parse().unwrap()), Verdict::Refused, "{ip}");
        }
    }
}

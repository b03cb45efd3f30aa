//! An agent: its listener, its connections and their limits.

use super::connection::Connection;
use super::message::{Request, Response};
use super::session::{AgentSettings, Session};
use anyhow::{Context, Result, anyhow, ensure};
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A running agent.
pub struct Agent {
    address: SocketAddr,
    listener: TcpListener,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// Connections that an agent did not serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// They did not prove the key in time.
    pub strangers: u64,
    /// Too many had not proved it yet.
    pub crowded: u64,
    /// They have the key, but were too many, or of a second campaign.
    pub refused: u64,
}

/// Parts that all connections have.
struct Shared {
    settings: AgentSettings,
    is_over: AtomicBool,
    strangers: AtomicU64,
    crowded: AtomicU64,
    refused: AtomicU64,
    connections: Mutex<Connections>,
}

/// Open connections by their numbers.
#[derive(Default)]
struct Connections {
    next: u64,
    strangers: BTreeMap<u64, TcpStream>,
    sessions: BTreeMap<u64, TcpStream>,
    /// Campaign of the sessions.
    campaign: String,
    threads: Vec<JoinHandle<()>>,
}

impl Agent {
    /// Starts to listen.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(listen: SocketAddr, settings: AgentSettings) -> Result<Self> {
        let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr().context("read an address")?;
        let shared = Arc::new(Shared {
            settings,
            is_over: AtomicBool::new(false),
            strangers: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let (theirs, accepting) = (Arc::clone(&shared), listener.try_clone().context("copy a socket")?);
        let body = move || accept(&accepting, &theirs);
        let accepting = Builder::new().name("agent".to_owned()).spawn(body).context("start a thread")?;
        Ok(Self { address, listener, shared, accepting: Some(accepting) })
    }

    /// Address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that it did not serve.
    pub fn counts(&self) -> AgentCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Shared { strangers, crowded, refused, .. } = &*self.shared;
        AgentCounts { strangers: of(strangers), crowded: of(crowded), refused: of(refused) }
    }
}

/// Ends all connections, and with them the servers.
impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        let threads = self.shared.with(|connections| {
            let Connections { strangers, sessions, threads, .. } = connections;
            for stream in strangers.values().chain(sessions.values()) {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            std::mem::take(threads)
        });
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn with<T>(&self, body: impl FnOnce(&mut Connections) -> T) -> T {
        body(&mut self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a stranger that has proved the key a session. The end of an earlier campaign may be under way.
    fn admit(&self, number: u64, request: &Request) -> Result<()> {
        let Request::Begin { campaign } = request else {
            return Err(anyhow!("a connection begins with the name of its campaign"));
        };
        let until = Instant::now() + ADMIT_TIME;
        loop {
            let admitted = self.with(|connections| connections.admit(number, campaign));
            if admitted.is_ok() || Instant::now() > until || self.is_over.load(Ordering::Relaxed) {
                return admitted;
            }
            std::thread::sleep(ADMIT_PAUSE);
        }
    }
}

impl Connections {
    fn admit(&mut self, number: u64, campaign: &str) -> Result<()> {
        ensure!(self.sessions.len() < SESSIONS_MAX, "the agent has {SESSIONS_MAX} servers already");
        let is_free = self.sessions.is_empty() || self.campaign == campaign;
        ensure!(is_free, "the agent works for another campaign; wait until that has ended");
        campaign.clone_into(&mut self.campaign);
        self.sessions.extend(self.strangers.remove_entry(&number));
        Ok(())
    }
}

/// Accepts connections until the agent ends.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        match accepted {
            Ok((stream, from)) => {
                if open(shared, stream, from).is_err() {
                    shared.crowded.fetch_add(1, Ordering::Relaxed);
                }
            }
            // No file or no memory is left.
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// Serves a connection on a thread of its own.
fn open(shared: &Arc<Shared>, stream: TcpStream, from: SocketAddr) -> Result<()> {
    let copy = stream.try_clone().context("copy a socket")?;
    let theirs = Arc::clone(shared);
    shared.with(|connections| {
        connections.threads.retain(|thread| !thread.is_finished());
        ensure!(connections.strangers.len() < STRANGERS_MAX, "too many strangers");
        let number = connections.next;
        let body = move || {
            serve(&theirs, number, stream, from);
            theirs.with(|connections| {
                connections.strangers.remove(&number);
                connections.sessions.remove(&number);
            });
        };
        let thread = Builder::new().name("agent-session".to_owned()).spawn(body).context("start a thread")?;
        connections.next += 1;
        connections.strangers.insert(number, copy);
        connections.threads.push(thread);
        Ok(())
    })
}

fn serve(shared: &Arc<Shared>, number: u64, stream: TcpStream, from: SocketAddr) {
    let Ok((mut connection, request)) = Connection::accept(stream, &shared.settings.key) else {
        shared.strangers.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let session =
        shared.admit(number, &request).and_then(|()| Session::new(&shared.settings, connection.local_ip()?));
    match session {
        Ok(session) => session.run(&mut connection, from),
        Err(error) => {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            (shared.settings.note)(&format!("{from} was refused: {error:#}"));
            let _ = connection.send(&Response::Refused { error: format!("{error:#}") });
        }
    }
}

/// Connections at a time that have not proved the key.
const STRANGERS_MAX: usize = 8;
/// Connections at a time that have.
const SESSIONS_MAX: usize = 8;
/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time in which an earlier campaign may end, and the interval of looking.
const ADMIT_TIME: Duration = Duration::from_secs(1);
const ADMIT_PAUSE: Duration = Duration::from_millis(10);

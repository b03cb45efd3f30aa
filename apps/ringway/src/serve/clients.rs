//! DNS servers and media relays of the running server, which a reload replaces.

use super::Node;
use super::host::ServerHost;
use super::relays::Relays;
use crate::config::Config;
use crate::failure::Failure;
use crate::password;
use ringway_acme::{SignerStats, Signers};
use ringway_dns::{Resolver, Servers};
use ringway_linux::{ActionSink, Clock, Hosts, Inboxes, Runtime, Watched};
use ringway_ng::{RelayChange, RelayState};
use ringway_resolve::Usable;
use ringway_sansio::{Event, NoSigner, RelayKind, ShardKey};
use ringway_server::{Action, shard_of_user};
use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// Everything that a lookup and a request to a media relay need.
#[derive(Clone)]
pub(super) struct DriverHandles {
    pub(super) inboxes: Inboxes,
    pub(super) hosts: Arc<Hosts>,
    pub(super) clock: Clock,
}

/// The resolver and the relays that are used now.
pub(super) struct Clients {
    resolver: RwLock<Arc<Resolver>>,
    signers: RwLock<Option<Arc<Signers>>>,
    relays: RwLock<Option<Arc<Relays>>>,
    /// The workers serve the relays while it exists.
    watched: RwLock<Option<Watched>>,
    /// Counters of those that were replaced.
    counted: RwLock<Counted>,
}

#[derive(Default)]
struct Counted {
    lookups_refused: u64,
    lookups_without_result: u64,
    signers: SignerStats,
    relays: BTreeMap<&'static str, u64>,
}

/// Those that replace the ones of now; `None`: they stay.
#[derive(Default)]
pub(super) struct NewClients {
    pub(super) resolver: Option<Resolver>,
    pub(super) signers: Option<Option<Arc<Signers>>>,
    pub(super) relays: Option<Option<(Arc<Relays>, Watched)>>,
}

/// Replaced parts, kept until their pending requests have ended.
#[derive(Default)]
pub(super) struct Retired {
    parts: Vec<(Instant, Arc<dyn Any + Send + Sync>)>,
}

impl Clients {
    pub(super) fn new(
        resolver: Resolver,
        signers: Option<Arc<Signers>>,
        relays: Option<Arc<Relays>>,
    ) -> Self {
        let (resolver, signers) = (RwLock::new(Arc::new(resolver)), RwLock::new(signers));
        Self {
            resolver,
            signers,
            relays: RwLock::new(relays),
            watched: RwLock::default(),
            counted: RwLock::default(),
        }
    }

    /// Makes the workers serve the first relays.
    pub(super) fn watch(&self, runtime: &Runtime<Node>) -> Result<(), Failure> {
        let relays = read(&self.relays).clone();
        if let Some(relays) = relays {
            *write(&self.watched) = Some(watch(runtime, relays)?);
        }
        Ok(())
    }

    /// Uses the new ones from now on.
    pub(super) fn replace(&self, new: NewClients, retired: &mut Retired, now: Instant) {
        if let Some(resolver) = new.resolver {
            let old = std::mem::replace(&mut *write(&self.resolver), Arc::new(resolver));
            let counted = &mut *write(&self.counted);
            counted.lookups_refused += old.refused();
            counted.lookups_without_result += old.refused_empty();
            retired.keep(old, now);
        }
        if let Some(signers) = new.signers {
            let old = std::mem::replace(&mut *write(&self.signers), signers);
            if let Some(old) = old {
                let counted = &mut write(&self.counted).signers;
                *counted = counted.plus(old.stats());
                retired.keep(old, now);
            }
        }
        if let Some(relays) = new.relays {
            let (relays, watched) = relays.unzip();
            let old = std::mem::replace(&mut *write(&self.relays), relays);
            let old_watched = std::mem::replace(&mut *write(&self.watched), watched);
            if let Some(old) = old {
                let sums = &mut write(&self.counted).relays;
                old.status().counters.for_each(|name, _, value| *sums.entry(name).or_default() += value);
                // Answers to its requests are still read.
                retired.keep(Arc::new((old, old_watched)), now);
            }
        }
    }

    /// Lookups that were refused since the start.
    pub(super) fn lookups_refused(&self) -> u64 {
        read(&self.counted).lookups_refused + read(&self.resolver).refused()
    }

    /// Lookups that were refused because too many of their source found nothing.
    pub(super) fn lookups_without_result(&self) -> u64 {
        read(&self.counted).lookups_without_result + read(&self.resolver).refused_empty()
    }

    /// Figures of the certificates of signers since the start.
    pub(super) fn signer_stats(&self) -> SignerStats {
        let now = read(&self.signers).as_ref().map(|signers| signers.stats()).unwrap_or_default();
        read(&self.counted).signers.plus(now)
    }

    /// Address of each relay, whether it answers, and the time of its last answer.
    pub(super) fn relays(&self) -> Vec<(SocketAddr, RelayState, ringway_sansio::Instant)> {
        let relays = read(&self.relays).clone();
        relays.map(|relays| relays.status().relays).unwrap_or_default()
    }

    /// Number of relays that answer, after their counters since the start were passed to `each`.
    pub(super) fn relays_up(&self, mut each: impl FnMut(&'static str, &'static str, u64)) -> Option<usize> {
        let relays = read(&self.relays).clone()?;
        let status = relays.status();
        let counted = read(&self.counted);
        status.counters.for_each(|name, help, value| {
            each(name, help, value + counted.relays.get(name).copied().unwrap_or_default());
        });
        Some(status.up)
    }
}

impl Retired {
    fn keep(&mut self, part: Arc<dyn Any + Send + Sync>, now: Instant) {
        self.parts.push((now + RETIRED_FOR, part));
    }

    /// Ends what is no longer needed.
    pub(super) fn end_old(&mut self, now: Instant) {
        self.parts.retain(|(until, _)| *until > now);
    }
}

/// Starts the resolver for the transports and address families of listeners.
pub(super) fn start_resolver(
    servers: &Servers,
    settings: &ringway_server::Config,
    handles: &DriverHandles,
) -> Result<Resolver, Failure> {
    let DriverHandles { inboxes, hosts, .. } = handles.clone();
    let answer = move |shard, event| {
        // If the inbox is full the answer is lost; the shard's query then times out.
        inboxes.deliver(shard, event);
    };
    Resolver::start(servers, hosts, usable(settings), answer)
        .map_err(|error| Failure::failed(error.to_string()))
}

/// Transports and address families that new requests can leave by.
pub(super) fn usable(settings: &ringway_server::Config) -> Usable {
    settings.listeners_in_use().fold(Usable::default(), |usable, (_, listener)| {
        usable.with(listener.transport, listener.bound.is_ipv4())
    })
}

/// Opens the client of the media relays, if there are any.
pub(super) fn open_relays(config: &Config, handles: &DriverHandles) -> Result<Option<Arc<Relays>>, Failure> {
    if config.media_relays.is_empty() {
        return Ok(None);
    }
    let DriverHandles { inboxes, clock, .. } = handles.clone();
    let workers = inboxes.workers();
    let answer = move |worker, shard, query, result| {
        // If the inbox is full the result is lost; the shard's query then times out.
        inboxes.deliver_at(worker, shard, Event::Relayed { query, result });
    };
    let (limit, now) = (config.server.media.time_limit, move || clock.now());
    Relays::open(&config.media_relays, workers, limit, &password::seed()?, now, answer, note_change)
        .map(|relays| Some(Arc::new(relays)))
        .map_err(|error| relays_failed(&error))
}

/// Writes that a relay came up or went down to the log.
pub(super) fn note_change(RelayChange { address, state }: RelayChange) {
    match state {
        RelayState::Up => tracing::info!(%address, "media relay is up"),
        RelayState::Down => tracing::warn!(%address, "media relay is down: it does not answer"),
    }
}

/// Makes the workers serve relays.
pub(super) fn watch(runtime: &Runtime<Node>, relays: Arc<Relays>) -> Result<Watched, Failure> {
    runtime.watch(relays).map_err(|error| relays_failed(&error))
}

fn relays_failed(error: &std::io::Error) -> Failure {
    Failure::failed(format!(
        "cannot open the sockets for media relays: {error}; raise the limit of open files (ulimit -n)"
    ))
}

/// Executes the actions requested by the shards.
pub(super) struct Sink {
    host: Arc<ServerHost>,
    clients: Arc<Clients>,
    inboxes: Inboxes,
    shard_key: ShardKey,
    /// Number of shards.
    shards: u16,
}

impl Sink {
    pub(super) fn new(host: &Arc<ServerHost>, clients: &Arc<Clients>, inboxes: Inboxes, shards: u16) -> Self {
        let shard_key = host.shard_key();
        Self { host: Arc::clone(host), clients: Arc::clone(clients), inboxes, shard_key, shards }
    }
}

impl ActionSink<Action> for Sink {
    fn act(&self, worker: usize, shard: u16, actions: std::vec::Drain<'_, Action>) -> u64 {
        for action in actions {
            match action {
                Action::Resolve { query, target } => {
                    let resolver = Arc::clone(&read(&self.clients.resolver));
                    resolver.ask(shard, query, target);
                }
                Action::ResolveNumber { query, target } => {
                    let resolver = Arc::clone(&read(&self.clients.resolver));
                    resolver.ask_number(shard, query, target);
                }
                Action::FindSigner { query, url } => {
                    let signers = read(&self.clients.signers).clone();
                    match signers {
                        Some(signers) => signers.ask(shard, query, url),
                        None => {
                            let result = Err(NoSigner::Unsupported);
                            self.inboxes.deliver(shard, Event::SignerFound { query, result });
                        }
                    }
                }
                Action::Locate { query, aor } => {
                    let location = self.host.location();
                    if !location.is_some_and(|location| location.look_up(shard, query, aor.as_bytes())) {
                        self.inboxes.deliver(shard, Event::Located { query });
                    }
                }
                Action::CallsChanged { user } => {
                    let shard = shard_of_user(&self.shard_key, user.user(), self.shards);
                    // If the inbox is full the event is lost; the shard looks at the calls again within 30 s.
                    self.inboxes.deliver(shard, Event::StateChanged { name: user.as_bytes().into() });
                }
                Action::Relay { query, request } => {
                    let relays = read(&self.clients.relays).clone();
                    match relays {
                        Some(relays) => relays.ask(worker, shard, query, request),
                        // A reload removed them after the request was made. A deletion has no result.
                        None if request.kind == RelayKind::Delete => {}
                        None => {
                            self.inboxes.deliver_at(worker, shard, Event::Relayed { query, result: None });
                        }
                    }
                }
            }
        }
        self.host.last_stored()
    }

    fn stored_through(&self) -> u64 {
        self.host.durable()
    }

    fn refuses(&self, change: u64) -> bool {
        self.host.location().is_some_and(|location| location.refuses(change))
    }

    fn refusal(&self, packet: &[u8]) -> Vec<u8> {
        if let Some(location) = self.host.location() {
            location.note_refusal();
        }
        ringway_server::store_failed_reply(packet)
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Longer than a lookup and a request to a relay last.
const RETIRED_FOR: Duration = Duration::from_secs(15);

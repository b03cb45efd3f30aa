//! `ringway serve`: opens the store, binds the listeners, loads users and bindings, and runs until a signal.
//!
//! Start reading at [`run`]. `host.rs` is the server machine's `Host`, `settings.rs` converts the
//! configuration, `reload.rs` changes it, `changes.rs` applies changes of `ringway user` and `ringway block`, `view.rs` has the
//! data of the admin API.

mod acme;
mod capture;
pub(crate) mod changes;
mod clients;
#[cfg(test)]
mod cluster_tests;
pub(crate) mod control;
mod drain;
mod event_log;
mod host;
mod listeners;
mod log_lines;
pub(crate) mod memory;
mod nodes;
mod peer_stats;
mod provisioning;
mod public_address;
mod record_sink;
mod records;
mod relays;
mod reload;
mod routes;
mod settings;
mod sharing;
mod signers;
mod start;
mod steps;
mod tls;
mod trace;
mod trunks;
pub(crate) mod users;
mod view;
mod write_back;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ringway_admin::{Admin, AdminServer, Control, View};
use ringway_linux::process::{Signal, watch_with};
use ringway_linux::{Bound, Clock, Hosts, Listen, MarkedPackets, MessageTrace, Runtime, StreamLimits};
use ringway_server::Server;
use ringway_store::{Durability, Store};

use crate::config::Config;
use crate::failure::Failure;
use crate::password;
use changes::Follower;
use clients::{Clients, DriverHandles, Retired, Sink, open_relays, start_resolver};
use control::{Input, ServerControl};
use host::ServerHost;
use listeners::ListenerTable;
use log_lines::LimitLog;
use nodes::SharedWork;
use provisioning::{FollowedDatabase, Following};
use public_address::{PublicAddress, Watch};
use record_sink::ClusterEvents;
use routes::RoutesEditor;
pub(crate) use settings::advertised;
use settings::{Present, ShownConfig};
pub(crate) use start::start_errors;
use start::{load, new_nodes, recover, start_writer};
pub(crate) use tls::Expiry;
use tls::ServerTls;
use users::StoredUsers;
use view::ServerView;

/// Node of a shard.
type Node = Server;

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(config: Config) -> Result<(), Failure> {
    ringway_linux::process::limit_free_heap();
    let (sender, inputs) = channel();
    let signals = sender.clone();
    watch_with(move |signal| signals.send(Input::Signal(signal)).is_ok())
        .map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let store = Store::open(&config.store.url)?;
    let followed = provisioning::prepare(&config, &store)?;
    let running = Running::start(config, store, sender, followed)?;
    running.report_started()?;
    start::ready();
    running.serve(inputs)
}

/// A running server.
pub(crate) struct Running {
    config: Config,
    settings: Arc<ringway_server::Config>,
    runtime: Runtime<Node>,
    host: Arc<ServerHost>,
    follower: Follower,
    view: Arc<ServerView>,
    limits: LimitLog,
    tls: ServerTls,
    admin: AdminServer,
    admin_address: SocketAddr,
    shown: Arc<ShownConfig>,
    listeners: ListenerTable,
    clients: Arc<Clients>,
    handles: DriverHandles,
    retired: Retired,
    clock: Clock,
    /// Database that users come from.
    provisioning: Option<Following>,
    public_address: Arc<PublicAddress>,
    /// Thread that asks for it.
    public_watch: Option<Watch>,
    inputs: Sender<Input>,
}

impl Running {
    /// Binds the listeners, loads the users of `store`, and starts serving. The admin API sends what only the main thread can
    /// do to `inputs`. `followed` is the database that the users of the store come from.
    pub(crate) fn start(
        config: Config,
        store: Store,
        inputs: Sender<Input>,
        followed: Option<FollowedDatabase>,
    ) -> Result<Self, Failure> {
        let (clock, store, hosts) = (Clock::new(), Arc::new(store), Arc::new(Hosts::default()));
        let mut tls = ServerTls::start(&config, Arc::clone(&hosts), clock, &password::seed()?)?;
        tls.warn_of_expiry();
        tls.set_websocket(&config);
        let (wanted, bound, admin) = bind(&config)?;
        let (secret, incarnation) = (store.secret()?, sharing::wall_ms());
        let listeners = ListenerTable::new(&wanted, bound.addresses());
        let public_address = Arc::new(PublicAddress::default());
        let present = Present::at_start(incarnation);
        let settings = Arc::new(settings::server_config(&config, &listeners, secret, present));
        let host = Arc::new(ServerHost::new(&config, password::seed()?, clock.now()));
        host.set_trunks(&settings);
        tls.set_links(settings.links.as_ref());
        start_observers(&config, &host, &listeners, clock)?;
        let mut nodes = new_nodes(&settings, &host, bound.workers(), password::seed()?, clock.now());
        let applied = load(&store, &config, &host, &mut nodes)?;
        let bindings = recover(&config, host.shard_key(), &mut nodes, clock.now())?;

        let shards_cell = Arc::new(OnceLock::new());
        host.set_writer(start_writer(bindings, &config, bound.inboxes(), &shards_cell)?);
        let shards = Arc::clone(&shards_cell);
        let events = ClusterEvents { inputs: inputs.clone(), inboxes: bound.inboxes(), shards, clock };
        record_sink::start(&config, &settings, &host, events)?;
        let handles = DriverHandles { inboxes: bound.inboxes(), hosts, clock };
        let resolver = start_resolver(&config.dns_servers, &settings, &handles)?;
        let signers = signers::open(&config, &handles)?;
        let clients = Arc::new(Clients::new(resolver, signers, open_relays(&config, &handles)?));
        let sink = Arc::new(Sink::new(&host, &clients, bound.inboxes(), nodes.len() as u16));
        let runtime_config = runtime_config(&config, &settings, &host, (&tls, clock), &listeners);
        let runtime = Runtime::start(bound, runtime_config, nodes, sink)
            .map_err(|error| Failure::failed(error.to_string()))?;
        clients.watch(&runtime)?;
        warn_of_few_files(config.limits.max_connections, runtime.connections_max());
        // It cannot be set already: this is the only call.
        let _ = shards_cell.set(runtime.shards());
        let shown = Arc::new(ShownConfig::of(&config, &listeners));
        let (to_host, to_clients) = (Arc::clone(&host), Arc::clone(&clients));
        let (of_config, of_store) =
            (Arc::clone(&shown), (Arc::clone(&store), clock, Arc::clone(&public_address)));
        let view = Arc::new(ServerView::new(&runtime, to_host, to_clients, &tls, of_config, of_store));
        let admin_address = admin.address();
        let provisioning = start_provisioning(&config, followed, &inputs, &view)?;
        let users = users_of(&config, &store, provisioning.as_ref());
        let (of_view, routes) =
            ((Arc::clone(&view), Arc::clone(&shown)), RoutesEditor::new(config.file.clone()));
        let control = ServerControl::new(inputs.clone(), users, of_view.0, of_view.1, routes);
        let admin = start_admin(admin, (Arc::clone(&view), control), &config.admin.token, &tls)?;
        let mut follower = Follower::new(store, Arc::clone(&host), runtime.shards(), applied);
        // Applies removals that happened while no server ran: the journal still had the registrations.
        while follower.follow() {}
        let running = Self {
            config,
            settings,
            runtime,
            host,
            follower,
            view,
            limits: LimitLog::default(),
            tls,
            admin,
            admin_address,
            shown,
            listeners,
            clients,
            handles,
            retired: Retired::default(),
            clock,
            provisioning,
            public_address,
            public_watch: None,
            inputs,
        };
        running.start_background()
    }

    /// Starts what needs the running server: timing points, requests for the public address, orders of certificates.
    fn start_background(mut self) -> Result<Self, Failure> {
        self.measure_steps(self.config.log.steps);
        self.watch_public_address();
        self.tls.start_orders(&self.config)?;
        Ok(self)
    }

    /// Listeners in the order of the configuration, with their actual ports.
    pub(crate) fn listeners(&self) -> &[Listen] {
        self.runtime.listeners()
    }

    /// Uses settings whose listeners are open.
    fn use_settings(&mut self, settings: Arc<ringway_server::Config>) {
        // Nodes are dialled by the settings: their names come first.
        self.tls.set_links(settings.links.as_ref());
        self.runtime.shards().with_each(|node| node.reconfigure(Arc::clone(&settings)));
        self.settings = settings;
    }

    /// Stops gracefully.
    pub(crate) fn stop(mut self) {
        start::stopping();
        drop(self.provisioning.take());
        tracing::info!("stopping: no new work, at most {} s for pending requests", GRACE.as_secs());
        let until = self.clock.now() + GRACE - ERROR_RESPONSES_BEFORE;
        self.runtime.shards().with_each(|node| node.stop_new_work(until));
        let all_done = self.runtime.stop(GRACE, Server::is_idle);
        if !all_done {
            tracing::warn!("stopped with requests unanswered");
        }
        self.host.stop_writer();
        self.host.records().stop(self.clock.now());
        self.host.capture().stop();
        self.admin.stop();
    }

    /// Runs until a signal ends it.
    fn serve(mut self, inputs: Receiver<Input>) -> Result<(), Failure> {
        let mut high_water = 0;
        let mut has_more = false;
        let mut shared_work = SharedWork::default();
        let end = loop {
            let interval = match (shared_work.is_under_way(), has_more) {
                (_, true) => Duration::ZERO,
                (true, false) => SharedWork::INTERVAL,
                (false, false) => FOLLOW_INTERVAL,
            };
            match inputs.recv_timeout(interval) {
                Ok(Input::Signal(Signal::Terminate)) | Err(RecvTimeoutError::Disconnected) => break Ok(()),
                Ok(Input::Signal(Signal::Reload)) => self.reload_and_log(),
                Ok(Input::Reload(_, until, _)) if std::time::Instant::now() >= until => {
                    tracing::warn!("a reload was not applied: it had waited until its client was refused");
                }
                Ok(Input::Reload(request, _, report)) => {
                    // It fails if the client has given up.
                    let _ = report.send(self.reload(request));
                }
                Ok(Input::NodesChanged) => self.apply_nodes(),
                Ok(Input::PublicAddress) => self.renew_settings(),
                Ok(Input::ShareAgain) => self.begin_again(&mut shared_work),
                Ok(Input::Walked(walks, is_loss)) => self.begin_sweep(&mut shared_work, walks, is_loss),
                Ok(Input::Changed) | Err(RecvTimeoutError::Timeout) => {}
            }
            if self.runtime.has_failed() {
                break Err(Failure::failed("a worker thread failed; restart the server"));
            }
            has_more = self.follower.follow();
            self.step(&mut shared_work);
            self.end_removed();
            self.view.drain.log_end(self.clock.now());
            self.tls.follow_files();
            self.host.traces().expire(std::time::Instant::now());
            self.host.records().expire(self.clock.now());
            // Returns memory of a flood to the system after its requests have ended.
            let reserved = self.host.tables().memory().used();
            high_water = high_water.max(reserved);
            let is_over = reserved < TRIM_BYTES_MIN / 16 && high_water > TRIM_BYTES_MIN / 8;
            if is_over || high_water - reserved > TRIM_BYTES_MIN {
                ringway_linux::process::release_unused();
                high_water = reserved;
            }
            self.log_limits();
        };
        // Requests of the admin API that wait for an answer end with it.
        drop(inputs);
        self.stop();
        end
    }

    fn log_limits(&mut self) {
        let now = std::time::Instant::now();
        if !tracing::enabled!(tracing::Level::INFO) || !self.limits.is_due(now) {
            return;
        }
        let stats = self.view.counted();
        let counters = stats.iter().map(|stat| (stat.name.as_ref(), stat.value as u64));
        let of_admin: Vec<(&str, u64)> = self.admin.limits().collect();
        log_lines::write(&self.limits.reached(now, counters.chain(of_admin)));
    }

    /// Prints the `ready` line to standard output, and logs warnings.
    fn report_started(&self) -> Result<(), Failure> {
        warn_of_settings(&self.config);
        tracing::info!(
            version = %env!("CARGO_PKG_VERSION"),
            domains = %self.config.server.domains.join(","),
            subscribers = self.host.directory().len(),
            "started"
        );
        let scheme = if self.config.admin.is_public() && self.tls.layers().https().is_some() {
            "https"
        } else {
            "http"
        };
        tracing::info!("admin API on {scheme}://{}/", self.admin_address);
        let mut line = String::from("ready");
        for listener in self.listeners() {
            line.push(' ');
            line.push_str(&listener.to_string());
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())?;
        Ok(())
    }
}

/// Binds the listeners and the admin API.
fn bind(config: &Config) -> Result<(Vec<Listen>, Bound, Admin), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(error.to_string());
    let wanted = settings::wanted_listeners(config);
    let bound = Bound::bind_marked(&wanted, usize::from(config.workers), config.dscp);
    let bound = bound.map_err(|error| failed(&error))?;
    let admin = Admin::bind(config.admin.listen).map_err(|error| failed(&error))?;
    Ok((wanted, bound, admin))
}

/// Users that the admin API changes: in the store, or in the tables of a database.
fn users_of(config: &Config, store: &Arc<Store>, followed: Option<&Following>) -> StoredUsers {
    let access = followed.map(Following::access).filter(|_| config.store.has_tables());
    StoredUsers::new(Arc::clone(store), access)
}

/// Starts what follows calls and captures messages, if it is configured.
fn start_observers(
    config: &Config,
    host: &ServerHost,
    listeners: &ListenerTable,
    clock: Clock,
) -> Result<(), Failure> {
    let sinks = records::open(&config.records)?;
    host.records()
        .reconfigure(config, Some(sinks), clock.now())
        .map_err(|error| Failure::failed(format!("cannot start the thread for [records]: {error}")))?;
    host.capture().set_listeners(listeners);
    if let Some(collector) = host.capture().prepare(config.hep.as_ref())? {
        host.capture().replace(collector);
    }
    Ok(())
}

/// Starts what uses the database of users, if there is one; changes of it wake the main thread.
fn start_provisioning(
    config: &Config,
    followed: Option<FollowedDatabase>,
    inputs: &Sender<Input>,
    view: &ServerView,
) -> Result<Option<Following>, Failure> {
    let inputs = inputs.clone();
    let on_change = move || {
        // It fails while the server stops.
        let _ = inputs.send(Input::Changed);
    };
    let Some(following) = provisioning::start(followed, on_change)? else { return Ok(None) };
    view.set_provisioning(following.thread());
    write_back::start(config, following.access(), (&view.shards, view.clock), &view.host)?;
    Ok(Some(following))
}

/// Starts the threads of the admin API.
fn start_admin(
    admin: Admin,
    (view, control): (Arc<ServerView>, ServerControl),
    token: &str,
    tls: &ServerTls,
) -> Result<AdminServer, Failure> {
    let layers = tls.layers();
    admin
        .serve(
            view as Arc<dyn View>,
            Arc::new(control) as Arc<dyn Control>,
            token,
            Arc::new(move || layers.https()),
        )
        .map_err(|error| Failure::failed(format!("cannot start the admin listener: {error}")))
}

/// Settings of the runtime.
fn runtime_config(
    config: &Config,
    settings: &Arc<ringway_server::Config>,
    host: &Arc<ServerHost>,
    (tls, clock): (&ServerTls, Clock),
    listeners: &ListenerTable,
) -> ringway_linux::Config {
    ringway_linux::Config {
        clock,
        marked_packets: marked_packets(config),
        message_bytes_max: settings::message_bytes_max(settings),
        acceptance: settings::acceptance(config, listeners),
        max_connections: config.limits.max_connections,
        max_connections_per_source: config.limits.max_connections_per_source,
        memory: Some(Arc::clone(host.tables().memory())),
        shard_key: host.shard_key(),
        trace: Some(message_trace(host)),
        layers: tls.layers(),
        associations: tls.dtls().map(|dtls| dtls as _),
        streams: StreamLimits { unused: UNUSED_MAX, ..StreamLimits::default() },
        ..ringway_linux::Config::default()
    }
}

/// Treatment of responses to a REGISTER by `[store] durability`.
const fn marked_packets(config: &Config) -> MarkedPackets {
    match config.store.durability {
        Durability::Relaxed => MarkedPackets::SendAtOnce,
        Durability::Strict => MarkedPackets::HoldUntilStored,
    }
}

/// Function that gets every message: the log has it at level trace only, which a reload can change.
fn message_trace(host: &Arc<ServerHost>) -> MessageTrace {
    let host = Arc::clone(host);
    Arc::new(move |direction, flow, message| {
        event_log::trace_message(direction, flow, message);
        host.traces().on_message(direction, flow, message);
        host.capture().on_message(direction, flow, message);
    })
}

fn warn_of_settings(config: &Config) {
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
}

fn warn_of_few_files(wanted: usize, possible: usize) {
    if possible < wanted {
        tracing::warn!(
            "the limit of open files allows {possible} connections instead of [limits] max_connections = {wanted}: raise it \
             (ulimit -Hn, or LimitNOFILE= of systemd)"
        );
    }
}

/// The lock of what the threads share: the data stays usable after a panic of one of them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Minimum amount of memory released by requests for which the allocator's heap is trimmed.
const TRIM_BYTES_MIN: usize = 16 << 20;

/// Interval of checks for changes by `ringway user`, which are promised within a second.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// Lifetime of an unused connection (no registration, no call) after its last message.
const UNUSED_MAX: Duration = Duration::from_secs(60);

/// Time limit of a stop for pending requests.
const GRACE: Duration = Duration::from_secs(5);

/// Time before this limit at which pending requests are answered with an error.
const ERROR_RESPONSES_BEFORE: Duration = Duration::from_secs(1);

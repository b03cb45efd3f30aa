//! Reload of the configuration: everything that the file has changed, or nothing.
//!
//! [`Running::reload`] prepares all that may fail, and changes nothing meanwhile; then it commits, which cannot fail.

use super::capture::NewCollector;
use super::clients::{NewClients, open_relays, start_resolver, usable, watch};
use super::listeners::{ListenerPlan, ListenerTable};
use super::records::{self, Sink};
use super::start::other_realms;
use super::{Running, acme, settings, signers, tls, warn_of_settings};
use crate::config::{Config, KeyChange, Keys};
use crate::failure::Failure;
use ringway_linux::{Attached, BindError};
use ringway_sansio::Transport;
use ringway_server::Trunk;
use ringway_settings::ShownValue;
use ringway_tls::TlsMaterial;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Request to reload the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReloadRequest {
    /// Change what the file has changed.
    Apply,
    /// Tell what that would change.
    DryRun,
    /// Tell what a file with these keys would change.
    Compare(Keys),
}

/// Result of a reload: the changes, or the reasons of the refusal.
#[derive(Clone, Debug)]
pub(crate) struct ReloadReport {
    pub(super) outcome: ReloadOutcome,
    /// Keys that differ from the running configuration.
    pub(super) changes: Vec<KeyChange>,
    /// Keys that need a restart.
    pub(super) restart: Vec<&'static str>,
    /// Consequences that an administrator may not expect, one line each.
    pub(super) warnings: Vec<String>,
    /// Reasons of a refusal, one line each.
    pub(super) errors: Vec<String>,
}

/// End of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReloadOutcome {
    /// The changes are in force.
    Applied,
    /// They would be.
    Possible,
    /// The old configuration remains in force.
    Refused,
}

impl ReloadReport {
    /// HTTP status of its answer.
    pub(super) const fn status(&self) -> u16 {
        match self.outcome {
            ReloadOutcome::Applied | ReloadOutcome::Possible => 200,
            ReloadOutcome::Refused => 422,
        }
    }

    /// Answer of the admin API.
    pub(super) fn to_json(&self) -> Value {
        let change = |change: &KeyChange| {
            json!({
                "key": change.key,
                "old": change.old.text(),
                "new": change.new.text(),
                "text": change.to_string(),
            })
        };
        let shown = self.changes.iter().take(CHANGES_SHOWN_MAX);
        let mut object = json!({
            "ok": self.outcome != ReloadOutcome::Refused,
            "applied": self.outcome == ReloadOutcome::Applied,
            "changes": shown.map(change).collect::<Vec<_>>(),
            "changes_left_out": self.changes.len().saturating_sub(CHANGES_SHOWN_MAX),
            "restart": self.restart,
            "warnings": self.warnings,
            "errors": self.errors,
        });
        if let Some(first) = self.errors.first() {
            object["error"] = json!(first);
        }
        object
    }
}

/// Everything that a new configuration needs, ready to be used. Dropping it leaves no trace.
pub(super) struct Prepared {
    config: Config,
    material: TlsMaterial,
    /// Certificates of links, if the secret changes.
    of_links: Option<TlsMaterial>,
    plan: ListenerPlan,
    attached: Attached,
    listeners: ListenerTable,
    settings: Arc<ringway_server::Config>,
    clients: NewClients,
    /// Outputs of records, if they change.
    sinks: Option<Vec<Sink>>,
    collector: Option<NewCollector>,
}

/// Reasons why a reload is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    restart: Vec<&'static str>,
    errors: Vec<String>,
}

/// Trunks, the database and the nodes whose password file is the same and has another password now, and the rates of trunks if they differ.
fn changed_passwords(old: &Config, new: &Config) -> Vec<KeyChange> {
    let of = |config: &Config, key: &str| config.keys.value(key).map(str::to_owned);
    let trunks = &old.server.trunking.trunks;
    let trunks: HashMap<&str, &Trunk> = trunks.iter().map(|trunk| (trunk.name.as_str(), trunk)).collect();
    let changed = new.server.trunking.trunks.iter().filter_map(|trunk| {
        let before = trunks.get(trunk.name.as_str())?;
        let (before, now) = (before.login.as_ref()?, trunk.login.as_ref()?);
        let key = format!("trunk.{}.password_file", trunk.name);
        let is_changed = before.password != now.password && of(old, &key) == of(new, &key);
        is_changed.then_some(KeyChange { key, old: ShownValue::Hidden, new: ShownValue::Hidden })
    });
    let of_store = match (&old.store.database, &new.store.database) {
        (Some(before), Some(now)) => {
            let key = "store.password_file";
            let is_changed = !now.has_password_of(before) && of(old, key) == of(new, key);
            is_changed.then(|| KeyChange {
                key: key.to_owned(),
                old: ShownValue::Hidden,
                new: ShownValue::Hidden,
            })
        }
        _ => None,
    };
    let of_nodes = match (&old.cluster, &new.cluster) {
        (Some(before), Some(now)) => {
            let key = "cluster.secret";
            let is_changed = before.secrets != now.secrets && of(old, key) == of(new, key);
            is_changed.then(|| KeyChange {
                key: key.to_owned(),
                old: ShownValue::Hidden,
                new: ShownValue::Hidden,
            })
        }
        _ => None,
    };
    let of_rates = (old.server.trunking.rates != new.server.trunking.rates).then(|| KeyChange {
        key: "trunk.rates_file".to_owned(),
        old: ShownValue::Hidden,
        new: ShownValue::Hidden,
    });
    changed.chain(of_store).chain(of_nodes).chain(of_rates).collect()
}

impl Running {
    /// Reloads the configuration, or tells what that would change.
    pub(super) fn reload(&mut self, request: ReloadRequest) -> ReloadReport {
        let mut report = ReloadReport {
            outcome: ReloadOutcome::Refused,
            changes: Vec::new(),
            restart: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        };
        let keys = match &request {
            ReloadRequest::Apply | ReloadRequest::DryRun => None,
            ReloadRequest::Compare(keys) => Some(keys),
        };
        if let Some(keys) = keys {
            report.changes = self.config.keys.changes_to(keys);
            match self.check_restart(&report.changes) {
                Ok(()) => report.outcome = ReloadOutcome::Possible,
                Err(refusal) => (report.restart, report.errors) = (refusal.restart, refusal.errors),
            }
            return report;
        }
        let read = Config::load(self.config.file.as_deref());
        let config = match read {
            Ok(config) => config,
            Err(failure) => {
                report.errors = failure.lines().to_vec();
                return report;
            }
        };
        report.changes = self.config.keys.changes_to(&config.keys);
        report.changes.extend(changed_passwords(&self.config, &config));
        report.warnings = other_realms(self.follower.store(), &config);
        let prepared = self.check_restart(&report.changes).and_then(|()| self.prepare(config));
        match (prepared, request) {
            (Ok(prepared), ReloadRequest::Apply) => {
                for change in &report.changes {
                    tracing::info!("configuration: {change}");
                }
                self.commit(prepared);
                report.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                report.outcome = ReloadOutcome::Applied;
            }
            (Ok(_), ReloadRequest::DryRun | ReloadRequest::Compare(_)) => {
                report.outcome = ReloadOutcome::Possible;
            }
            (Err(refusal), _) => (report.restart, report.errors) = (refusal.restart, refusal.errors),
        }
        report
    }

    /// Reloads because of a signal; the log has the result.
    pub(super) fn reload_and_log(&mut self) {
        for line in &self.reload(ReloadRequest::Apply).errors {
            tracing::error!("configuration not reloaded, the old one remains in use: {line}");
        }
    }

    /// Refuses changes that need a restart.
    fn check_restart(&self, changes: &[KeyChange]) -> Result<(), Refusal> {
        let has_dtls = self.tls.has_dtls();
        let needs_restart = |change: &KeyChange, key: &str| {
            // The first dtls: listener needs a secret and tables that exist only if the server started with one.
            let is_first_dtls = || !has_dtls && change.new.text().is_some_and(|new| new.contains("\"dtls:"));
            change.key == key && (key != "listen" || is_first_dtls())
        };
        let changed = |key: &&str| changes.iter().any(|change| needs_restart(change, key));
        let restart: Vec<&str> = RESTART_KEYS.iter().copied().filter(changed).collect();
        if restart.is_empty() {
            return Ok(());
        }
        let line = |key: &&str| match *key {
            "listen" => FIRST_DTLS.to_owned(),
            key => format!("{key} cannot change while the server runs; restart it, or restore the old value"),
        };
        let errors = restart.iter().map(line).collect();
        Err(Refusal { restart, errors })
    }

    /// Binds, loads and starts what the new configuration needs.
    pub(super) fn prepare(&self, config: Config) -> Result<Prepared, Refusal> {
        // The folder and a self-signed certificate stay, also if the reload is refused.
        acme::prepare(&config)?;
        let material = tls::load(&config.tls)?;
        self.tls.check(&material)?;
        let wanted = settings::wanted_listeners(&config);
        // A long list is cut in the difference.
        if !self.tls.has_dtls() && wanted.iter().any(|listen| listen.transport == Transport::Dtls) {
            return Err(Refusal { restart: vec!["listen"], errors: vec![FIRST_DTLS.to_owned()] });
        }
        let plan = self.listeners.plan(&wanted).map_err(Failure::failed)?;
        let attached = self.runtime.attach(&plan.added).map_err(|error| self.explained(&error))?;
        let listeners = self.listeners.after(&plan, attached.listeners(), Instant::now());
        let nodes = self.settings.links.as_ref().map_or(&[][..], |links| &links.nodes);
        let settings = Arc::new(self.settings_with(&config, &listeners, nodes));
        let of_links =
            if config.cluster == self.config.cluster { None } else { tls::link_material(&config)? };
        let mut clients = NewClients::default();
        if config.dns_servers != self.config.dns_servers || usable(&settings) != usable(&self.settings) {
            clients.resolver = Some(start_resolver(&config.dns_servers, &settings, &self.handles)?);
        }
        if config.stir.signers != self.config.stir.signers {
            clients.signers = Some(signers::open(&config, &self.handles)?);
        }
        let media = |config: &Config| (config.media_relays.clone(), config.server.media.time_limit);
        if media(&config) != media(&self.config) {
            let relays = open_relays(&config, &self.handles)?;
            let watched =
                |relays: Arc<_>| watch(&self.runtime, Arc::clone(&relays)).map(|watched| (relays, watched));
            clients.relays = Some(relays.map(watched).transpose()?);
        }
        let (new, old) = (&config.records, &self.config.records);
        let sinks = if new == old { None } else { Some(records::open(new)?) };
        // The thread exists before anything changes: only starting it can fail.
        let collector = self.host.capture().prepare(config.hep.as_ref())?;
        Ok(Prepared {
            config,
            material,
            of_links,
            plan,
            attached,
            listeners,
            settings,
            clients,
            sinks,
            collector,
        })
    }

    /// Uses what was prepared. The settings come before the sockets that need them, and go after those that needed them.
    pub(super) fn commit(&mut self, prepared: Prepared) {
        let Prepared {
            config, material, plan, attached, listeners, settings, clients, sinks, collector, ..
        } = prepared;
        self.tls.reload(&config.tls, material, config.acme.is_some());
        let are_links_renewed = prepared.of_links.is_some();
        if let Some(material) = prepared.of_links {
            self.tls.set_link_material(material);
        }
        self.tls.set_websocket(&config);
        self.host.reconfigure(&config);
        self.host.set_trunks(&settings);
        if let Err(error) = self.host.records().reconfigure(&config, sinks, self.clock.now()) {
            tracing::error!("calls are not recorded: the thread for it cannot be started: {error}");
        }
        self.host.capture().set_listeners(&listeners);
        if let Some(collector) = collector {
            self.host.capture().replace(collector);
        }
        self.runtime.set_max_connections(config.limits.max_connections);
        self.runtime.set_max_connections_per_source(config.limits.max_connections_per_source);
        self.runtime.set_message_bytes_max(settings::message_bytes_max(&settings));
        self.clients.replace(clients, &mut self.retired, Instant::now());
        self.use_settings(Arc::clone(&settings));
        if let Some(links) = settings.links.as_ref().filter(|_| are_links_renewed) {
            // They keep the certificates with which they were opened, which a node with another secret does not accept. Both nodes dial
            // again.
            self.runtime.connections().close_all_of(links.listener);
        }
        self.runtime.set_acceptance(settings::acceptance(&config, &listeners));
        self.runtime.open(attached);
        let removed = plan.removed.iter().filter(|id| {
            let listener = settings.listeners.get(usize::from(id.0));
            listener.is_some_and(|listener| listener.transport.is_stream())
        });
        removed.for_each(|id| self.runtime.close(*id));
        self.admin.set_token(&config.admin.token);
        self.shown.set(&config, listeners.shown());
        if let (Some(following), Some(url)) = (&self.provisioning, &config.store.database) {
            following.access().replace(url.clone());
        }
        if let (Some(shared), Some(location)) = (self.host.location(), &config.location)
            && Some(location) != self.config.location.as_ref()
        {
            shared.set_url(&location.url);
        }
        if acme::differs(&self.config, &config)
            && let Err(failure) = self.tls.start_orders(&config)
        {
            failure.lines().iter().for_each(|line| tracing::error!("no certificates are ordered: {line}"));
        }
        crate::log::change(&config.log);
        self.measure_steps(config.log.steps);
        let is_stun_changed = config.stun != self.config.stun;
        (self.config, self.listeners) = (config, listeners);
        if is_stun_changed {
            self.watch_public_address();
        }
        warn_of_settings(&self.config);
        tracing::info!("configuration reloaded");
    }

    /// Closes the listeners that were removed a while ago, and ends what was replaced.
    pub(super) fn end_removed(&mut self) {
        let now = Instant::now();
        for id in self.listeners.take_due(now) {
            self.runtime.close(id);
        }
        self.retired.end_old(now);
    }

    /// Error of binding, with the advice for a port that this server uses itself.
    fn explained(&self, error: &BindError) -> Failure {
        let line = format!("listen: {error}");
        let own = match error {
            BindError::Listener { listener, why } if why.kind() == std::io::ErrorKind::AddrInUse => {
                self.listeners.with_port_of(*listener)
            }
            BindError::Listener { .. } | BindError::TooMany | BindError::Machine(_) => None,
        };
        match own {
            Some(own) => Failure::failed(format!(
                "{line}. {own} of this server uses the port: remove it by one reload, wait 32 s, and add the other by a second one"
            )),
            None => Failure::failed(line),
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { restart: Vec::new(), errors: failure.lines().to_vec() }
    }
}

/// Maximum number of changes in an answer.
const CHANGES_SHOWN_MAX: usize = 1000;
/// Keys whose changes need a restart; `listen` only for the first DTLS listener.
const RESTART_KEYS: [&str; 15] = [
    "cluster.listen",
    "cluster.node",
    "dscp",
    "location.hold",
    "workers",
    "store.url",
    "store.copy",
    "store.query",
    "store.query_changed",
    "store.query_interval_s",
    "store.write_back",
    "store.danger_lookup",
    "store.durability",
    "admin.listen",
    "listen",
];

/// Refusal of the first `dtls:` listener.
const FIRST_DTLS: &str = "listen: the first dtls: listener needs a restart; restart the server, or remove it";

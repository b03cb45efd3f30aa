//! Users that come from a database, and passwords that are read from it while a request waits.

use crate::config::{Config, StoreQuery};
use crate::database;
use crate::failure::Failure;
use ringway_admin::Stat;
use ringway_server::Ha1;
use ringway_sql::connection::{DatabaseAccess, DatabaseUrl};
use ringway_sql::provisioning::{
    Counts, DangerLookup, Follower, Provisioning, ProvisioningError, UserQuery, WriteBackCounts,
};
use ringway_store::{Provisioned, Store, StoreUrl};
use std::cell::RefCell;
use std::time::Duration;

/// The database that the store follows.
pub(crate) struct FollowedDatabase {
    access: DatabaseAccess,
    follower: Follower,
}

impl FollowedDatabase {
    fn new(config: &Config, url: &DatabaseUrl, store: Store) -> Result<Self, Failure> {
        let query = config.store.query.as_ref().map(|query| user_query(query, config, &store)).transpose()?;
        let access = DatabaseAccess::new(url.clone());
        Ok(Self { follower: Follower::new(access.clone(), query, store), access })
    }

    fn has_users(&self) -> Result<bool, Failure> {
        self.follower.has_users().map_err(|error| self.failed(&error))
    }

    fn read_once(&self) -> Result<(), Failure> {
        self.follower.read_once().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &ProvisioningError) -> Failure {
        database::failed(&self.access.url(), error)
    }
}

/// The thread that follows a database.
pub(super) struct Following {
    access: DatabaseAccess,
    thread: Provisioning,
}

impl Following {
    /// URL of the database, which a reload can change.
    pub(super) fn access(&self) -> DatabaseAccess {
        self.access.clone()
    }

    /// The thread.
    pub(super) const fn thread(&self) -> &Provisioning {
        &self.thread
    }
}

/// Prepares to follow the database of the configuration into `store`, if it has one. The first start reads its users.
pub(crate) fn prepare(config: &Config, store: &Store) -> Result<Option<FollowedDatabase>, Failure> {
    let Some(url) = &config.store.database else {
        let provisioned = Provisioned::of(store);
        if provisioned.position()?.is_some() {
            // Users that came from a database before are this file's own from now on.
            provisioned.forget()?;
        }
        return Ok(None);
    };
    // A connection of its own: a long write must not keep the others of the store waiting.
    let followed = FollowedDatabase::new(config, url, Store::open(&config.store.url)?)?;
    if !followed.has_users()? {
        tracing::info!("{}: reading the users for the first time", url.shown());
        followed.read_once()?;
    }
    Ok(Some(followed))
}

/// Checks that [`prepare`] would succeed with this `store`, which is open for reading; `None`: there is none yet. Nothing is changed.
pub(super) fn check(config: &Config, store: Option<Store>) -> Result<(), Failure> {
    let Some(url) = &config.store.database else { return Ok(()) };
    let has_users = store.map(|store| FollowedDatabase::new(config, url, store)?.has_users());
    if has_users.transpose()? == Some(true) {
        return Ok(());
    }
    FollowedDatabase::new(config, url, Store::open(&StoreUrl::Memory)?)?.read_once()
}

fn user_query(query: &StoreQuery, config: &Config, store: &Store) -> Result<UserQuery, Failure> {
    let realms = config.server.auth.realms.clone();
    Ok(UserQuery {
        all: query.all.clone(),
        changed: query.changed.clone(),
        interval: Duration::from_secs(query.interval_s.into()),
        domain: config.server.domains.first().cloned().unwrap_or_else(|| "localhost".to_owned()),
        realm_of: Box::new(move |domain| realms.of(domain.as_bytes()).to_owned()),
        no_password: base16ct::lower::encode_string(&store.secret()?),
    })
}

/// Starts the thread that follows the database; it calls `on_change` after each change.
pub(super) fn start(
    followed: Option<FollowedDatabase>,
    on_change: impl Fn() + Send + 'static,
) -> Result<Option<Following>, Failure> {
    followed
        .map(|FollowedDatabase { access, follower }| {
            follower.start(on_change).map(|thread| Following { access, thread })
        })
        .transpose()
        .map_err(|error| Failure::failed(format!("cannot start the thread for [store]: {error}")))
}

/// State and counters of provisioning.
pub(super) fn stats(counts: Counts) -> [Stat; 6] {
    let Counts { connected, reached_s, full_reads, changes, failures, rows_refused } = counts;
    let gauge = |name, help, value: u64| Stat::gauge(name, help, value as f64);
    let counter = |name, help, value: u64| Stat::counter(name, help, value);
    [
        gauge("provisioning_connected", "1 while the database of users is followed.", connected),
        gauge(
            "provisioning_reached_seconds",
            "Time of the last complete read of the database, in seconds since the epoch.",
            reached_s,
        ),
        counter("provisioning_full_reads", "Reads of all users of the database.", full_reads),
        counter("provisioning_changes", "Users changed by reads of the database.", changes),
        counter("provisioning_failures", "Connections to the database and queries that failed.", failures),
        counter(
            "provisioning_rows_refused",
            "Invalid rows of the database that were passed over.",
            rows_refused,
        ),
    ]
}

/// State and counters of the registrations that are written into the database.
pub(super) fn write_back_stats(counts: WriteBackCounts) -> [Stat; 6] {
    let WriteBackCounts { connected, waiting, written, dropped, refused, failures } = counts;
    let gauge = |name, help, value: u64| Stat::gauge(name, help, value as f64);
    let counter = |name, help, value| Stat::counter(name, help, value);
    [
        gauge("write_back_connected", "1 while registrations are written into the database.", connected),
        gauge("write_back_waiting", "Users whose changed registrations wait to be written.", waiting),
        counter("write_back_written", "Users whose registrations were written.", written),
        counter(
            "write_back_dropped",
            "Changes dropped because too many waited; all registrations are written after that.",
            dropped,
        ),
        counter("write_back_refused", "Users whose registrations the table cannot have.", refused),
        counter("write_back_failures", "Connections and writes of registrations that failed.", failures),
    ]
}

/// Lookups of passwords by the threads that handle requests: each reads one, and uses it for the same request.
pub(super) struct WaitingLookup {
    lookup: DangerLookup,
}

/// A user with its domain, and what the database has for it.
type Found = (Vec<u8>, Vec<u8>, Option<Ha1>);

thread_local! {
    /// The last user that this thread looked up.
    static FOUND: RefCell<Option<Found>> = const { RefCell::new(None) };
}

impl WaitingLookup {
    pub(super) const fn new(lookup: DangerLookup) -> Self {
        Self { lookup }
    }

    /// Reads the password of a user, for the requests that follow in this thread. False: the database failed.
    pub(super) fn look_up(&self, user: &[u8], domain: &[u8]) -> bool {
        let found = match (std::str::from_utf8(user), std::str::from_utf8(domain)) {
            (Ok(name), Ok(domain)) => self.lookup.find(name, domain),
            _ => Ok(None),
        };
        let Ok(ha1) = found else { return false };
        FOUND.set(Some((user.to_vec(), domain.to_vec(), ha1)));
        true
    }

    /// Hashes that [`WaitingLookup::look_up`] read for this user in this thread.
    pub(super) fn found(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        FOUND.with_borrow(|found| {
            let (of_user, of_domain, ha1) = found.as_ref()?;
            (of_user == user && of_domain == domain).then_some(*ha1)?
        })
    }

    pub(super) fn stats(&self) -> [Stat; 2] {
        let (lookups, failures) = self.lookup.counts();
        [
            Stat::counter(
                "danger_lookups",
                "Passwords read from the database while a request waited.",
                lookups,
            ),
            Stat::counter("danger_lookup_failures", "Such reads that failed or took too long.", failures),
        ]
    }
}

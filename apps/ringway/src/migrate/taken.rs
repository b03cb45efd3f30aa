//! Fate of each account of another server.

use crate::args::MigrateArgs;
use crate::config::Config;
use crate::output::printable;
use crate::password::WeakPasswords;
use indicatif::{ProgressBar, ProgressStyle};
use ringway_sql::migration::{Account, LeftTable, Settings};
use ringway_store::{Ha1, Hashes, Restoration, Restored, UserName};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Fate of the accounts.
pub(super) struct Taken<'c> {
    config: &'c Config,
    /// Realm of the passwords that are taken over as hashes.
    realm: Option<&'c str>,
    /// Domain of users without one.
    domain: &'c str,
    /// Password that nobody has.
    no_password: String,
    /// Domains of the users, with the numbers of these.
    domains: BTreeMap<String, u64>,
    /// Realm of the hashes of a domain, if it is not that of this server: nobody can log in with them.
    foreign_realms: BTreeMap<String, String>,
    md5_only: u64,
    /// Users whose passwords were hashed for the realm of this server.
    hashed: u64,
    passwords: WeakPasswords,
    left: Vec<(String, String)>,
    left_count: u64,
    begun: Instant,
    read: u64,
    bar: Option<ProgressBar>,
}

impl<'c> Taken<'c> {
    pub(super) fn new(args: &'c MigrateArgs, config: &'c Config, secret: &[u8; 32]) -> Self {
        let own = config.server.domains.first().map_or(DEFAULT_DOMAIN, String::as_str);
        Self {
            config,
            realm: args.realm.as_deref(),
            domain: args.domain.as_deref().unwrap_or(own),
            no_password: base16ct::lower::encode_string(secret),
            domains: BTreeMap::new(),
            foreign_realms: BTreeMap::new(),
            md5_only: 0,
            hashed: 0,
            passwords: WeakPasswords::default(),
            left: Vec::new(),
            left_count: 0,
            begun: Instant::now(),
            read: 0,
            bar: None,
        }
    }

    /// The user, its realm and its H(A1); `None`: it is left out.
    pub(super) fn account(&mut self, account: &Account<'_>) -> Option<(UserName, String, Hashes)> {
        self.progress();
        match self.hashed(account) {
            Ok(hashed) => Some(hashed),
            Err(why) => {
                self.left_count += 1;
                if self.left.len() < LEFT_MAX {
                    self.left.push((format!("{}@{}", account.name, account.domain), why));
                }
                None
            }
        }
    }

    fn hashed(&mut self, account: &Account<'_>) -> Result<(UserName, String, Hashes), String> {
        let domain = if account.domain.is_empty() { self.domain } else { account.domain };
        let user = UserName::new(account.name, domain).map_err(|unusable| unusable.to_string())?;
        let own = self.config.server.auth.realms.of(user.domain().as_bytes());
        let (realm, hashes) = match (account.password, account.md5) {
            (Some(password), _) => {
                self.hashed += 1;
                self.passwords.note(user.name(), password);
                (own.to_owned(), user.hashes(own, password).map_err(|unusable| unusable.to_string())?)
            }
            (None, Some(md5)) => {
                let realm = self.realm.unwrap_or(domain);
                if realm != own && self.foreign_realms.len() < DOMAINS_MAX {
                    self.foreign_realms.insert(user.domain().to_owned(), realm.to_owned());
                }
                let sha256 = match account.sha256 {
                    Some(sha256) => sha256,
                    None => {
                        self.md5_only += 1;
                        // A password that nobody has, and the same at the next migration.
                        user.ha1(realm, &self.no_password).map_err(|unusable| unusable.to_string())?.sha256
                    }
                };
                (realm.to_owned(), Ha1 { md5, sha256 }.into())
            }
            (None, None) => return Err("it has neither a password nor its MD5 hash (ha1)".to_owned()),
        };
        let has_room = self.domains.len() < DOMAINS_MAX;
        match self.domains.get_mut(user.domain()) {
            Some(users) => *users += 1,
            None if has_room => drop(self.domains.insert(user.domain().to_owned(), 1)),
            None => {}
        }
        Ok((user, realm, hashes))
    }

    /// Domains whose passwords are hashes for another realm than this server's, with that realm.
    pub(super) fn foreign_realms(&self) -> &BTreeMap<String, String> {
        &self.foreign_realms
    }

    /// Domains of this server and of the other. Those of the configuration come first, unless it has none but the default, and that has
    /// no users; then those with most users.
    pub(super) fn domains(&self, settings: &Settings) -> Vec<String> {
        let users_of = |domain: &String| self.domains.get(domain).copied().unwrap_or_default();
        let mut missing = self.missing_domains(settings);
        missing.sort_by_key(|domain| Reverse(users_of(domain)));
        let mut domains = self.config.server.domains.clone();
        if !missing.is_empty() && domains == [DEFAULT_DOMAIN] {
            domains.retain(|domain| users_of(domain) > 0);
            missing.append(&mut domains);
            missing.sort_by_key(|domain| Reverse(users_of(domain)));
        }
        domains.extend(missing);
        domains
    }

    /// Realm that passwords were hashed for, if a configuration with these domains would have another one.
    pub(super) fn kept_realm(&self, domains: &[String]) -> Option<&str> {
        let is_moved = self.hashed > 0 && domains.first() != self.config.server.domains.first();
        is_moved.then(|| self.config.server.auth.realms.general())
    }

    /// Number of users without a SHA-256 hash.
    pub(super) fn md5_only(&self) -> u64 {
        self.md5_only
    }

    fn progress(&mut self) {
        self.read += 1;
        if self.read.is_multiple_of(PROGRESS_ROWS) && self.begun.elapsed() > PROGRESS_AFTER {
            let bar = self.bar.get_or_insert_with(|| {
                let style = ProgressStyle::with_template("{spinner} {pos} subscribers read");
                ProgressBar::no_length()
                    .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            });
            bar.set_position(self.read);
        }
    }

    pub(super) fn end_progress(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Domains that the configuration lacks.
    fn missing_domains(&self, settings: &Settings) -> Vec<String> {
        let mut domains: BTreeSet<String> = self.domains.keys().cloned().collect();
        domains.extend(
            settings
                .domains
                .iter()
                .filter_map(|domain| UserName::new("user", domain).ok().map(|user| user.domain().to_owned())),
        );
        let own =
            |domain: &String| self.config.server.domains.iter().any(|own| own.eq_ignore_ascii_case(domain));
        domains.into_iter().filter(|domain| !own(domain)).collect()
    }

    pub(super) fn remarks(&self, settings: &Settings, written: Option<&Path>) -> String {
        let mut text = String::new();
        if self.left_count > 0 {
            let _ = writeln!(text, "left out: {}", self.left_count);
            for (user, why) in &self.left {
                let _ = writeln!(text, "  {}: {}", printable(user), printable(why));
            }
        }
        if self.md5_only > 0 {
            let _ = writeln!(
                text,
                "users with an MD5 hash only: {}; they cannot log in with SHA-256, so [auth] algorithms must be [\"MD5\"] until \
                 their passwords are set again",
                self.md5_only
            );
        }
        if let Some(warning) = self.passwords.warning(self.hashed) {
            let _ = writeln!(text, "warning: {warning}");
        }
        for (domain, realm) in &self.foreign_realms {
            let _ = writeln!(
                text,
                "users of {domain} have hashes for the realm {realm:?}: they cannot log in until the realm of that domain is this; \
                 --realm names another"
            );
        }
        let missing = self.missing_domains(settings);
        if !missing.is_empty() {
            let _ = writeln!(text, "not in the configuration: domains {}", missing.join(", "));
        }
        for LeftTable { table, rows, remark } in &settings.left {
            let _ = writeln!(text, "not read: table {table}, rows: {rows}; {remark}");
        }
        match written {
            Some(file) => {
                let _ = writeln!(
                    text,
                    "settings are proposed in {}; read them before you use them",
                    file.display()
                );
            }
            None if !(settings.addresses.is_empty() && settings.registrations.is_empty()) => {
                let _ = writeln!(
                    text,
                    "networks: {}, accounts at other servers: {}; --settings FILE writes a proposal with them",
                    settings.addresses.len(),
                    settings.registrations.len()
                );
            }
            None => {}
        }
        text
    }

    pub(super) fn to_json(
        &self,
        found: u64,
        (added, restoration): (&Restored, Restoration),
        settings: &Settings,
    ) -> Value {
        let left: Vec<_> = self.left.iter().map(|(user, why)| json!({"user": user, "why": why})).collect();
        let tables: Vec<_> = settings
            .left
            .iter()
            .map(|LeftTable { table, rows, remark }| json!({"table": table, "rows": rows, "remark": remark}))
            .collect();
        json!({
            "ok": true,
            "applied": restoration == Restoration::Apply,
            "users": {
                "found": found,
                "added": added.added,
                "changed": added.changed,
                "left_out": self.left_count,
                "md5_only": self.md5_only,
                "weak": self.passwords.count().0,
            },
            "left_out": left,
            "foreign_realms": self.foreign_realms,
            "missing_domains": self.missing_domains(settings),
            "not_read": tables,
        })
    }
}

/// Domain of a configuration without `domains`.
const DEFAULT_DOMAIN: &str = "localhost";

/// Maximum number of users that are named as left out.
const LEFT_MAX: usize = 100;

/// Maximum number of domains that are remembered.
const DOMAINS_MAX: usize = 1000;

/// Rows between two looks at the clock.
const PROGRESS_ROWS: u64 = 1000;

/// Time after which the progress is shown.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);

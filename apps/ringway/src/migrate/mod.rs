//! `ringway migrate`: users of Kamailio and OpenSIPS, and what of their settings can be proposed. A proposal of
//! `ringway.toml` from the settings of another server.

mod taken;

use crate::args::{MigrateArgs, MigrationOrigin};
use crate::config::Config;
use crate::database::{Database, Users, Wanted};
use crate::failure::Failure;
use crate::output::{self, printable};
use crate::{backup, password};
use ringway_sql::migration::{self, MigrationError, Origin, Settings, read_accounts, read_settings};
use ringway_store::{Backups, Restoration};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use taken::Taken;

/// Takes over the users of another server.
pub(crate) fn run(args: &MigrateArgs) -> Result<(), Failure> {
    let config = Config::load(args.config.as_deref())?;
    let origin = match args.origin {
        MigrationOrigin::Kamailio => Origin::Kamailio,
        MigrationOrigin::Opensips => Origin::OpenSips,
    };
    let password = args.password_stdin.then(password::from_stdin).transpose()?;
    let mut source = migration::Database::open(origin, &args.url, password.as_deref()).map_err(failed)?;
    Users::check_passwords_are_ours(&config)?;
    let database = Database::open(&config, Wanted::Any, "no users can be added to it")?;
    let (_folder, list) = Database::temporary()?;
    let mut taken = Taken::new(args, &config, &database.store.secret()?);
    let found = list.add_hashed(|add| {
        let mut failure = None;
        let read = read_accounts(&mut source, |account| {
            if let Some(Err(error)) =
                taken.account(&account).map(|(user, realm, hashes)| add(&user, &realm, &hashes))
            {
                failure.get_or_insert(error);
            }
        });
        match failure {
            Some(error) => Err(error),
            None => Ok(read),
        }
    })?;
    taken.end_progress();
    let found = found.map_err(failed)?;
    let settings = read_settings(&mut source).map_err(failed)?;
    let restoration = if args.dry_run { Restoration::DryRun } else { Restoration::Apply };
    // Before the users: a file that exists changes nothing.
    if let Some(file) = &args.settings {
        write_new(file, &proposal(&settings, &taken, (&source, restoration)))?;
    }
    let users = Users::of(&config, database);
    let added = users.edit_all(|store| Ok(Backups::of(store).add_subscribers(&list, restoration)?))?;
    if args.json {
        output::line(&taken.to_json(found, (&added, restoration), &settings).to_string())?;
    } else {
        output::line(&format!("{found} subscribers in {}", source.url()))?;
        backup::print(&added, restoration, "taken over", false)?;
        output::line(taken.remarks(&settings, args.settings.as_deref()).trim_end())?;
    }
    users.note_if_new();
    Ok(())
}

fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    let write = || OpenOptions::new().write(true).create_new(true).open(file)?.write_all(text.as_bytes());
    write().map_err(|error| {
        Failure::failed(format!(
            "{}: it cannot be written: {error}; give the name of a new file",
            file.display()
        ))
    })
}

fn failed(error: MigrationError) -> Failure {
    match error {
        MigrationError::Url(_) => Failure::usage(error.to_string()),
        MigrationError::Open { .. } | MigrationError::Query { .. } | MigrationError::NoSubscribers { .. } => {
            Failure::failed(error.to_string())
        }
    }
}

/// A configuration with what is certain, and the rest as comments.
fn proposal(
    settings: &Settings,
    taken: &Taken<'_>,
    (source, restoration): (&migration::Database, Restoration),
) -> String {
    let mut text = format!("# Proposed from {} at {}.\n", source.origin().name(), printable(source.url()));
    let domains = taken.domains(settings);
    let quoted: Vec<String> = domains.iter().map(|domain| format!("\"{domain}\"")).collect();
    let _ = writeln!(text, "domains = [{}]", quoted.join(", "));
    let realm = if restoration == Restoration::Apply { taken.kept_realm(&domains) } else { None };
    auth(&mut text, settings, (taken, realm));
    for account in &settings.registrations {
        let (server, user) = (printable(&account.server), printable(&account.user));
        let _ = writeln!(
            text,
            "\n# An account at another server, where this one registers. The password goes into a file of its own.\n# [[trunk]]\n# name = \"…\"\n\
             # uri = \"sip:{}\"\n# username = \"{user}\"\n# password_file = \"…\"\n\
             # register = true",
            server.trim_start_matches("sip:"),
        );
    }
    text
}

fn auth(text: &mut String, settings: &Settings, (taken, realm): (&Taken<'_>, Option<&str>)) {
    let mut lines = String::new();
    if let Some(realm) = realm {
        let _ = writeln!(lines, "realm = \"{realm}\"  # that of the passwords that were taken over");
    }
    if taken.md5_only() > 0 {
        lines.push_str("algorithms = [\"MD5\"]\n");
    }
    if !settings.addresses.is_empty() {
        lines.push_str(
            "# What the script did with these networks is for you to say: proxies whose word is taken belong into `trusted`,\n\
             # gateways into `networks` of a [[trunk]].\n",
        );
    }
    for network in &settings.addresses {
        let remark = printable(&network.remark);
        let _ = writeln!(lines, "# trusted = [\"{}/{}\"]  # {remark}", network.address, network.prefix);
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n[auth]\n{lines}");
    }
    for (domain, realm) in taken.foreign_realms() {
        let _ = writeln!(text, "\n[[auth.domain]]\nname = \"{domain}\"\nrealm = \"{realm}\"");
    }
}

//! `ringway user`: subscribers, permanent contacts and forwards.

use crate::args::{ForwardArgs, NameArgs, PasswordArgs, UserArgs, UserCommand};
use crate::config::Config;
use crate::database::{Database, Users, Wanted};
use crate::failure::Failure;
use crate::output::{self, printable};
use crate::password::WeakPasswords;
use crate::serve::users;
use crate::{backup, password};
use indicatif::{ProgressBar, ProgressStyle};
use ringway_store::{
    Backups, Condition, ForwardUri, Forwards, Imported, NoAnswer, Restoration, Store, StoreError, UserName,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time after which an import shows its progress.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);

/// Rows between two steps of the progress.
const PROGRESS_ROWS: u64 = 1000;

pub(crate) fn run(args: UserArgs) -> Result<(), Failure> {
    let config = Config::load(args.config.as_deref())?;
    let wanted = if needs_users(&args.command) { Wanted::Existing } else { Wanted::Any };
    let outside = "users exist only inside the running server and cannot be changed from here";
    if changes_passwords(&args.command) {
        Users::check_passwords_are_ours(&config)?;
    }
    let users = Users::open(&config, wanted, outside)?;
    let command = Command { users, config, is_json: args.json };
    command.execute(args.command)?;
    command.users.note_if_new();
    Ok(())
}

/// True for a command that shows or changes existing users.
fn needs_users(command: &UserCommand) -> bool {
    match command {
        UserCommand::Add(_) | UserCommand::Import { .. } | UserCommand::Bind { .. } => false,
        UserCommand::List
        | UserCommand::Passwd(_)
        | UserCommand::Remove(_)
        | UserCommand::Forward(_)
        | UserCommand::Unbind { .. } => true,
    }
}

/// True for a command that adds or removes users, or changes a password.
fn changes_passwords(command: &UserCommand) -> bool {
    match command {
        UserCommand::Add(_)
        | UserCommand::Import { .. }
        | UserCommand::Passwd(_)
        | UserCommand::Remove(_) => true,
        UserCommand::Bind { .. }
        | UserCommand::List
        | UserCommand::Forward(_)
        | UserCommand::Unbind { .. } => false,
    }
}

struct Command {
    users: Users,
    config: Config,
    is_json: bool,
}

impl Command {
    fn execute(&self, command: UserCommand) -> Result<(), Failure> {
        match command {
            UserCommand::Add(password) => self.add(&password),
            UserCommand::Import { file, replace: false, .. } => self.import(&file),
            UserCommand::Import { file, replace: true, dry_run } => {
                self.replace(&file, if dry_run { Restoration::DryRun } else { Restoration::Apply })
            }
            UserCommand::List => self.list(),
            UserCommand::Passwd(password) => self.passwd(&password),
            UserCommand::Remove(name) => self.remove(&name),
            UserCommand::Forward(args) => self.forward(&args),
            UserCommand::Bind { user, contact } => self.bind(&user, &contact),
            UserCommand::Unbind { user, contact } => self.unbind(&user, contact.as_deref()),
        }
    }

    fn add(&self, args: &PasswordArgs) -> Result<(), Failure> {
        let user = self.name(&args.user)?;
        let (password, is_generated) = password(args, &user)?;
        self.users.edit(&user, |store| Ok(store.add(&user, self.realm_of(user.domain()), &password)?))?;
        self.warn_of_foreign_domain(user.domain());
        self.print_password(&user, "added", is_generated.then_some(&password))
    }

    fn passwd(&self, args: &PasswordArgs) -> Result<(), Failure> {
        let user = self.name(&args.user)?;
        let (password, is_generated) = password(args, &user)?;
        self.users
            .edit(&user, |store| Ok(store.passwd(&user, self.realm_of(user.domain()), &password)?))?;
        self.warn_of_foreign_domain(user.domain());
        self.print_password(&user, "changed", is_generated.then_some(&password))
    }

    fn import(&self, file: &Path) -> Result<(), Failure> {
        let Imported { users, .. } = self.users.edit_all(|store| self.read_list(store, file))?;
        let noun = if users == 1 { "user" } else { "users" };
        self.print(&format!("{users} {noun} imported"), &json!({"imported": users}))
    }

    /// Makes the users those of a list.
    fn replace(&self, file: &Path, restoration: Restoration) -> Result<(), Failure> {
        let (_folder, list) = Database::temporary()?;
        if self.read_list(&list, file)?.users == 0 {
            let file = file.display();
            return Err(Failure::failed(format!("{file}: the list has no users; nothing was changed")));
        }
        let replaced =
            self.users.edit_all(|store| Ok(Backups::of(store).replace_subscribers(&list, restoration)?))?;
        backup::print(&replaced, restoration, "replaced", self.is_json)
    }

    /// Adds the users of a list to a store.
    fn read_list(&self, store: &Store, file: &Path) -> Result<Imported, Failure> {
        let begun = Instant::now();
        let (mut bar, mut rows, mut passwords) = (None, 0_u64, WeakPasswords::default());
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let domain = self.domain();
        let imported = store.import(
            file,
            domain,
            |domain| self.realm_of(domain),
            |row| {
                passwords.note(row.user.name(), row.password);
                rows += 1;
                if rows.is_multiple_of(PROGRESS_ROWS) && begun.elapsed() > PROGRESS_AFTER {
                    bar.get_or_insert_with(|| progress(bytes)).set_position(row.byte);
                }
            },
        );
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        let imported = imported?;
        if let Some(warning) = passwords.warning(rows) {
            eprintln!("ringway: warning: {}: {warning}", file.display());
        }
        for domain in &imported.domains {
            self.warn_of_foreign_domain(domain);
        }
        Ok(imported)
    }

    fn list(&self) -> Result<(), Failure> {
        self.users.edit_all(|store| self.list_store(store))
    }

    fn list_store(&self, store: &Store) -> Result<(), Failure> {
        let mut forwards = HashMap::new();
        store.load_forwards(|name, domain, of_user| {
            forwards.insert(format!("{name}@{domain}"), of_user);
        })?;
        let mut out = output::buffered();
        let mut total = 0u64;
        let mut written = if self.is_json {
            write!(out, "{{\"users\":[")
        } else {
            writeln!(out, "{:<32} {:<24} PERMANENT CONTACTS, FORWARDS", "USER", "REALM")
        };
        store.list(|name, domain, realm, contacts| {
            if written.is_err() {
                return false;
            }
            let contacts: Vec<_> = contacts.unwrap_or_default().lines().collect();
            let user = format!("{name}@{domain}");
            let forwards = forwards.remove(&user).unwrap_or_default();
            written = if self.is_json {
                let comma = if total == 0 { "" } else { "," };
                let forwards = users::shown(&forwards);
                let user = json!({
                    "name": name, "domain": domain, "realm": realm, "contacts": contacts, "forwards": forwards,
                });
                write!(out, "{comma}{user}")
            } else {
                let (user, realm) = (printable(&user), printable(realm.unwrap_or("(no password)")));
                let lines = forwards.targets().map(|(condition, target)| line_of(&forwards, condition, target));
                let contacts = Some(contacts.join(" ")).filter(|contacts| !contacts.is_empty());
                let listed = printable(&contacts.into_iter().chain(lines).collect::<Vec<_>>().join("; "));
                writeln!(out, "{}", format!("{user:<32} {realm:<24} {listed}").trim_end())
            };
            total += 1;
            true
        })?;
        written?;
        if self.is_json {
            writeln!(out, "],\"total\":{total}}}")?;
        }
        Ok(out.flush()?)
    }

    fn remove(&self, args: &NameArgs) -> Result<(), Failure> {
        let user = self.name(args)?;
        self.users.edit(&user, |store| Ok(store.remove(&user)?))?;
        self.print(&format!("{user} removed"), &json!({"user": user.to_string(), "result": "removed"}))
    }

    fn bind(&self, args: &NameArgs, contact: &str) -> Result<(), Failure> {
        let user = self.name(args)?;
        if !ringway_sip::Uri::parse(contact.as_bytes())
            .is_ok_and(|uri| uri.scheme() == ringway_sip::Scheme::Sip)
        {
            return Err(Failure::usage(format!(
                "{contact:?} is not a SIP URI; write for example sip:bob@192.0.2.7:5060"
            )));
        }
        let (is_new, is_subscriber) =
            self.users.edit(&user, |store| Ok((store.bind(&user, contact)?, store.is_subscriber(&user)?)))?;
        self.warn_of_foreign_domain(user.domain());
        if !is_subscriber {
            eprintln!("ringway: note: {user} has no password and cannot register; `user add` gives it one");
        }
        let result = if is_new { "bound" } else { "was bound already" };
        let value = json!({"user": user.to_string(), "contact": contact, "result": result});
        self.print(&format!("{user} {result} to {contact}"), &value)
    }

    fn unbind(&self, args: &NameArgs, contact: Option<&str>) -> Result<(), Failure> {
        let user = self.name(args)?;
        let removed = self.users.edit(&user, |store| Ok(store.unbind(&user, contact)?))?;
        let contacts = if removed == 1 { "contact" } else { "contacts" };
        let value = json!({"user": user.to_string(), "result": "unbound", "contacts": removed});
        self.print(&format!("{removed} permanent {contacts} removed from {user}"), &value)
    }

    fn forward(&self, args: &ForwardArgs) -> Result<(), Failure> {
        let user = self.name(&args.user)?;
        let new = self.users.edit(&user, |store| {
            let new = changed(&store.forwards(&user)?, args)?;
            if is_change(args) {
                store.set_forwards(&user, &new)?;
            } else if new.is_empty() && !store.exists(&user)? {
                return Err(StoreError::NoSuchUser(user.to_string()).into());
            }
            Ok(new)
        })?;
        let value = json!({"user": user.to_string(), "forwards": users::shown(&new)});
        let mut lines: Vec<String> =
            new.targets().map(|(condition, target)| line_of(&new, condition, target)).collect();
        if lines.is_empty() {
            lines.push(format!("{user} forwards no call"));
        }
        self.print(&lines.join("\n"), &value)
    }

    /// Parses `NAME`, `NAME@DOMAIN` or `sip:NAME@DOMAIN`.
    fn name(&self, args: &NameArgs) -> Result<UserName, Failure> {
        let given = args.name.strip_prefix("sip:").unwrap_or(&args.name);
        let (name, own) = match given.rsplit_once('@') {
            Some((name, domain)) => (name, Some(domain)),
            None => (given, None),
        };
        if let (Some(own), Some(domain)) = (own, &args.domain)
            && !own.eq_ignore_ascii_case(domain)
        {
            return Err(Failure::usage(format!("{given}: --domain {domain} differs; give the domain once")));
        }
        let domain = own.or(args.domain.as_deref()).unwrap_or(self.domain());
        Ok(UserName::new(name, domain).map_err(StoreError::from)?)
    }

    /// Default domain of user names.
    fn domain(&self) -> &str {
        self.config.server.domains.first().map_or("localhost", String::as_str)
    }

    fn realm_of(&self, domain: &str) -> &str {
        self.config.server.auth.realms.of(domain.as_bytes())
    }

    fn warn_of_foreign_domain(&self, domain: &str) {
        if !self.config.server.domains.iter().any(|own| own.eq_ignore_ascii_case(domain)) {
            let source = self.config.source();
            eprintln!(
                "ringway: note: {domain} is not among the domains of {source}; add it there to serve its users"
            );
        }
    }

    fn print_password(&self, user: &UserName, done: &str, generated: Option<&String>) -> Result<(), Failure> {
        let mut value = json!({"user": user.to_string(), "result": done});
        let text = match generated {
            Some(password) => {
                if let Value::Object(object) = &mut value {
                    object.insert("password".to_owned(), json!(password));
                }
                format!("{user} {done}; the password, shown only this once: {password}")
            }
            None => format!("{user} {done}"),
        };
        self.print(&text, &value)
    }

    fn print(&self, text: &str, value: &Value) -> Result<(), Failure> {
        if self.is_json { Ok(output::line(&value.to_string())?) } else { Ok(output::line(text)?) }
    }
}

/// True if the arguments change a forward.
fn is_change(args: &ForwardArgs) -> bool {
    let ForwardArgs { user: _, always, busy, no_answer, unregistered, off } = args;
    *off || always.is_some() || busy.is_some() || no_answer.is_some() || unregistered.is_some()
}

/// Forwards after a change.
fn changed(old: &Forwards, args: &ForwardArgs) -> Result<Forwards, Failure> {
    let old = if args.off { Forwards::default() } else { old.clone() };
    let target = |old: Option<ForwardUri>, given: &Option<String>| match given.as_deref() {
        None => Ok(old),
        Some("off") => Ok(None),
        Some(uri) => ForwardUri::new(uri).map(Some).map_err(StoreError::from),
    };
    let no_answer = match args.no_answer.as_deref() {
        None => old.no_answer,
        Some([off]) if off == "off" => None,
        Some([seconds, uri]) => {
            let after_s = seconds.parse().map_err(|_| {
                Failure::usage(format!(
                    "--no-answer {seconds}: not a number of seconds; write for example --no-answer 20 {uri}"
                ))
            })?;
            let to = ForwardUri::new(uri).map_err(StoreError::from)?;
            Some(NoAnswer::new(after_s, to).map_err(StoreError::from)?)
        }
        Some(_) => {
            return Err(Failure::usage(
                "--no-answer needs SECONDS and URI, or off; write for example --no-answer 20 sip:carol@example.org",
            ));
        }
    };
    Ok(Forwards {
        always: target(old.always, &args.always)?,
        busy: target(old.busy, &args.busy)?,
        no_answer,
        unregistered: target(old.unregistered, &args.unregistered)?,
    })
}

/// Line of a forward in the listing.
fn line_of(forwards: &Forwards, condition: Condition, target: &ForwardUri) -> String {
    let name = condition.name();
    match (condition, &forwards.no_answer) {
        (Condition::NoAnswer, Some(no_answer)) => format!("{name} after {} s: {target}", no_answer.after_s()),
        (Condition::Always | Condition::Busy | Condition::NoAnswer | Condition::Unregistered, _) => {
            format!("{name}: {target}")
        }
    }
}

/// Returns the password, and true if it was generated.
fn password(args: &PasswordArgs, user: &UserName) -> Result<(String, bool), Failure> {
    if !args.password_stdin {
        return Ok((password::generated()?, true));
    }
    let password = password::from_stdin()?;
    if !args.danger_weak
        && let Some(weakness) = password::weakness_of(&password, &[user.name(), user.domain()])
    {
        // Scripts of the versions without this check go on.
        match io::stdin().is_terminal() {
            true => return Err(Failure::usage(weakness)),
            false => eprintln!("ringway: warning: {weakness}"),
        }
    }
    Ok((password, false))
}

fn progress(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta} left") {
        bar.set_style(style);
    }
    bar
}

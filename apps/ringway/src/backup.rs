//! `ringway backup` and `ringway restore`: users, permanent contacts, forwards and block lists.

use crate::args::{BackupArgs, RestoreArgs};
use crate::config::Config;
use crate::database::{Database, Users, Wanted};
use crate::failure::Failure;
use crate::output;
use ringway_store::{Backups, Restoration, Restored};
use serde_json::json;

const OUTSIDE: &str = "its users exist only inside the running server";

/// Writes a backup.
pub(crate) fn backup(args: &BackupArgs) -> Result<(), Failure> {
    let config = Config::load(args.config.as_deref())?;
    let database = Database::open(&config, Wanted::Existing, OUTSIDE)?;
    Backups::of(&database.store).write(&args.file)?;
    let bytes = args.file.metadata().map_or(0, |metadata| metadata.len());
    let file = args.file.display().to_string();
    match args.json {
        true => output::line(&json!({ "ok": true, "file": file, "bytes": bytes }).to_string())?,
        false => output::line(&format!(
            "{file}: {bytes} bytes; it has what is equivalent to passwords, keep it secret"
        ))?,
    }
    Ok(())
}

/// Makes the data that of a backup, or says what that would change.
pub(crate) fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    let config = Config::load(args.config.as_deref())?;
    Users::check_passwords_are_ours(&config)?;
    let users = Users::open(&config, Wanted::Any, OUTSIDE)?;
    let restoration = if args.dry_run { Restoration::DryRun } else { Restoration::Apply };
    let restored = users.edit_all(|store| Ok(Backups::of(store).restore(&args.file, restoration)?))?;
    let restored = match &users {
        Users::File(_) => restored,
        // They belong to each node.
        Users::Server(_) => Restored { blocks: 0, ..restored },
    };
    print(&restored, restoration, "restored", args.json)?;
    users.note_if_new();
    Ok(())
}

/// Prints a difference: what was done, or what would be.
pub(crate) fn print(
    restored: &Restored,
    restoration: Restoration,
    done: &str,
    is_json: bool,
) -> Result<(), Failure> {
    let Restored { added, removed, changed, contacts, forwards, blocks } = restored;
    let is_done = restoration == Restoration::Apply;
    if is_json {
        let object = json!({
            "ok": true,
            "applied": is_done,
            "users": { "added": added, "removed": removed, "changed": changed },
            "contacts": contacts,
            "forwards": forwards,
            "blocks": blocks,
        });
        output::line(&object.to_string())?;
    } else {
        let done = if is_done { done } else { "it would change" };
        output::line(&format!(
            "{done}: users: {added} added, {removed} removed, {changed} with another password; users with other contacts: {contacts}, \
             with other forwards: {forwards}; block lists: {blocks}"
        ))?;
    }
    Ok(())
}

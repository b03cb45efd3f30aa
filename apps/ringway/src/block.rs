//! `ringway block`: callers and networks that may not call.

use crate::args::{BlockArgs, BlockCommand, BlockPatternArgs};
use crate::config::Config;
use crate::database::{Database, Wanted};
use crate::failure::Failure;
use crate::output::{self, printable};
use crate::serve::changes::{now_s, pattern};
use crate::serve::control::shown;
use ringway_admin::Block;
use ringway_store::{BlockKind, BlockLists, NewBlockRow, Store, StoreError, UserName};
use serde_json::json;
use std::io::Write;

pub(crate) fn run(args: &BlockArgs) -> Result<(), Failure> {
    let config = Config::load(args.config.as_deref())?;
    let wanted = match args.command {
        BlockCommand::Add { .. } => Wanted::Any,
        BlockCommand::Remove { .. } | BlockCommand::List { .. } => Wanted::Existing,
    };
    let outside =
        "the lists exist only inside the running server; change them by its admin API (/api/blocks)";
    let database = Database::open(&config, wanted, outside)?;
    run_on(args, &database.store, &config)?;
    database.note_if_new();
    Ok(())
}

fn run_on(args: &BlockArgs, store: &Store, config: &Config) -> Result<(), Failure> {
    let domain = config.server.domains.first().map_or("", String::as_str);
    match &args.command {
        BlockCommand::Add { entry, reason, hours } => {
            let (user, kind, text) = read(entry, domain)?;
            let expires_s = hours.map(|hours| now_s() + u64::from(hours) * 3600);
            let (user, pattern, reason) = (user.as_ref(), &*text, reason.as_str());
            let id = BlockLists::of(store).add(&NewBlockRow { user, kind, pattern, reason, expires_s })?;
            let of = user.map_or("all users".to_owned(), ToString::to_string);
            let line = format!("{} blocked for {of}", printable(&text));
            print(args, &line, &json!({ "id": id, "pattern": text, "user": user.map(ToString::to_string) }))
        }
        BlockCommand::Remove { entry, id } => {
            let (is_removed, what) = match id {
                Some(id) => (BlockLists::of(store).remove(*id)?, format!("entry {id}")),
                None => {
                    let (user, kind, text) = read(entry, domain)?;
                    (BlockLists::of(store).remove_pattern(user.as_ref(), kind, &text)?, printable(&text))
                }
            };
            if !is_removed {
                let line = format!("{what} is not in this list; `ringway block list` shows all entries");
                return Err(Failure::failed(line));
            }
            print(args, &format!("{what} removed"), &json!({ "removed": what }))
        }
        BlockCommand::List { user } => {
            let user = user.as_deref().map(|user| self::user(user, domain)).transpose()?;
            list(store, user.as_ref(), args.json)
        }
    }
}

/// User, kind and canonical pattern of an entry.
fn read(entry: &BlockPatternArgs, domain: &str) -> Result<(Option<UserName>, BlockKind, String), Failure> {
    let (kind, text) = match (&entry.caller, &entry.network) {
        (Some(caller), None) => (BlockKind::Caller, caller),
        (None, Some(network)) => (BlockKind::Network, network),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Failure::usage(
                "give --caller or --network, one of them, or to remove an entry its --id",
            ));
        }
    };
    let pattern = pattern(kind, text)
        .map_err(|why| Failure::usage(format!("{:?} {why}", text.chars().take(80).collect::<String>())))?;
    let user = entry.user.as_deref().map(|user| self::user(user, domain)).transpose()?;
    Ok((user, kind, pattern.to_string()))
}

/// `name` or `name@domain`.
fn user(text: &str, domain: &str) -> Result<UserName, Failure> {
    let (name, domain) = text.rsplit_once('@').unwrap_or((text, domain));
    UserName::new(name, domain).map_err(|error| StoreError::from(error).into())
}

fn list(store: &Store, user: Option<&UserName>, is_json: bool) -> Result<(), Failure> {
    let (mut out, now) = (output::buffered(), now_s());
    let user = user.map(ToString::to_string);
    let mut rows: Vec<Block> = Vec::new();
    BlockLists::of(store).list(0, usize::MAX >> 1, |row| {
        let row = shown(row, now);
        if user.is_none() || row.user == user {
            rows.push(row);
        }
    })?;
    if is_json {
        writeln!(out, "{}", json!({ "blocks": rows, "total": rows.len() }))?;
        return Ok(out.flush()?);
    }
    for Block { id, kind, pattern, user, reason, expires_s } in &rows {
        let of = user.as_deref().unwrap_or("all users");
        let end = expires_s.map(|left| format!(", {} h left", left.div_ceil(3600))).unwrap_or_default();
        let reason = if reason.is_empty() { String::new() } else { format!(", {reason}") };
        writeln!(out, "{}", printable(&format!("{id}: {kind} {pattern} for {of}{end}{reason}")))?;
    }
    let entries = if rows.len() == 1 { "entry" } else { "entries" };
    writeln!(out, "{} {entries}", rows.len())?;
    Ok(out.flush()?)
}

fn print(args: &BlockArgs, line: &str, object: &serde_json::Value) -> Result<(), Failure> {
    match args.json {
        true => output::line(&object.to_string())?,
        false => output::line(line)?,
    }
    Ok(())
}

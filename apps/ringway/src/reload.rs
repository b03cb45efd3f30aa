//! `ringway reload`, and what it would change: `ringway check --against-running`. `ringway drain`: phones leave the running
//! server, calls go on.

use crate::admin_client::AdminClient;
use crate::args::{DrainArgs, ReloadArgs};
use crate::config::Keys;
use crate::failure::Failure;
use crate::output::{self, printable};
use serde_json::{Map, Value, json};
use std::io::Write;

/// Reloads the running server, and prints what that changed.
pub(crate) fn run(args: &ReloadArgs) -> Result<(), Failure> {
    let server = AdminClient::of(&args.server)?;
    let path = if args.dry_run { "/api/reload?dry_run=true" } else { "/api/reload" };
    let report = report(&server, path, "")?;
    if args.json {
        output::line(&report.to_string())?;
    } else {
        let done = if args.dry_run { "a reload would change" } else { "changed" };
        print(&report, done)?;
    }
    refusal(&report)
}

/// Asks the running server what a reload of a file with these keys would change. It opens nothing that they name.
pub(crate) fn compare(server: &AdminClient, keys: &Keys) -> Result<Value, Failure> {
    let keys: Map<String, Value> = keys.values().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    report(server, "/api/reload?dry_run=true", &Value::Object(keys).to_string())
}

/// Prints a report for people; its errors are printed by [`refusal`].
pub(crate) fn print(report: &Value, done: &str) -> Result<(), Failure> {
    let mut out = output::buffered();
    let mut count = 0;
    for change in report.get("changes").and_then(Value::as_array).into_iter().flatten() {
        let text = change.get("text").and_then(Value::as_str).unwrap_or_default();
        writeln!(out, "{}", printable(text))?;
        count += 1;
    }
    let left_out = report.get("changes_left_out").and_then(Value::as_u64).unwrap_or_default();
    if left_out > 0 {
        writeln!(out, "and {left_out} more")?;
        count += left_out;
    }
    for warning in report.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        writeln!(out, "warning: {}", printable(warning.as_str().unwrap_or_default()))?;
    }
    if is_ok(report) {
        let keys = if count == 1 { "key" } else { "keys" };
        writeln!(out, "{done} {count} {keys}")?;
    }
    Ok(out.flush()?)
}

/// The failure of a refused reload.
pub(crate) fn refusal(report: &Value) -> Result<(), Failure> {
    if is_ok(report) {
        return Ok(());
    }
    let errors = report.get("errors").and_then(Value::as_array).into_iter().flatten();
    let lines: Vec<&str> = errors.filter_map(Value::as_str).collect();
    for line in &lines {
        eprintln!("ringway: {}", printable(line));
    }
    Err(if lines.is_empty() {
        Failure::failed("the reload was refused; see the server's log")
    } else {
        Failure::said()
    })
}

fn report(server: &AdminClient, path: &str, body: &str) -> Result<Value, Failure> {
    match server.post(path, body)? {
        (200 | 422, report) if report.get("changes").is_some() => Ok(report),
        (status, report) => {
            let why =
                report.get("error").and_then(Value::as_str).unwrap_or("no admin API of a ringway server");
            Err(Failure::failed(format!("{}: {status}: {}", server.address(), printable(why))))
        }
    }
}

fn is_ok(report: &Value) -> bool {
    report.get("ok").and_then(Value::as_bool) == Some(true)
}

/// Begins or cancels a drain, and prints what that does.
pub(crate) fn drain(args: &DrainArgs) -> Result<(), Failure> {
    let server = AdminClient::of(&args.server)?;
    let (status, answer) = match args.cancel {
        true => server.delete("/api/drain")?,
        false => server.post("/api/drain", &json!({ "over_s": args.over }).to_string())?,
    };
    if status != 200 {
        let why = answer.get("error").and_then(Value::as_str).unwrap_or("no admin API of a ringway server");
        return Err(Failure::failed(format!("{}: {status}: {}", server.address(), printable(why))));
    }
    if args.json {
        output::line(&answer.to_string())?;
    } else if args.cancel {
        output::line("drain cancelled: phones may register again")?;
    } else {
        output::line(&format!(
            "drain begun: phones leave within {} s, new requests get 503, calls go on",
            args.over
        ))?;
        output::line(
            "stop the server when its calls have ended; `ringway show calls` lists answered ones only with [records]",
        )?;
        output::line("`ringway drain --cancel` ends it")?;
    }
    Ok(())
}

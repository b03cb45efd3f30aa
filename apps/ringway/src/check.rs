//! `ringway check`: validates a configuration without starting the server.

use crate::admin_client::AdminClient;
use crate::args::CheckArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::output;
use crate::reload;
use ringway_store::Durability;
use serde_json::{Value, json};

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let text = Config::read(&args.file)?;
    let mut report = None;
    let (warnings, errors) = match Config::parse(&text, Some(&args.file)) {
        Ok(config) => {
            if args.against_running {
                report = Some(compared(args, &config)?);
            }
            // The server may run elsewhere, or as another user: that is no error of the configuration.
            let unusable = config.tls.load().err();
            let unusable =
                unusable.map(|why| format!("the server will not start with these files: [tls] {why}"));
            let warnings = config.warnings().into_iter().chain(unusable);
            (warnings.chain(of_location(&config)).chain(of_write_back(&config)).collect(), Vec::new())
        }
        Err(errors) => (Vec::new(), errors),
    };
    let file = args.file.display().to_string();
    if args.json {
        let errors: Vec<_> = errors
            .iter()
            .map(|error| json!({"line": error.line, "key": error.key, "message": error.message}))
            .collect();
        let mut result = json!({"file": file, "ok": errors.is_empty(), "errors": errors});
        if !warnings.is_empty() {
            result["warnings"] = json!(warnings);
        }
        if let Some(report) = &report {
            for key in ["changes", "restart"] {
                result[key] = report.get(key).cloned().unwrap_or_default();
            }
            result["reload"] = json!({ "ok": report.get("ok"), "errors": report.get("errors") });
        }
        output::line(&result.to_string())?;
    } else if errors.is_empty() {
        for warning in &warnings {
            eprintln!("ringway: warning: {file}: {warning}");
        }
        output::line(&format!("{file}: ok"))?;
        if let Some(report) = &report {
            reload::print(report, "a reload would change")?;
        }
    } else {
        for error in &errors {
            eprintln!("ringway: {error}");
        }
    }
    match errors.len() {
        0 => report.as_ref().map_or(Ok(()), reload::refusal),
        1 => Err(Failure::failed(format!("{file}: 1 error; correct it and check again"))),
        count => Err(Failure::failed(format!("{file}: {count} errors; correct them and check again"))),
    }
}

/// Warnings about the store that nodes share, which this connects to.
fn of_location(config: &Config) -> Vec<String> {
    let Some(location) = &config.location else { return Vec::new() };
    let is_strict = config.store.durability == Durability::Strict;
    match ringway_redis::probe(&location.url) {
        Ok(report) => {
            report.warnings(is_strict).into_iter().map(|warning| format!("[location] {warning}")).collect()
        }
        // Only its nodes need to reach it: that is no error of the configuration.
        Err(error) => vec![format!(
            "the store {} cannot be reached: {error}; the server starts all the same",
            location.url.shown()
        )],
    }
}

/// Warning about the table of registrations in the database, which this connects to.
fn of_write_back(config: &Config) -> Option<String> {
    let url = config.store.database.as_ref().filter(|_| config.store.write_back)?;
    let error = ringway_provisioning::check_location_table(url).err()?;
    Some(format!("[store] write_back: {}: {error}; the server starts all the same", url.shown()))
}

/// Asks the running server for the changes by a reload of this file.
fn compared(args: &CheckArgs, config: &Config) -> Result<Value, Failure> {
    let server = AdminClient::new(args.admin.unwrap_or(config.admin.listen), &config.admin.token)?;
    reload::compare(&server, &config.keys)
}

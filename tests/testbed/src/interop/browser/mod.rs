//! `cargo xtask interop browser`: phones in a browser (JsSIP in headless Chromium) over WebSocket.
//!
//! Two tabs call each other through the server, and a tab calls Ringway's phone and is called by it, with sound in both
//! directions. The certificates are made by `ringway cert init`; the browser trusts their authority and checks everything.

mod dashboard;
mod phone;
mod phones;

pub(super) use phones::Phones;

use std::process::Command;

use anyhow::{Context, Result};
use ringway_test_support::process::run_to_end;

use super::certificates::Certificate;
use super::server::{Server, Wanted};
use super::{Scenario, Stage};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = phone::tab_scenarios();
    all.extend(phone::scenarios());
    all.extend(dashboard::scenarios());
    for scenario in &mut all {
        scenario.reference = false;
    }
    all
}

/// A server with digest, the users alice and bob, and listeners for TLS, `ws` and `wss`. `lines` are those of
/// `[websocket]`.
fn server(stage: &Stage, lines: &'static str) -> Result<Server> {
    server_with(stage, Wanted { websocket: Some(lines), ..Wanted::default() })
}

/// Same with other settings.
pub(super) fn server_with(stage: &Stage, wanted: Wanted) -> Result<Server> {
    make_certificates(stage)?;
    let users = ["alice", "bob"].map(|name| (name.to_owned(), password(name)));
    Server::start(stage, Wanted { tls: Some(""), ..wanted }, &users)
}

fn password(user: &str) -> String {
    format!("secret-{user}")
}

/// Makes an authority and a certificate for the server, with `ringway cert init`, under the names of a scenario.
fn make_certificates(stage: &Stage) -> Result<()> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.args(["cert", "init", "--domain", "localhost", "--address", "127.0.0.1", "--out", "."]);
    run_to_end(command.current_dir(&stage.folder), "")?;
    let name = Certificate::SERVER.name;
    std::fs::rename(stage.path("cert.pem"), stage.path(&format!("{name}.pem")))?;
    std::fs::rename(stage.path("key.pem"), stage.path(&format!("{name}-key.pem")))?;
    Ok(())
}

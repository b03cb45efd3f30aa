//! The dashboard in a browser: `tests/interop/browser/dashboard.mjs` logs in, changes the server by it, and looks at it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::super::process::Running;
use super::super::server::{Server, Wanted};
use super::super::{Scenario, Stage};
use super::phones::installed;
use crate::workspace::root;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("browser/dashboard", dashboard).beside_others()]
}

/// 10,000 users, most of them registered, and a server without any beside it.
fn dashboard(stage: &Stage) -> Result<()> {
    let users: Vec<(String, String)> =
        (0..USERS).map(|number| (format!("user{number:05}"), format!("secret-{number}"))).collect();
    let wanted = Wanted { digest: false, admin_token: TOKEN, ..Wanted::default() };
    let mut server = Server::start(stage, wanted, &users)?;
    let mut aside = stage.clone();
    aside.folder = stage.path("empty");
    std::fs::create_dir(&aside.folder)?;
    let mut empty = Server::start(&aside, Wanted { admin_token: TOKEN, ..Wanted::default() }, &[])?;

    let modules = installed(&stage.data.join("browser"))?;
    let settings = json!({
        "url": server.admin_url()?,
        "token": TOKEN,
        "sip": server.port,
        "config": server.config(),
        "users": USERS,
        "empty": empty.admin_url()?,
        "pictures": pictures()?,
        "browser": "/usr/bin/chromium",
    });
    let mut command = Command::new("node");
    command.arg(modules.join("dashboard.mjs")).arg(settings.to_string()).env("HOME", &stage.folder);
    let mut running = Running::start("browser", &mut command, &stage.folder)?;
    let status = running.wait_for(PATIENCE)?;
    let output = running.output();
    stage.keep_text(&output, "browser.log")?;
    if !status.success() || !output.contains("passed\n") {
        bail!("{}", output.trim());
    }
    Ok(())
}

/// Folder for screenshots: that of the documents, if the variable PICTURES is set.
fn pictures() -> Result<PathBuf> {
    if std::env::var_os("PICTURES").is_none() {
        return Ok(PathBuf::new());
    }
    let folder = root().join("docs/pictures");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

const USERS: usize = 10_000;
const TOKEN: &str = "token-of-the-dashboard";

/// Screenshots of plots take two minutes more.
const PATIENCE: Duration = Duration::from_secs(420);

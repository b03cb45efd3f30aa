//! The dashboard in a browser: `tests/interop/browser/dashboard.mjs` logs in, changes the server by it, and looks at it.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use xtask::workspace::root;

use super::super::server::{Server, Wanted};
use super::super::{Scenario, Stage};
use super::phones::installed;
use crate::process::{PATIENCE as ANSWER_WITHIN, Process};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("browser/dashboard", dashboard), Scenario::new("browser/dashboard-load", load)]
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

    let settings = json!({
        "url": server.admin_url()?,
        "token": TOKEN,
        "sip": server.port,
        "config": server.config(),
        "users": USERS,
        "empty": empty.admin_url()?,
        "ladder": root().join("testdata/trace/ladder"),
        "pictures": pictures()?,
        "browser": "/usr/bin/chromium",
    });
    let running = browse(stage, &settings)?;
    let status = running.wait_for(PATIENCE)?;
    let output = running.output();
    stage.keep_text(&output, "browser.log")?;
    if !status.success() || !output.contains("passed\n") {
        bail!("{}", output.trim());
    }
    Ok(())
}

/// The open overview costs the server with 100,000 registrations less than 1 % of a core, and is painted within a second.
/// The figure is the median of the CPU time of all threads over [`WINDOWS`] windows, minus that of before.
fn load(stage: &Stage) -> Result<()> {
    let wanted = Wanted { digest: false, admin_token: TOKEN, ..Wanted::default() };
    let mut server = Server::start(stage, wanted, &[])?;
    register_many(server.port)?;
    let idle = median_percent(&server)?;
    let settings = json!({
        "url": server.admin_url()?,
        "token": TOKEN,
        "sip": server.port,
        "watch": 2 + WINDOWS as u64 * WINDOW.as_secs(),
        "browser": "/usr/bin/chromium",
    });
    let running = browse(stage, &settings)?;
    running.wait_for_output("watching\n")?;
    let open = median_percent(&server)?;
    let status = running.wait_for(ANSWER_WITHIN)?;
    let output = running.output();
    ensure!(status.success(), "{}", output.trim());
    let paint = output.lines().find_map(|line| line.strip_prefix("figure first_paint_ms ")).unwrap_or("?");
    let text = format!(
        "{MANY} registrations: {idle:.2} % of a core without the dashboard, {open:.2} % with it open; first paint after {paint} ms"
    );
    eprintln!("  {text}");
    stage.keep_text(&text, "dashboard-load")?;
    ensure!(open - idle < 1.0, "the open dashboard costs {:.2} % of a core", open - idle);
    Ok(())
}

fn median_percent(server: &Server) -> Result<f64> {
    let mut shares = Vec::new();
    for _ in 0..WINDOWS {
        let (before, begun) = (server.cpu_s()?, Instant::now());
        std::thread::sleep(WINDOW);
        shares.push(100.0 * (server.cpu_s()? - before) / begun.elapsed().as_secs_f64());
    }
    shares.sort_by(f64::total_cmp);
    shares.get(WINDOWS / 2).copied().context("no windows")
}

/// Registers [`MANY`] users over UDP, some at a time. Those that an overloaded server refuses try again later, as phones do.
fn register_many(port: u16) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    for first in (0..MANY).step_by(AT_ONCE) {
        let mut users: Vec<usize> = (first..first + AT_ONCE).collect();
        for try_number in 1..=TRIES {
            users = refused_of(&socket, &users, try_number)?;
            if users.is_empty() {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
        ensure!(users.is_empty(), "{} users were refused {TRIES} times", users.len());
    }
    Ok(())
}

/// Registers users at the same time; returns those that get 503.
fn refused_of(socket: &UdpSocket, users: &[usize], try_number: usize) -> Result<Vec<usize>> {
    let own = socket.local_addr()?;
    for user in users {
        let text = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{user}-{try_number}\r\nMax-Forwards: 70\r\n\
             From: <sip:u{user}@example.org>;tag=1\r\nTo: <sip:u{user}@example.org>\r\nCall-ID: {user}\r\n\
             CSeq: {try_number} REGISTER\r\nContact: <sip:u{user}@{own}>\r\nExpires: 3600\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send(text.as_bytes())?;
    }
    let (mut refused, mut answer) = (Vec::new(), [0; 2048]);
    for _ in users {
        let length = socket.recv(&mut answer).context("no answer to a REGISTER")?;
        let text = String::from_utf8_lossy(answer.get(..length).unwrap_or_default());
        if text.starts_with("SIP/2.0 200") {
            continue;
        }
        ensure!(text.starts_with("SIP/2.0 503"), "a REGISTER was refused: {text}");
        let call_id = text.lines().find_map(|line| line.strip_prefix("Call-ID: "));
        refused.push(call_id.context("no Call-ID")?.parse()?);
    }
    Ok(refused)
}

fn browse(stage: &Stage, settings: &Value) -> Result<Process> {
    let modules = installed(&stage.data.join("browser"))?;
    let mut command = Command::new("node");
    command.arg(modules.join("dashboard.mjs")).arg(settings.to_string()).env("HOME", &stage.folder);
    Process::start("browser", &mut command, &stage.folder)
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

/// Registrations while the dashboard's cost is measured, and those that are sent at a time.
const MANY: usize = 100_000;
const AT_ONCE: usize = 100;
const TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

const WINDOWS: usize = 7;
const WINDOW: Duration = Duration::from_secs(4);
const TOKEN: &str = "token-of-the-dashboard";

/// Screenshots of plots take two minutes more.
const PATIENCE: Duration = Duration::from_secs(420);

//! `cargo xtask interop --only operator/crash`: `kill -9` at each system call that changes the store, by strace: while users are added (SQLite),
//! and while phones register with strict durability (journal).
//!
//! What was acknowledged is there after the next start: the line that `user add` prints, the 200 to a REGISTER. Power failures, which lose
//! what was not synced, are in the tests of `services/journal` on a disk of their own.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ringway_test_support::process::run_to_end;

use super::{Scenario, Stage};
use crate::process::{PATIENCE, Process, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let own = |name: &'static str, play: fn(&Stage) -> Result<()>| Scenario {
        reference: false,
        ..Scenario::new(name, play)
    };
    vec![own("operator/crash/users", users), own("operator/crash/registrations", registrations)]
}

/// Program with a configuration in a folder of its own.
struct Site {
    folder: PathBuf,
    program: PathBuf,
}

impl Site {
    /// Makes the folder, with the files of an earlier one.
    fn copy_of(stage: &Stage, name: &str, earlier: Option<&Self>) -> Result<Self> {
        let folder = stage.path(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        if let Some(earlier) = earlier {
            for entry in fs::read_dir(&earlier.folder)? {
                let entry = entry?;
                fs::copy(entry.path(), folder.join(entry.file_name()))?;
            }
        }
        let program = stage.ringway.program().context("only a program has a store")?.to_path_buf();
        Ok(Self { folder, program })
    }

    fn command(&self, words: &[&str]) -> Command {
        self.with_words(Command::new(&self.program), words)
    }

    fn with_words(&self, mut command: Command, words: &[&str]) -> Command {
        command.args(words).args(["--config", "ringway.toml"]).current_dir(&self.folder);
        command
    }

    /// The same, killed when a thread makes its `number`-th call of a kind on these files, if it makes so many.
    fn killed(&self, words: &[&str], (call, number): Kill, files: &[&str]) -> Command {
        let mut command = Command::new("strace");
        command.args(["-f", "-q", "-o", "strace.txt", "-e"]).arg(format!("trace={call}"));
        command.arg("-e").arg(format!("inject={call}:signal=KILL:when={number}"));
        for file in files {
            command.arg("-P").arg(self.folder.join(file));
        }
        command.arg(&self.program);
        self.with_words(command, words)
    }

    /// Fails if SQLite finds damage.
    fn check_database(&self) -> Result<()> {
        let mut check = Command::new("sqlite3");
        check.arg(self.folder.join(STORE)).arg("PRAGMA integrity_check");
        let said = run_to_end(&mut check, "")?;
        ensure!(said.trim() == "ok", "the database is damaged: {said}");
        Ok(())
    }
}

/// Three users are added; the program is killed at each change of the database.
fn users(stage: &Stage) -> Result<()> {
    let mut earlier = Site::copy_of(stage, "site", None)?;
    fs::write(earlier.folder.join("ringway.toml"), format!("domains = [\"example.org\"]\n{}", store(stage)))?;
    let mut kills = Kills::default();
    for (index, name) in NAMES.into_iter().enumerate() {
        kills.at_each(|kill| add_user(stage, &earlier, index, kill))?;
        let site = Site::copy_of(stage, WORK, Some(&earlier))?;
        run_to_end(&mut site.command(&["user", "add", name]), "")?;
        earlier = Site::copy_of(stage, &format!("site-{name}"), Some(&site))?;
    }
    kills.check(&["pwrite64", "fsync", "ftruncate", "unlink", "openat"])
}

/// Adds a user in a copy of a site, and looks after the kill; false: there was none.
fn add_user(stage: &Stage, earlier: &Site, index: usize, kill: Kill) -> Result<bool> {
    let site = Site::copy_of(stage, WORK, Some(earlier))?;
    let files = [STORE, "store.db-wal", "store.db-shm", "store.db-journal"];
    let name = NAMES[index];
    let Output { status, stdout, stderr } = site.killed(&["user", "add", name], kill, &files).output()?;
    let is_added = String::from_utf8_lossy(&stdout).contains("added");
    let is_killed = status.signal().is_some() || status.code() == Some(128 + 9);
    ensure!(is_killed || status.success(), "{}", String::from_utf8_lossy(&stderr));
    if index == 0 && !is_added && !site.folder.join(STORE).exists() {
        return Ok(is_killed);
    }
    let listed = run_to_end(&mut site.command(&["user", "list"]), "")?;
    let is_there = |name: &str| listed.contains(&format!("{name}@example.org"));
    ensure!(NAMES.iter().take(index).all(|name| is_there(name)), "an earlier user is lost: {listed}");
    ensure!(is_there(name) || !is_added, "{name} is lost: {listed}");
    site.check_database()?;
    Ok(is_killed)
}

/// Phones register with strict durability; the server is killed at each change of the journal: of one that it makes, and of one that is there.
fn registrations(stage: &Stage) -> Result<()> {
    let site = Site::copy_of(stage, WORK, None)?;
    let port = free_port()?;
    let config = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:{port}\"]\n{}durability = \"strict\"\n\
         [auth]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{}\"\n",
        store(stage),
        free_port()?
    );
    fs::write(site.folder.join("ringway.toml"), config)?;
    run_to_end(&mut site.command(&["user", "add", "alice"]), "")?;
    let unused = Site::copy_of(stage, "unused", Some(&site))?;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let first = Process::start("first", &mut site.command(&["serve"]), &site.folder)?;
    first.wait_for_output("ready ")?;
    ensure!(register(server, CONTACTS + 1)?, "the server does not register a phone");
    first.kill();
    let used = Site::copy_of(stage, "used", Some(&site))?;
    let mut kills = Kills::default();
    for (site, before) in [(&unused, None), (&used, Some(CONTACTS + 1))] {
        kills.at_each(|kill| register_all(stage, (site, before), server, kill))?;
    }
    kills.check(&["write", "fdatasync", "ftruncate", "openat"])
}

/// Registers contacts at a server in a copy of a site, and looks after the kill; false: there was none.
fn register_all(
    stage: &Stage,
    (earlier, before): (&Site, Option<u32>),
    server: SocketAddr,
    kill: Kill,
) -> Result<bool> {
    let site = Site::copy_of(stage, WORK, Some(earlier))?;
    let journal =
        ["store.db.bindings", "store.db.bindings.new", "store.db.bindings.1", "store.db.bindings.2"];
    let process = Process::start("killed", &mut site.killed(&["serve"], kill, &journal), &site.folder)?;
    let mut confirmed: Vec<u32> = before.into_iter().collect();
    let mut is_killed = process.wait_for_output("ready ").is_err();
    for contact in 1..=CONTACTS {
        if is_killed || !register(server, contact)? {
            is_killed = true;
            break;
        }
        confirmed.push(contact);
    }
    if is_killed {
        process.wait_for(PATIENCE).context("the server neither answers nor was it killed")?;
    }
    process.kill();
    let again = Process::start("again", &mut site.command(&["serve"]), &site.folder)?;
    again.wait_for_output("ready ")?;
    let shown = run_to_end(&mut site.command(&["show", "registrations"]), "")?;
    for contact in &confirmed {
        let is_there = shown.contains(&format!("alice@192.0.2.{contact}"));
        ensure!(is_there, "contact {contact} is lost: {shown}");
    }
    let warned = again.output();
    ensure!(!warned.contains("damaged"), "the start names damage: {warned}");
    again.kill();
    Ok(is_killed)
}

/// Number of kills by the kind of system call.
#[derive(Default)]
struct Kills(BTreeMap<&'static str, u32>);

impl Kills {
    /// Kills a program at each call of each kind. `play` returns false if it was not killed.
    fn at_each(&mut self, mut play: impl FnMut(Kill) -> Result<bool>) -> Result<()> {
        for call in CHANGES {
            let mut number = 1;
            while play((call, number)).with_context(|| format!("killed at {call} number {number}"))? {
                ensure!(number < CALLS_MAX, "the program does not end without a kill");
                *self.0.entry(call).or_default() += 1;
                number += 1;
            }
        }
        Ok(())
    }

    /// Fails if a kind of call that changes the store was not among them.
    fn check(&self, expected: &[&str]) -> Result<()> {
        let missing: Vec<_> = expected.iter().filter(|call| !self.0.contains_key(**call)).collect();
        ensure!(missing.is_empty(), "the program was never killed at {missing:?}: {:?}", self.0);
        println!("killed at {} system calls: {:?}", self.0.values().sum::<u32>(), self.0);
        Ok(())
    }
}

/// Section of a configuration. Its path is absolute, because strace compares paths as they are written.
fn store(stage: &Stage) -> String {
    format!("[store]\nurl = \"sqlite://{}\"\n", stage.path(WORK).join(STORE).display())
}

/// Registers a contact of alice; false: no 200 came.
fn register(server: SocketAddr, contact: u32) -> Result<bool> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(ANSWER_TIME))?;
    let own = socket.local_addr()?;
    let request = format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{contact};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag={contact}\r\nTo: <sip:alice@example.org>\r\nCall-ID: crash-{contact}\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:alice@192.0.2.{contact}>\r\nExpires: 3600\r\nContent-Length: 0\r\n\r\n"
    );
    let mut answer = [0; 4096];
    for _ in 0..2 {
        if socket.send_to(request.as_bytes(), server).is_err() {
            return Ok(false);
        }
        let Ok(length) = socket.recv(&mut answer) else { continue };
        let text = String::from_utf8_lossy(answer.get(..length).unwrap_or_default());
        match text.lines().next() {
            Some("SIP/2.0 200 OK") => return Ok(true),
            line => bail!("the server answers a REGISTER with {line:?}"),
        }
    }
    Ok(false)
}

/// A system call, and its number among those of its kind.
type Kill = (&'static str, u32);

/// Folder in which all programs run; the others are copies of it.
const WORK: &str = "work";
/// Database of the sites.
const STORE: &str = "store.db";
/// Users that are added.
const NAMES: [&str; 3] = ["alice", "bob", "carol"];
/// System calls that change a file or its name.
const CHANGES: [&str; 10] =
    ["write", "pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "unlink", "link", "linkat", "openat"];
/// Maximum number of system calls of a kind.
const CALLS_MAX: u32 = 400;
/// Time for an answer; what comes later is taken for none.
const ANSWER_TIME: Duration = Duration::from_millis(500);
/// Contacts that register.
const CONTACTS: u32 = 3;

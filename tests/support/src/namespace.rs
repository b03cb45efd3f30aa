//! Network namespaces, which are removed with everything in them when their values are dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::run_to_end;
use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace with its loopback interface.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates a namespace; `None`: this user may not.
    pub fn create(role: &str) -> Result<Option<Self>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_left_over();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{role}", std::process::id());
        let output = Command::new("ip").args(["netns", "add", &name]).output();
        let output = output.context("cannot start ip; is iproute2 installed?")?;
        if !output.status.success() {
            println!("    skipped, no network namespace: {}", String::from_utf8_lossy(&output.stderr).trim());
            return Ok(None);
        }
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(Some(namespace))
    }

    /// Creates a namespace with a bridge for others, at which it has this address; `None`: this user may not.
    pub fn with_bridge(role: &str, address: Ipv4Addr) -> Result<Option<Self>> {
        let Some(namespace) = Self::create(role)? else { return Ok(None) };
        namespace.ip(&format!("link add {BRIDGE} type bridge"))?;
        namespace.ip(&format!("link set {BRIDGE} up"))?;
        namespace.ip(&format!("addr add {address}/24 dev {BRIDGE}"))?;
        Ok(Some(namespace))
    }

    /// Gives it an interface with this name and address at the bridge of another namespace.
    pub fn join(&self, bridged: &Self, interface: &str, address: Ipv4Addr) -> Result<()> {
        let port = format!("port{}", address.octets()[3]);
        self.ip(&format!("link add {interface} type veth peer name {port} netns {}", bridged.name))?;
        bridged.ip(&format!("link set {port} master {BRIDGE} up"))?;
        self.ip(&format!("addr add {address}/24 dev {interface}"))?;
        self.ip(&format!("link set {interface} up"))
    }

    /// Its name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these words in the namespace.
    pub fn ip(&self, words: &str) -> Result<()> {
        self.run("ip", words)
    }

    /// Runs a program with these words in the namespace.
    pub fn run(&self, program: &str, words: &str) -> Result<()> {
        run_to_end(command(Some(&self.name), program).args(words.split(' ')), "").map(drop)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Command for a program in the namespace with this name.
pub fn command(namespace: Option<&str>, program: impl AsRef<OsStr>) -> Command {
    let Some(name) = namespace else { return Command::new(program) };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name]).arg(program);
    command
}

/// Calls `run` on a thread in the namespace with this name. What it opens stays there.
pub fn enter<R: Send>(namespace: Option<&str>, run: impl FnOnce() -> R + Send) -> Result<R> {
    let Some(name) = namespace else { return Ok(run()) };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into(name)?;
            Ok(run())
        });
        thread.join().map_err(|_| anyhow!("the thread in the namespace {name} failed"))?
    })
}

/// Moves this thread into the namespace with this name.
pub fn move_into(name: &str) -> Result<()> {
    let file = File::open(Path::new(FOLDER).join(name)).with_context(|| format!("no namespace {name}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter the namespace {name}"))
}

/// Removes the namespaces of earlier runs that were killed.
fn remove_left_over() {
    let Ok(entries) = fs::read_dir(FOLDER) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            remove(&name);
        }
    }
}

fn remove(name: &str) {
    // It fails only if somebody else has removed it.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

const PREFIX: &str = "ringway-";
/// Interface of a bridge.
const BRIDGE: &str = "bridge0";
/// Folder of the names that iproute2 gives.
const FOLDER: &str = "/run/netns";

//! Installation, upgrade and removal in a clean Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::workspace::{has_program, succeed};

/// A clean Debian in a folder.
pub(super) struct Chroot(PathBuf);

/// Installs, upgrades, removes and purges the package. `later` is the same with a later version.
pub(super) fn check(debian: &Chroot, package: &Path, later: &Path) -> Result<()> {
    debian.dpkg("--install", package)?;
    let installed = debian.run(&["ringway", "--version"])?;
    expect(&installed, "ringway ")?;
    for path in ["/usr/share/man/man1/ringway-serve.1.gz", "/lib/systemd/system/ringway.service"] {
        debian.run(&["test", "-s", path])?;
    }
    expect(&debian.run(&["stat", "-c", "%U:%G %a", "/etc/ringway/ringway.toml"])?, "root:ringway 640")?;
    for folder in ["/var/lib/ringway", "/var/log/ringway"] {
        expect(&debian.run(&["stat", "-c", "%U %a", folder])?, "ringway 750")?;
    }
    expect(&debian.run(&["ringway", "check", CONFIG])?, "")?;
    let add = ["runuser", "-u", "ringway", "--", "ringway", "user", "add", "alice", "--config", CONFIG];
    debian.run(&add)?;
    println!("installed: it starts, its configuration is valid, a user was added");

    let changed = fs::read_to_string(debian.at(CONFIG))?.replace("localhost", "example.org");
    fs::write(debian.at(CONFIG), &changed)?;
    debian.dpkg("--install", later)?;
    if fs::read_to_string(debian.at(CONFIG))? != changed {
        bail!("the upgrade replaced the changed configuration");
    }
    let users =
        debian.run(&["runuser", "-u", "ringway", "--", "ringway", "user", "list", "--config", CONFIG])?;
    expect(&users, "alice")?;
    println!("upgraded: the configuration and the user are still there");

    debian.run(&["dpkg", "--remove", "ringway"])?;
    if debian.at("/usr/bin/ringway").exists() || !debian.at("/var/lib/ringway/ringway.db").exists() {
        bail!("removal must take the program and leave the users");
    }
    debian.run(&["dpkg", "--purge", "ringway"])?;
    let left: Vec<&str> = LEFT.into_iter().filter(|path| debian.at(path).exists()).collect();
    if !left.is_empty() {
        bail!("purged, but there are: {}", left.join(", "));
    }
    println!("removed and purged: nothing is left");
    Ok(())
}

impl Chroot {
    /// Makes a clean Debian in a new folder.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        if !has_program("mmdebstrap") {
            bail!("mmdebstrap is missing; install the Debian package mmdebstrap");
        }
        println!("making a clean Debian");
        let options = ["--quiet", "--variant=essential", "--include=adduser,libgcc-s1", "bookworm"];
        succeed(Command::new("mmdebstrap").args(options).arg(folder))?;
        Ok(Self(folder.to_owned()))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Path on this machine of a path inside.
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    fn dpkg(&self, action: &str, package: &Path) -> Result<()> {
        fs::copy(package, self.at("/ringway.deb")).context("the package cannot be copied")?;
        self.run(&["dpkg", action, "/ringway.deb"]).map(|_| ())
    }

    /// Runs a command inside; returns its output.
    fn run(&self, command: &[&str]) -> Result<String> {
        let output = Command::new("chroot")
            .arg(&self.0)
            .args(command)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .current_dir("/")
            .output()?;
        let (said, failed) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("`{}` failed in the clean Debian: {said}{failed}", command.join(" "));
        }
        Ok(said.into_owned())
    }
}

fn expect(seen: &str, expected: &str) -> Result<()> {
    match seen.contains(expected) {
        true => Ok(()),
        false => bail!("in the clean Debian: {seen:?}, and not {expected:?}"),
    }
}

const CONFIG: &str = "/etc/ringway/ringway.toml";
/// Paths that a purge removes.
const LEFT: [&str; 5] = [
    "/usr/bin/ringway",
    "/etc/ringway",
    "/var/lib/ringway",
    "/var/log/ringway",
    "/lib/systemd/system/ringway.service",
];

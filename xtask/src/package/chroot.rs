//! Installation, upgrade and removal of the package in a clean Debian, and in a container that buildah makes of a Debian in a
//! folder instead of one from a registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use xtask::workspace::{has_program, root, succeed};

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

/// Makes the container of the package with `debian` as its base, and runs commands in it.
pub(super) fn check_container(debian: &Path, package: &Path) -> Result<()> {
    if !has_program("buildah") {
        bail!("buildah is missing; install the Debian package buildah");
    }
    let images = Images { folder: tempfile::tempdir()?.keep() };
    let base = images.output(&["from", "scratch"])?;
    images.output(&["add", &base, &debian.to_string_lossy(), "/"])?;
    images.output(&["commit", "--rm", &base, BASE])?;
    let context = images.folder.join("context");
    std::fs::create_dir(&context)?;
    std::fs::copy(package, context.join(package.file_name().context("a package has a name")?))?;
    let file = root().join("packaging/Containerfile");
    images.output(&[
        "bud",
        "--pull-never",
        "-f",
        &file.to_string_lossy(),
        "-t",
        NAME,
        &context.to_string_lossy(),
    ])?;
    let container = images.output(&["from", "--pull-never", NAME])?;
    let run = |command: &[&str]| images.output(&[&["run", &container, "--"][..], command].concat());
    ensure!(run(&["id", "-un"])? == "ringway", "the container runs as another user");
    ensure!(run(&["ringway", "--version"])?.starts_with("ringway "), "the container has no ringway");
    run(&["ringway", "check", CONTAINER_CONFIG])?;
    let added = run(&["ringway", "user", "add", "alice", "--config", CONTAINER_CONFIG])?;
    ensure!(added.starts_with("alice@localhost added"), "it said: {added}");
    println!("container: made of the package, runs as the user ringway, a user was added");
    Ok(())
}

/// Images and containers in a folder of their own.
struct Images {
    folder: PathBuf,
}

impl Images {
    /// Output of a command of buildah.
    fn output(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output()?;
        ensure!(
            output.status.success(),
            "buildah {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Without the kernel's layers and namespaces, which a container that this runs in may lack.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.folder.join("root")).arg("--runroot").arg(self.folder.join("run"));
        command.args(arguments).env("STORAGE_DRIVER", "vfs").env("BUILDAH_ISOLATION", "chroot");
        command
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        // Layers of a container are read-only folders, which buildah removes.
        let _ = self.command(&["rm", "--all"]).output();
        let _ = self.command(&["rmi", "--all", "--force"]).output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const BASE: &str = "docker.io/library/debian:bookworm-slim";
const NAME: &str = "ringway";
const CONTAINER_CONFIG: &str = "/etc/ringway/ringway.toml";

//! The container, made by buildah of a Debian in a folder instead of one from a registry.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use xtask::workspace::{has_program, root};

/// Makes the container of the package with `debian` as its base, and runs commands in it.
pub(super) fn check(debian: &Path, package: &Path) -> Result<()> {
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
    run(&["ringway", "check", CONFIG])?;
    let added = run(&["ringway", "user", "add", "alice", "--config", CONFIG])?;
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
const CONFIG: &str = "/etc/ringway/ringway.toml";

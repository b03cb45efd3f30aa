//! `cargo xtask package`: the Debian package.
//!
//! Does: stages the files of the package, packs them with dpkg-deb, and has systemd check the unit; with `--check` installs,
//! upgrades and removes the package in a clean Debian, and makes the container of it.
//!
//! Does not: install anything on this machine. What is in the package is decided in `packaging/` and [`stage`].

mod chroot;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use xtask::workspace::{Form, built_server, first_line, has_program, root, succeed, target_dir};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask package
  cargo xtask package --check
  cargo xtask package --check --server target/debug/ringway")]
pub(crate) struct Args {
    /// The program to pack (default: built for release)
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Install, upgrade and remove the package in a clean Debian, and make the container
    #[arg(long)]
    check: bool,
}

/// Makes the package, and checks it if asked.
pub(crate) fn run(args: &Args) -> Result<()> {
    for (program, package) in [("dpkg-deb", "dpkg"), ("gzip", "gzip"), ("strip", "binutils")] {
        if !has_program(program) {
            bail!("{program} is missing; install the Debian package {package}");
        }
    }
    let server = match &args.server {
        Some(server) => std::path::absolute(server)?,
        None => built_server(Form::Release)?,
    };
    let package = pack(&target_dir().join("package"), &server, env!("CARGO_PKG_VERSION"))?;
    println!("{}", package.display());
    stage::check(&root().join("packaging/ringway.service"))?;
    if args.check {
        let folder = tempfile::tempdir()?;
        let debian = chroot::Chroot::make(&folder.path().join("debian"))?;
        let later = pack(folder.path(), &server, concat!(env!("CARGO_PKG_VERSION"), "+later"))?;
        chroot::check(&debian, &package, &later)?;
        chroot::check_container(debian.folder(), &package)?;
    }
    Ok(())
}

/// Packs a program as this version; returns the package, in `folder`.
fn pack(folder: &Path, server: &Path, version: &str) -> Result<PathBuf> {
    let staged = folder.join("staged");
    if staged.exists() {
        std::fs::remove_dir_all(&staged)?;
    }
    let architecture = first_line(Command::new("dpkg").arg("--print-architecture")).unwrap_or_default();
    stage::stage(&staged, server, (version, &architecture))?;
    let package = folder.join(format!("ringway_{version}_{architecture}.deb"));
    let build = ["--root-owner-group", "-Zxz", "--build"];
    succeed(
        Command::new("dpkg-deb").args(build).args([&staged, &package]).stdout(std::process::Stdio::null()),
    )?;
    Ok(package)
}

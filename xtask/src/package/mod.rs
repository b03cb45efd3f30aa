//! `cargo xtask package`: the Debian package: its files, and checks of the systemd unit.
//!
//! Does: stages the files of the package, packs them with dpkg-deb, and has systemd check the unit; with `--check` installs,
//! upgrades and removes the package in a clean Debian, and makes the container of it.
//!
//! Does not: install anything on this machine. What is in the package is decided in `packaging/` and [`stage`].

mod chroot;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
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
    let program = fs::read(&server).with_context(|| server.display().to_string())?;
    crate::attacks::refuse_switches(&program)?;
    let package = pack(&target_dir().join("package"), &server, env!("CARGO_PKG_VERSION"))?;
    println!("{}", package.display());
    check(&root().join("packaging/ringway.service"))?;
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
    stage(&staged, server, (version, &architecture))?;
    let package = folder.join(format!("ringway_{version}_{architecture}.deb"));
    let build = ["--root-owner-group", "-Zxz", "--build"];
    succeed(
        Command::new("dpkg-deb").args(build).args([&staged, &package]).stdout(std::process::Stdio::null()),
    )?;
    Ok(package)
}

/// Writes the files of the package below `folder`.
fn stage(folder: &Path, server: &Path, (version, architecture): (&str, &str)) -> Result<()> {
    let packaging = root().join("packaging");
    let program = folder.join("usr/bin/ringway");
    copy(server, &program, 0o755)?;
    succeed(Command::new("strip").arg("--strip-unneeded").arg(&program))?;
    copy(&packaging.join("ringway.service"), &folder.join("lib/systemd/system/ringway.service"), 0o644)?;
    copy(&packaging.join("ringway.toml"), &folder.join("etc/ringway/ringway.toml"), 0o640)?;
    stage_pages(folder, server)?;
    stage_documents(folder)?;
    let control = folder.join("DEBIAN");
    for script in ["postinst", "prerm", "postrm"] {
        copy(&packaging.join(script), &control.join(script), 0o755)?;
    }
    write(&control.join("conffiles"), "/etc/ringway/ringway.toml\n")?;
    let program = fs::read(&program).with_context(|| program.display().to_string())?;
    write(&control.join("control"), &control_of(version, architecture, &libc_version(&program)))
}

/// Manual pages and completions, as the program prints them.
fn stage_pages(folder: &Path, server: &Path) -> Result<()> {
    let pages = folder.join("usr/share/man/man1");
    succeed(Command::new(server).arg("man").arg("--out").arg(&pages))?;
    for page in fs::read_dir(&pages)? {
        succeed(Command::new("gzip").arg("-9n").arg(page?.path()))?;
    }
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/ringway"),
        ("zsh", "usr/share/zsh/vendor-completions/_ringway"),
        ("fish", "usr/share/fish/vendor_completions.d/ringway.fish"),
    ] {
        let made = Command::new(server).args(["completions", shell]).output()?;
        write(&folder.join(path), &String::from_utf8(made.stdout)?)?;
    }
    Ok(())
}

/// The copyright file (Debian policy 12.5) and the documents for operators.
fn stage_documents(folder: &Path) -> Result<()> {
    let documents = folder.join("usr/share/doc/ringway");
    for (from, to) in [
        ("LICENSE-MIT", "copyright"),
        ("docs/README.md", "README.md"),
        ("packaging/ringway-cluster.toml", "examples/ringway-cluster.toml"),
        ("packaging/grafana/ringway.json", "grafana.json"),
    ] {
        copy(&root().join(from), &documents.join(to), 0o644)?;
    }
    for pages in ["start", "recipes", "reference"] {
        for page in fs::read_dir(root().join("docs").join(pages))? {
            let page = page?;
            copy(&page.path(), &documents.join(pages).join(page.file_name()), 0o644)?;
        }
    }
    Ok(())
}

fn control_of(version: &str, architecture: &str, libc: &str) -> String {
    format!(
        "Package: ringway
Version: {version}
Architecture: {architecture}
Maintainer: The Ringway contributors <ringway@localhost>
Section: comm
Priority: optional
Depends: adduser, init-system-helpers (>= 1.54), libc6 (>= {libc}), libgcc-s1
Description: SIP server and softphone with SRTP
 Registrar, proxy and redirect server that keeps its throughput when flooded and
 has no database on the packet path, a telephone for scripts and terminals, and
 a load generator.
"
    )
}

/// Latest version of the C library whose symbols the program has.
fn libc_version(program: &[u8]) -> String {
    const MARK: &[u8] = b"GLIBC_2.";
    let minor = |rest: &[u8]| {
        let digits: String =
            rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect();
        digits.parse::<u32>().ok()
    };
    let found = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let latest = found.filter_map(|(at, _)| minor(program.get(at + MARK.len()..)?)).max();
    format!("2.{}", latest.unwrap_or(0))
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    create_parent(to)?;
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn write(to: &Path, text: &str) -> Result<()> {
    create_parent(to)?;
    fs::write(to, text).with_context(|| to.display().to_string())?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o644))?)
}

fn create_parent(path: &Path) -> Result<()> {
    // The folder has one: it is below that of the package.
    path.parent().map_or(Ok(()), |parent| Ok(fs::create_dir_all(parent)?))
}

/// Has systemd verify the unit, and rate what it could do.
fn check(unit: &Path) -> Result<()> {
    if !has_program("systemd-analyze") {
        bail!("systemd-analyze is missing; install the Debian package systemd");
    }
    verify(unit)?;
    let threshold = format!("--threshold={}", EXPOSURE_MAX * 10.0);
    let rated = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--no-pager", &threshold])
        .arg(unit)
        .output()?;
    let text = String::from_utf8_lossy(&rated.stdout);
    let last = text.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    println!("{}", last.trim_start_matches(['→', ' ']));
    if !rated.status.success() {
        bail!("systemd rates the exposure of the unit above {EXPOSURE_MAX}: {last}");
    }
    Ok(())
}

/// `systemd-analyze verify` of a copy whose programs exist.
fn verify(unit: &Path) -> Result<()> {
    let text = std::fs::read_to_string(unit).with_context(|| unit.display().to_string())?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("ringway.service");
    std::fs::write(&copy, text.replace("/usr/bin/ringway", "/bin/true"))?;
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output()?;
    let said = String::from_utf8_lossy(&verified.stderr);
    let about: Vec<&str> = said.lines().filter(|line| line.contains("ringway.service")).collect();
    if !verified.status.success() || !about.is_empty() {
        bail!(
            "systemd-analyze verify: {}",
            if about.is_empty() { said.into_owned() } else { about.join("; ") }
        );
    }
    Ok(())
}

/// Maximum exposure level: 0 is none, 10 is a service without a sandbox.
const EXPOSURE_MAX: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::libc_version;

    #[test]
    fn the_latest_version_of_the_c_library_counts() {
        assert_eq!(libc_version(b"..GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_2."), "2.34");
    }
}

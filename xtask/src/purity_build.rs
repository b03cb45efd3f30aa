//! Check that `proto/` and the crates of the image build without an operating system.
//!
//! They are built for a target without std. If that target is not available, a crate with its own panic
//! handler that uses all of them is checked instead: any dependency on std would add a second one (E0152).

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xtask::workspace::{cargo, root, target_dir};

use crate::compilations;

/// Folders of the crates outside `proto/` that must also build without std.
const PURE_ELSEWHERE: [&str; 5] =
    ["apps/metal", "apps/settings", "apps/ui", "drivers/ethernet", "services/tls-bare"];

/// A target that has only core and alloc.
const BARE: &str = "x86_64-unknown-none";

pub(crate) fn run() -> Result<()> {
    let crates = pure_crates()?;
    if has_bare_target() {
        let mut build = cargo(&["build", "--quiet", "--target", BARE]);
        for (name, _) in &crates {
            build.args(["--package", name.as_str()]);
        }
        compilations::run("purity", &mut build).context("a crate that must do without std does not build")?;
        println!("purity: {} crates build for {BARE}", crates.len());
        return Ok(());
    }
    println!("purity: the target {BARE} is not available; checking with a second panic handler instead");
    check_with_own_panic_handler(&crates)?;
    println!("purity: no dependency of {} crates uses std", crates.len());
    Ok(())
}

/// Name and folder of every crate in `proto/`, and of the others that must build without std.
fn pure_crates() -> Result<Vec<(String, String)>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root().join("proto")).context("cannot read the folder proto")? {
        folders.push(entry?.path());
    }
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    if folders.is_empty() {
        bail!("there is no crate in proto/");
    }
    folders.extend(PURE_ELSEWHERE.map(|folder| root().join(folder)));
    let mut crates = Vec::new();
    for folder in folders {
        let text = std::fs::read_to_string(folder.join("Cargo.toml"))
            .with_context(|| format!("cannot read {}/Cargo.toml", folder.display()))?;
        let manifest: toml::Table =
            text.parse().with_context(|| format!("{}/Cargo.toml", folder.display()))?;
        let name =
            manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        let name = name.with_context(|| format!("{}/Cargo.toml names no package", folder.display()))?;
        crates.push((name.to_owned(), folder.display().to_string()));
    }
    crates.sort();
    Ok(crates)
}

/// True if the target is installed, or rustup installs it within a minute.
fn has_bare_target() -> bool {
    let mut command = Command::new("rustup");
    command.args(["target", "add", BARE]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.current_dir(root()).spawn() else { return false };
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => break,
        }
    }
    // It hangs without a network; an error means that it has ended.
    let _ = child.kill();
    let _ = child.wait();
    false
}

fn check_with_own_panic_handler(crates: &[(String, String)]) -> Result<()> {
    let folder = target_dir().join("purity");
    std::fs::create_dir_all(folder.join("src"))?;
    let mut manifest = String::from(
        "[package]\nname = \"purity\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [profile.dev]\npanic = \"abort\"\n\n[dependencies]\n",
    );
    let mut code = String::from("#![no_std]\n");
    for (name, path) in crates {
        writeln!(manifest, "{name} = {{ path = {path:?} }}")?;
        writeln!(code, "use {} as _;", name.replace('-', "_"))?;
    }
    code.push_str("#[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {\n    loop {}\n}\n");
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    std::fs::write(folder.join("src/lib.rs"), code)?;
    // The same versions as the workspace's, so that nothing is resolved again.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut check = cargo(&["check", "--quiet", "--offline"]);
    check.current_dir(&folder).env("CARGO_TARGET_DIR", own_target(&folder));
    compilations::run("purity", &mut check).context("a dependency uses std (E0152 names it)")?;
    Ok(())
}

/// Own target folder, so that the check does not wait for the lock of another build.
fn own_target(folder: &Path) -> std::path::PathBuf {
    folder.join("target")
}

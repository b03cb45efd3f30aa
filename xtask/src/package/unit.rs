//! Checks of the systemd unit.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::workspace::has_program;

/// Has systemd verify the unit, and rate what it could do.
pub(super) fn check(unit: &Path) -> Result<()> {
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

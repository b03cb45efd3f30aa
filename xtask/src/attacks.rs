//! `cargo xtask attacks`: every attack is tried with its defence, and without it in a build with the feature `attack-control`.
//!
//! The attacks are in `tests/attacks`; docs/decisions/0077 has the reasons.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use xtask::workspace::{cargo, root, succeed};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask attacks
  cargo xtask attacks --check")]
pub(crate) struct Args {
    /// Fail if docs/attacks.md is not what the attacks print, instead of writing it
    #[arg(long)]
    check: bool,
}

/// Tries all attacks, and writes or checks the page.
///
/// # Errors
/// An attack succeeds with its defence, or fails without it; the page is not up to date.
pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let made = folder.path().join("attacks.md");
    let words = [
        "test",
        "--quiet",
        "--package",
        "ringway-tests",
        "--features",
        "attack-control",
        "--test",
        "attacks",
    ];
    succeed(cargo(&words).env("RINGWAY_ATTACKS", &made))?;
    let page = fs::read_to_string(&made).context("the attacks wrote no page")?;
    let kept = root().join(PAGE);
    if args.check {
        let is_same = fs::read_to_string(&kept).is_ok_and(|kept| kept == page);
        ensure!(is_same, "{PAGE} is not what the attacks print; run `cargo xtask attacks`");
    } else {
        fs::write(&kept, &page).with_context(|| kept.display().to_string())?;
    }
    let count = page.lines().find(|line| line.ends_with(" attacks.")).unwrap_or_default();
    println!("{PAGE}: {count}");
    Ok(())
}

/// Refuses a program whose defences can be switched off.
///
/// # Errors
/// It has the feature `attack-control`.
pub(crate) fn refuse_switches(program: &[u8]) -> Result<()> {
    if program.windows(SWITCH.len()).any(|window| window == SWITCH) {
        bail!(
            "the program was built with the feature attack-control: its defences can be switched off; build it without"
        );
    }
    Ok(())
}

/// Page that the command writes.
const PAGE: &str = "docs/attacks.md";

/// Text in programs with the feature: the mark of `proto/sansio/src/switch.rs`.
const SWITCH: &[u8] = b"ringway defences can be switched off";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_switches_is_refused() {
        refuse_switches(b"...ringway serves...").unwrap();
        let error = refuse_switches(b"..ringway defences can be switched off..").unwrap_err();
        assert!(error.to_string().contains("attack-control"), "{error}");
        let source = fs::read_to_string(root().join("proto/sansio/src/switch.rs")).unwrap();
        assert!(source.contains(std::str::from_utf8(SWITCH).unwrap()), "the mark is another one");
    }
}

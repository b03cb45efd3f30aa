//! `cargo xtask fuzz`: runs every target of `fuzz/` for some time, from its committed corpus.
//!
//! Needs a nightly toolchain and `cargo install cargo-fuzz`.

use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::workspace::{first_line, root, succeed};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for which each target runs
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Only targets whose name contains this
    #[arg(long)]
    only: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        bail!("missing for fuzzing: {}", missing.join("; "));
    }
    let mut ran = 0_usize;
    for target in targets()? {
        if args.only.as_ref().is_some_and(|only| !target.contains(only.as_str())) {
            continue;
        }
        println!("== fuzz {target}, {} s", args.seconds);
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", "--release", target.as_str(), "--"]);
        command.arg(format!("-max_total_time={}", args.seconds)).arg("-timeout=5");
        command.arg(format!("-dict={}", root().join("fuzz/sip.dict").display())).current_dir(root());
        succeed(&mut command)
            .with_context(|| format!("fuzz target {target}: the input is under fuzz/artifacts"))?;
        ran += 1;
    }
    if ran == 0 {
        bail!("no fuzz target has that name");
    }
    println!("fuzz: {ran} targets without findings");
    Ok(())
}

/// Names of the targets, in the order of `fuzz/Cargo.toml`.
pub(crate) fn targets() -> Result<Vec<String>> {
    let path = root().join("fuzz/Cargo.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = text.parse().context("fuzz/Cargo.toml is not TOML")?;
    let bins =
        manifest.get("bin").and_then(toml::Value::as_array).context("fuzz/Cargo.toml has no [[bin]]")?;
    Ok(bins.iter().filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)).collect())
}

pub(crate) fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if first_line(Command::new("cargo").args(["+nightly", "--version"])).is_none() {
        missing.push("a nightly toolchain (`rustup toolchain install nightly`)");
    }
    if first_line(Command::new("cargo").args(["fuzz", "--version"])).is_none() {
        missing.push("cargo-fuzz (`cargo install cargo-fuzz`)");
    }
    missing
}

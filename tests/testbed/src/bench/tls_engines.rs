//! `cargo xtask bench tls-engines`: CPU time of rustls and OpenSSL side by side, in memory.
//!
//! Does: builds and runs the example `engines` of `ringway-lab`, which measures; prints its tables or writes them into
//! BENCHMARKS.md.

use super::publish;
use anyhow::{Context as _, Result, ensure};
use ringway_lab::machine;
use std::path::Path;
use std::process::Stdio;
use xtask::workspace::cargo;

/// Measures handshakes and records by rustls and by OpenSSL, in memory.
///
/// About a minute. Needs the headers of OpenSSL (`apt-get install libssl-dev`), or `--vendored`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Build OpenSSL from source, with 3DES; takes minutes
    #[arg(long)]
    vendored: bool,
    /// Write the tables into BENCHMARKS.md
    #[arg(long)]
    write: bool,
}

const HEADING: &str = "## rustls and OpenSSL";

/// Runs the command.
///
/// # Errors
/// The example could not be built, or failed.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let feature = if args.vendored { "legacy-tls-vendored" } else { "legacy-tls" };
    let package = ["run", "--quiet", "--release", "--package", "ringway-lab", "--example", "engines"];
    let mut command = cargo(&package);
    command.args(["--features", feature]).stderr(Stdio::inherit());
    let output = command.output().context("run cargo")?;
    ensure!(
        output.status.success(),
        "the measurement failed; without the headers of OpenSSL install libssl-dev, or give --vendored"
    );
    let tables = String::from_utf8_lossy(&output.stdout);
    let section = format!(
        "{HEADING}\n`cargo xtask bench tls-engines`: CPU time of the called side in memory, without sockets; medians of 5 rounds. \
         {}; OpenSSL {}.\n\n{}\n",
        machine::description(),
        if args.vendored { "from source" } else { "of the system" },
        tables.trim_end()
    );
    publish(workspace, HEADING, &section, args.write)
}

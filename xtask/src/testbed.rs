//! Builds the testbed and runs it: `cargo xtask interop`, `bench` and `metal`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use xtask::workspace::{cargo, succeed, target_dir};

/// Words after the name of the task, for the testbed to read.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Replaces this process by the testbed with `task` and its words.
pub(crate) fn run(task: &str, args: &Args) -> Result<()> {
    let program = built()?;
    Err(Command::new(&program).arg(task).args(&args.words).exec())
        .with_context(|| format!("cannot start {}", program.display()))
}

/// Builds the testbed with the features of the whole workspace, so that it shares all crates with the tests.
pub(crate) fn built() -> Result<PathBuf> {
    succeed(&mut build_command())?;
    Ok(program())
}

/// Cargo's command that builds the testbed, and the server that its scenarios use.
pub(crate) fn build_command() -> Command {
    cargo(&["build", "--quiet", "--workspace", "--bin", "testbed", "--bin", "ringway"])
}

/// The testbed, if it was built.
pub(crate) fn program() -> PathBuf {
    target_dir().join("debug/testbed")
}

//! `cargo xtask sim`: runs the stories in the simulator, from one seed or many.

use anyhow::Result;
use xtask::workspace::{cargo, succeed};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// First seed; a failing story prints its seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds, counted up from the first
    #[arg(long, default_value_t = 100)]
    count: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo(&["test", "--package", "ringway-tests", "--release"]);
    command.env("RINGWAY_SEED", args.seed.to_string()).env("RINGWAY_SEEDS", args.count.to_string());
    succeed(&mut command)
}

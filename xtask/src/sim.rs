//! `cargo xtask sim`: random stories in the simulator from many seeds, and the faults that they must find.
//!
//! The stories are in `tests/src/random`; docs/decisions/0078 has the reasons.

use anyhow::Result;
use xtask::workspace::{cargo, succeed};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask sim --seeds 100000
  cargo xtask sim --seed 7 --seeds 1 --only calls
  cargo xtask sim --planted --seeds 10000")]
pub(crate) struct Args {
    /// First seed; a violation names its seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of seeds of each story, counted up from the first
    #[arg(long, value_name = "N", default_value_t = 100)]
    seeds: u64,
    /// Only this story
    #[arg(long, value_name = "STORY")]
    only: Option<String>,
    /// Plant one fault after the other, and look for it
    #[arg(long)]
    planted: bool,
    /// Without optimization: slower, but built sooner
    #[arg(long)]
    debug: bool,
}

/// Plays the stories.
///
/// # Errors
/// A check failed, or a planted fault was not found.
pub(crate) fn run(args: &Args) -> Result<()> {
    let words = ["test", "--quiet", "--package", "ringway-tests", "--features", "attack-control"];
    let mut command = cargo(&words);
    command.args(["--test", "sim"]);
    if !args.debug {
        command.args(["--profile", "optimized"]);
    }
    command.env("RINGWAY_SEED", args.seed.to_string()).env("RINGWAY_SEEDS", args.seeds.to_string());
    if let Some(only) = &args.only {
        command.env("RINGWAY_STORY", only);
    }
    if args.planted {
        command.env("RINGWAY_PLANTED", "1");
    }
    succeed(&mut command)
}

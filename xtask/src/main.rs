//! Development tasks, run as `cargo xtask …`.
//!
//! Does: checks and measures the project: `ci` (all checks, one command), `long` (the long forms of the suites),
//! `tidy` (the house rules), `sim` (random stories from many seeds), `fuzz`, `interop` (other implementations), `attacks`, `bench`; `metal`
//! builds, runs and tests the image that needs no operating system; `package` makes the Debian package.
//!
//! Does not: anything that a user of Ringway needs.
//!
//! Start reading at [`ci`].

mod attacks;
mod ci;
mod compilations;
mod crates;
mod long;
mod package;
mod sim;
mod steps;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Every check that a change must pass
    Ci(ci::Args),
    /// Runs the long forms of the suites, for hours
    Long(long::Args),
    /// Checks the house rules that the compiler does not
    Tidy,
    /// Plays random stories in the simulator from many seeds, or looks for planted faults with them
    Sim(sim::Args),
    /// Runs the tests of the workspace, several programs at a time
    Test(test::Args),
    /// Runs every fuzz target for some time
    Fuzz(test::FuzzArgs),
    /// Tests Ringway with other implementations
    #[command(disable_help_flag = true)]
    Interop(test::TestbedArgs),
    /// Tries every attack with and without its defence
    Attacks(attacks::Args),
    /// Measures the cost of operations
    #[command(disable_help_flag = true)]
    Bench(test::TestbedArgs),
    /// Builds Ringway without an operating system, and runs it in QEMU
    #[command(disable_help_flag = true)]
    Metal(test::TestbedArgs),
    /// Makes the Debian package
    Package(package::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Ci(args) => ci::run(&args),
        Task::Long(args) => long::run(&args),
        Task::Tidy => tidy::run(),
        Task::Sim(args) => sim::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Fuzz(args) => test::fuzz(&args),
        Task::Interop(args) => test::run_testbed("interop", &args),
        Task::Attacks(args) => attacks::run(&args),
        Task::Bench(args) => test::run_testbed("bench", &args),
        Task::Metal(args) => test::run_testbed("metal", &args),
        Task::Package(args) => package::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

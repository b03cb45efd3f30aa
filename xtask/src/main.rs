//! Development tasks, run as `cargo xtask …`.
//!
//! Does: checks and measures the project: `ci` (all checks, one command), `long` (the long forms of the suites),
//! `tidy` (the house rules), `sim` (stories from seeds), `fuzz`, `interop` (other implementations), `bench`; `metal`
//! builds, runs and tests the image that needs no operating system; `package` makes the Debian package.
//!
//! Does not: anything that a user of Ringway needs.
//!
//! Start reading at [`ci`].

mod bench;
mod ci;
mod fuzz;
mod interop;
mod libsrtp;
mod long;
mod metal;
mod package;
mod purity_build;
mod sim;
mod steps;
mod tidy;
mod workspace;

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
    /// Runs the stories in the simulator, from one seed or many
    Sim(sim::Args),
    /// Runs every fuzz target for some time
    Fuzz(fuzz::Args),
    /// Tests Ringway with other implementations
    Interop(interop::Args),
    /// Measures the cost of operations
    Bench(bench::Args),
    /// Builds Ringway without an operating system, and runs it in QEMU
    Metal(metal::Args),
    /// Makes the Debian package
    Package(package::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Ci(args) => ci::run(&args),
        Task::Long(args) => long::run(&args),
        Task::Tidy => tidy::run(),
        Task::Sim(args) => sim::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Interop(args) => interop::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Metal(args) => metal::run(&args),
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

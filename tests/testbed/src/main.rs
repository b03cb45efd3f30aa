//! Ringway and programs that nobody here wrote, as processes on one machine: `cargo xtask interop`, `bench` and `metal`.
//!
//! Does: runs scenarios with other implementations (`interop`); measures the cost of operations (`bench`); builds, runs and
//! tests the image that needs no operating system (`metal`).
//!
//! Does not: checks of the code; those are in `xtask`, which builds this program and runs it.
//!
//! Start reading at [`interop`].

mod bench;
mod interop;
mod libsrtp;
mod machine;
mod metal;
mod process;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Ringway beside other programs")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Tests Ringway with other implementations
    Interop(interop::Args),
    /// Measures the cost of operations
    Bench(bench::Args),
    /// Builds Ringway without an operating system, and runs it in QEMU
    Metal(metal::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Interop(args) => interop::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Metal(args) => metal::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

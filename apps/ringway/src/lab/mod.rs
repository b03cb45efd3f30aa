//! `ringway lab`: load and measurements of SIP servers.

mod agent;
mod args;
mod load;
mod run;
mod sum;
mod summary;
mod users;
mod view;

pub(crate) use args::LabArgs;

use crate::failure::Failure;
use crate::output;
use args::LabCommand;
use std::io::Write as _;

/// Runs a command of the lab.
pub(crate) fn run(args: LabArgs) -> Result<(), Failure> {
    match args.command {
        LabCommand::Load(load) => load::run(&load),
        LabCommand::Run(args) => run::run(&args),
        LabCommand::List(args) => run::list(&args),
        LabCommand::Scenario(args) => load::run_scenario(&args),
        LabCommand::Report(args) => run::write_report(&args),
        LabCommand::Sum(args) => sum::run(&args),
        LabCommand::Agent(args) => agent::run(&args),
    }
}

/// Prints a line to standard error.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "ringway: {}", output::printable(&text.replace(['\n', '\r'], " ")));
}

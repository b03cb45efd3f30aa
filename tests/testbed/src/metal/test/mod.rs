//! `cargo xtask metal test`: tests of the image in an emulated PC.
//!
//! Times are measured first, with one machine alone; all other checks run in parallel. A machine that prints
//! or answers nothing for 30 seconds has failed.

mod bad_input;
mod boot;
mod booted;
mod faults;
mod figures;
mod files;
mod instructions;
mod screen;
mod sound_card;
mod tls;
mod wire;

use std::path::PathBuf;

use anyhow::{Result, bail};
use xtask::image::Image;
use xtask::workspace::{Form, built_server};

use crate::machine::emulator::Card;
use crate::machine::{Machine, Medium};

use crate::interop::{Ringway, Scenario, calls, play};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only checks whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// The program that calls the phone's image [default: built from this workspace]
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// Print the names of the checks and run none
    #[arg(long)]
    list: bool,
    /// Keep the folders of all checks, not only of those that failed
    #[arg(long)]
    keep: bool,
    /// Number of machines that run at a time, where no time is measured
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Write docs/pictures/metal-screen.png and docs/pictures/metal-boot.txt
    #[arg(long)]
    pictures: bool,
    /// Write the figures into BENCHMARKS.md (all checks, on a quiet machine)
    #[arg(long, conflicts_with = "only")]
    benchmarks: bool,
    /// Write tests/testbed/metal-instructions.toml instead of comparing the counts with it
    #[arg(long)]
    write: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut checks = checks(args);
    checks.retain(|check| args.only.as_ref().is_none_or(|only| check.name().contains(only.as_str())));
    if checks.is_empty() {
        bail!("no check has that name; `cargo xtask metal test --list` prints them");
    }
    if args.list {
        checks.iter().for_each(|check| println!("{}", check.name()));
        return Ok(());
    }
    Image::server().build_elf()?;
    let mut ringway = Ringway::Others;
    if checks.iter().any(|check| check.name() == sound_card::NAME) {
        Image::phone().build_elf()?;
        ringway = Ringway::Program(match &args.server {
            Some(program) => program.canonicalize()?,
            None => built_server(Form::Debug)?,
        });
    }
    play("metal", &checks, ringway, args.jobs, args.keep)?;
    if args.benchmarks { figures::write() } else { Ok(()) }
}

fn checks(args: &Args) -> Vec<Scenario> {
    let kernel = Machine::new(Medium::Kernel);
    let mut all = boot::checks();
    // The longest checks start first, so that the others run beside them.
    all.extend(files::checks());
    all.extend(tls::checks());
    all.extend(wire::checks());
    all.extend(instructions::checks(args.write));
    all.extend(screen::checks(args.pictures));
    all.extend(sound_card::checks());
    all.extend(bad_input::checks());
    all.extend(faults::checks());
    // A phone behind NAT is not reachable after its connection has ended, so calls are not redirected to it.
    let is_possible = |name: &str| !(name.starts_with("sipp/redirect") && name.contains("/tcp/"));
    all.extend(calls_on("kernel", &kernel, is_possible));
    for (name, medium) in [("cd", Medium::Cd), ("usb", Medium::Usb)] {
        all.extend(calls_on(name, &Machine::new(medium), |name| SHORT.contains(&name)));
    }
    for (name, card) in [("virtio", Card::Virtio), ("e1000", Card::E1000), ("e1000e", Card::E1000e)] {
        all.extend(calls_on(name, &kernel.clone().with_card(card), |name| CARDS.contains(&name)));
    }
    all
}

/// SIPp scenarios with the machine as the server, filtered by name.
fn calls_on(name: &str, machine: &Machine, is_wanted: impl Fn(&str) -> bool) -> Vec<Scenario> {
    let wanted = calls::scenarios().into_iter().filter(|scenario| is_wanted(scenario.name()));
    wanted.map(|scenario| scenario.on(name, machine)).collect()
}

const SHORT: [&str; 2] = ["sipp/register/udp/digest", "sipp/call-stateful/udp/digest"];
const CARDS: [&str; 2] = ["sipp/register/udp/digest", "sipp/register/tcp/digest"];

//! `cargo xtask metal test`: tests of the image in an emulated PC. Figures measured by the checks are
//! printed, and on request written into BENCHMARKS.md.
//!
//! Times are measured first, with one machine alone; all other checks run in parallel. A machine that prints
//! or answers nothing for 30 seconds has failed.

mod bad_input;
mod boot;
mod instructions;
mod screen;
mod sound_card;
mod steps;
mod tls;
mod wire;

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use xtask::image::{Image, bytes_of};
use xtask::workspace::{Form, built_server, root};

use crate::bench::with_section;
use crate::interop::server::await_sip;
use crate::machine::{Card, Machine, Medium};
use crate::process::{Process, free_port};

use crate::interop::{Ringway, Scenario, Stage, calls, play};

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
    if args.benchmarks { write_figures() } else { Ok(()) }
}

fn checks(args: &Args) -> Vec<Scenario> {
    let kernel = Machine::new(Medium::Kernel);
    let mut all = boot::checks();
    // The longest checks start first, so that the others run beside them.
    all.extend(boot::file_checks());
    all.extend(tls::checks());
    all.extend(wire::checks());
    all.extend(instructions::checks(args.write));
    all.extend(steps::checks());
    all.extend(screen::checks(args.pictures));
    all.extend(sound_card::checks());
    all.extend(bad_input::checks());
    all.extend(boot::fault_checks());
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

/// A machine with the address of its port 5060.
struct Booted {
    running: Process,
    at: SocketAddrV4,
}

impl Booted {
    /// Starts a machine in the check's folder, and waits until it is ready.
    fn serving(machine: &Machine, stage: &Stage, words: &str) -> Result<Self> {
        let booted = Self::start(machine, stage, words)?;
        booted.running.wait_for_output("ready ")?;
        Ok(booted)
    }

    /// Same without waiting.
    fn start(machine: &Machine, stage: &Stage, words: &str) -> Result<Self> {
        let port = free_port()?;
        let running = machine.start(&stage.folder, port, words)?;
        Ok(Self { running, at: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port) })
    }

    /// Checks that the machine still runs and answers OPTIONS over UDP; `what` names the preceding action.
    fn answers(&mut self, what: &str) -> Result<()> {
        if self.running.has_ended()? {
            bail!("the machine ended after {what}");
        }
        await_sip(*self.at.ip(), self.at.port()).with_context(|| format!("after {what}"))
    }

    /// Output on its serial port so far.
    fn said(&self) -> String {
        self.running.output()
    }
}

/// OPTIONS for the machine itself, with further header lines; `number` distinguishes requests.
fn options(transport: &str, number: u32, more: &str) -> String {
    format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:5062;rport;branch=z9hG4bK-test-{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:test@example.org>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: test-{number}\r\n\
         CSeq: 1 OPTIONS\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

/// A row of the table.
struct Figure {
    what: String,
    goal: String,
    got: String,
    is_met: bool,
}

/// Prints a figure with its goal and adds it to the table.
fn note(what: impl Into<String>, goal: impl Into<String>, got: impl Into<String>, is_met: bool) {
    let figure = Figure { what: what.into(), goal: goal.into(), got: got.into(), is_met };
    let verdict = if is_met { "" } else { ": missed" };
    println!("          {}: {}, goal {}{verdict}", figure.what, figure.got, figure.goal);
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).push(figure);
}

/// Writes the figures into BENCHMARKS.md.
fn write_figures() -> Result<()> {
    let image = Image::server();
    let (size, most) = (bytes_of(&image.elf)?, image.elf_bytes_max);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    note(
        "the image without GRUB",
        format!("≤ {:.1} MB", megabytes(most)),
        format!("{:.2} MB", megabytes(size)),
        size <= most,
    );
    let mut section = format!(
        "{HEADING}\nWritten by `cargo xtask metal test --benchmarks`; every figure below was measured in that one run.\n\n\
         - QEMU's emulated processor (TCG), which is no PC: its times are those of booting, its instructions those of the \
         image (`-icount`), and packets a second are not measured through it. What a REGISTER costs without sockets on a \
         processor is in the table \"Without sockets\".\n- machine: {}\n\n| what | must reach | ringway | |\n|---|---|---|---|\n",
        ringway_lab::machine::description()
    );
    for Figure { what, goal, got, is_met } in NOTED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let verdict = if *is_met { "met" } else { "**missed**" };
        let _ = writeln!(section, "| {what} | {goal} | {got} | {verdict} |");
    }
    let path = root().join("BENCHMARKS.md");
    let before = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    fs::write(&path, with_section(&before, HEADING, &section)).with_context(|| path.display().to_string())
}

const SHORT: [&str; 2] = ["sipp/register/udp/digest", "sipp/call-stateful/udp/digest"];
const CARDS: [&str; 2] = ["sipp/register/udp/digest", "sipp/register/tcp/digest"];
/// Time limit for a response.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Heading of the section.
const HEADING: &str = "## Without an operating system\n";

static NOTED: Mutex<Vec<Figure>> = Mutex::new(Vec::new());

//! `cargo xtask long`: the long forms of the suites, for a night or before a release.

use std::process::Command;

use anyhow::{Result, bail};
use xtask::workspace::{cargo, has_program, succeed};

use crate::steps::{Choice, Outcome};
use crate::test;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    steps: Choice<Step>,
    /// Seeds of each story, of each media session over a bad network and of changed DTLS sessions
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// Datagrams of DTLS handshakes that are changed, without keys
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    flights: u64,
    /// Seconds of each fuzz target
    #[arg(long, value_name = "S", default_value_t = 600)]
    fuzz_seconds: u64,
    /// Runs of all scenarios with other phones and servers
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// Minutes of the long call; SRTP's sequence number rolls over within 22
    #[arg(long, value_name = "M", default_value_t = 30)]
    call_minutes: u32,
    /// Seconds of the longest flood
    #[arg(long, value_name = "S", default_value_t = 600)]
    flood_seconds: u64,
}

/// The steps, in their order.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    /// All suites with optimization, as the programs of users have it
    Release,
    /// Lints and tests of TLS by OpenSSL, with legacy versions and cipher suites, which the default build does not have
    LegacyTls,
    /// Instructions per operation of the whole program and of the load generator, which must not grow
    Instructions,
    /// Stories, media sessions and DTLS sessions from many seeds
    Stories,
    /// Random stories from a hundred times as many seeds, and planted faults
    Sim,
    /// Cost of DTLS fragments that are refused, and changed DTLS handshakes for hours
    Flights,
    /// Every fuzz target
    Fuzz,
    /// A call with four holds in which SRTP's sequence number rolls over
    Call,
    /// `cargo xtask interop` with optimization, all scenarios in their whole form, several times
    Interop,
    /// The Debian package in a clean Debian
    Package,
    /// Floods, leaks and reflection against a server on loopback
    Attacks,
    /// Timing and cost of the phone, SRTP beside libsrtp2
    Phone,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.steps.run("long", |step| args.run_step(*step))
}

impl Args {
    fn run_step(&self, step: Step) -> Result<Outcome> {
        match step {
            Step::Release => succeed(&mut cargo(&["test", "--workspace", "--release"]))?,
            Step::LegacyTls => {
                if !has_program("pkg-config")
                    || succeed(Command::new("pkg-config").args(["--exists", "openssl"])).is_err()
                {
                    let why =
                        "the headers of OpenSSL are not installed (`apt-get install libssl-dev pkg-config`)";
                    return Ok(Outcome::Skipped(why.to_owned()));
                }
                let with = ["--package", "ringway-tls", "--features", "ringway-tls/legacy-tls"];
                let lab = ["--package", "ringway-lab", "--features", "ringway-lab/legacy-tls"];
                let clippy = ["clippy", "--quiet", "--all-targets"];
                succeed(cargo(&clippy).args(with).args(lab).args(["--", "-D", "warnings"]))?;
                succeed(cargo(&["test"]).args(with))?;
                let program =
                    ["test", "--package", "ringway", "--test", "ringway", "--features", "legacy-tls"];
                succeed(cargo(&program).args(["--", "tls::"]))?;
            }
            Step::Instructions => xtask(&["bench", "instructions", "--check"])?,
            Step::Stories => {
                let packages = ["ringway-tests", "ringway-media", "ringway-dtls"];
                let mut stories = cargo(&["test", "--release"]);
                stories.args(packages.iter().flat_map(|package| ["--package", *package]));
                succeed(stories.env("RINGWAY_SEEDS", self.seeds.to_string()))?;
            }
            Step::Sim => {
                xtask(&["sim", "--seeds", &(100 * self.seeds).to_string()])?;
                xtask(&["sim", "--planted", "--seeds", &(10 * self.seeds).to_string()])?;
            }
            Step::Flights => {
                let mut flights = cargo(&["test", "--release", "--package", "ringway-dtls", "--lib"]);
                flights.args(["--", "--ignored", "--nocapture", "--test-threads", "1"]);
                succeed(flights.env("RINGWAY_FLIGHTS", self.flights.to_string()))?;
            }
            Step::Fuzz => {
                let missing = test::missing();
                if !missing.is_empty() {
                    return Ok(Outcome::Skipped(missing.join("; ")));
                }
                xtask(&["fuzz", "--seconds", &self.fuzz_seconds.to_string()])?;
            }
            Step::Call => {
                let minutes = self.call_minutes.to_string();
                xtask(&["interop", "phone", "--only", "long-call", "--minutes", &minutes])?;
            }
            Step::Interop => self.interop()?,
            Step::Package => xtask(&["package", "--check"])?,
            Step::Attacks => xtask(&["bench", "attacks", "--seconds", &self.flood_seconds.to_string()])?,
            Step::Phone => xtask(&["bench", "phone"])?,
        }
        Ok(Outcome::Passed)
    }

    /// Runs all rounds, also after one that failed.
    fn interop(&self) -> Result<()> {
        let mut failed = Vec::new();
        for round in 1..=self.rounds {
            println!("-- round {round} of {}", self.rounds);
            if xtask(&["interop", "--release", "--whole"]).is_err() {
                failed.push(round.to_string());
            }
        }
        if !failed.is_empty() {
            bail!("rounds {} of {} failed", failed.join(", "), self.rounds);
        }
        Ok(())
    }
}

/// Runs a task in a process of its own.
fn xtask(arguments: &[&str]) -> Result<()> {
    succeed(Command::new(std::env::current_exe()?).args(arguments))
}

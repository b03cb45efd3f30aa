//! `cargo xtask interop`: a real server against peers that nobody here wrote.
//!
//! Each scenario has a folder of its own with the server's configuration, database and log and every peer's message
//! trace. `--reference` runs the scenarios against Kamailio in Ringway's place: what fails there is wrong with the
//! scenario.

mod audio;
mod baresip;
mod calls;
mod digest_order;
mod kamailio;
mod linphone;
mod process;
mod restart;
mod server;
mod sipp;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::workspace::{cargo, root, succeed, target_dir};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only scenarios whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Print the names of the scenarios and run none
    #[arg(long)]
    list: bool,
    /// Keep the folders of all scenarios, not only of those that failed
    #[arg(long)]
    keep: bool,
    /// Run against Kamailio instead of Ringway, to test the scenarios themselves
    #[arg(long)]
    reference: bool,
    /// Test this program instead of building Ringway from this workspace
    #[arg(long, value_name = "PROGRAM", conflicts_with = "reference")]
    server: Option<PathBuf>,
}

/// One thing that is tried with real peers.
pub(crate) struct Scenario {
    name: String,
    /// Runs on Kamailio in Ringway's place too.
    reference: bool,
    /// Run only when it is asked for by name.
    on_request: bool,
    body: Box<Body>,
}

/// What a scenario does on its stage.
type Body = dyn Fn(&Stage) -> Result<()>;

impl Scenario {
    fn new(name: impl Into<String>, body: impl Fn(&Stage) -> Result<()> + 'static) -> Self {
        Self { name: name.into(), reference: true, on_request: false, body: Box::new(body) }
    }
}

/// Where one scenario plays: its folder, and which server it is given.
pub(crate) struct Stage {
    /// A folder of its own, empty at the start.
    folder: PathBuf,
    /// The committed data of the scenarios.
    data: PathBuf,
    /// The server's program; `None`: Kamailio in its place.
    ringway: Option<PathBuf>,
}

impl Stage {
    /// A path inside the scenario's folder.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// How SIP travels in a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    const ALL: [Self; 2] = [Self::Udp, Self::Tcp];

    const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let scenarios = chosen(args);
    if scenarios.is_empty() {
        bail!("no scenario has that name; `cargo xtask interop --list` prints them");
    }
    if args.list {
        for scenario in &scenarios {
            println!("{}", scenario.name);
        }
        return Ok(());
    }
    let ringway = match &args.server {
        _ if args.reference || scenarios.iter().all(|scenario| scenario.on_request) => None,
        Some(program) => {
            Some(program.canonicalize().with_context(|| format!("no program {}", program.display()))?)
        }
        None => Some(built_server()?),
    };
    let scratch = tempfile::Builder::new().prefix("ringway-interop-").tempdir()?;
    let started = Instant::now();
    let mut failed = Vec::new();
    for scenario in &scenarios {
        let folder = scratch.path().join(scenario.name.replace('/', "-"));
        std::fs::create_dir_all(&folder)?;
        let stage = Stage { folder, data: root().join("tests/interop"), ringway: ringway.clone() };
        let begun = Instant::now();
        let outcome = (scenario.body)(&stage);
        println!("{} {:6.1} s  {}", mark(outcome.is_ok()), begun.elapsed().as_secs_f64(), scenario.name);
        if let Err(error) = outcome {
            println!("{}", indented(&format!("{error:#}")));
            print_traces(&stage.folder);
            failed.push(scenario.name.as_str());
        } else if !args.keep {
            std::fs::remove_dir_all(&stage.folder)?;
        }
    }
    if args.keep || !failed.is_empty() {
        println!("traces are kept in {}", scratch.keep().display());
    }
    let passed = scenarios.len() - failed.len();
    println!("interop: {passed} passed, {} failed in {:.0} s", failed.len(), started.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("interop failed: {}", failed.join(", "));
    }
    Ok(())
}

fn chosen(args: &Args) -> Vec<Scenario> {
    let mut all = calls::scenarios();
    all.extend(kamailio::scenarios());
    all.extend(baresip::scenarios());
    all.extend(linphone::scenarios());
    all.extend(restart::scenarios());
    all.extend(digest_order::scenarios());
    all.retain(|scenario| match &args.only {
        Some(only) => scenario.name.contains(only.as_str()),
        None => !scenario.on_request,
    });
    all.retain(|scenario| scenario.reference || !args.reference);
    all
}

fn built_server() -> Result<PathBuf> {
    println!("building ringway");
    succeed(&mut cargo(&["build", "--quiet", "--release", "--package", "ringway"]))?;
    let program = target_dir().join("release/ringway");
    program.is_file().then_some(program).context("cargo built no release/ringway")
}

fn mark(passed: bool) -> &'static str {
    match (passed, std::io::stdout().is_terminal()) {
        (true, true) => "\x1b[32mok    \x1b[0m",
        (true, false) => "ok    ",
        (false, true) => "\x1b[31mFAILED\x1b[0m",
        (false, false) => "FAILED",
    }
}

/// The ends of all files a failed scenario left: what the peers sent and got, and what everybody complained of.
fn print_traces(folder: &Path) {
    const LINES: usize = 40;
    const WIDTH: usize = 300;
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let is_trace =
            file.extension().is_some_and(|kind| kind == "err" || kind == "messages" || kind == "out");
        let Ok(bytes) = std::fs::read(&file) else { continue };
        if !is_trace || bytes.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes).replace(['\r', '\x1b'], "");
        let lines: Vec<String> = text.lines().map(|line| line.chars().take(WIDTH).collect()).collect();
        let shown = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
        println!("    -- end of {}", file.display());
        println!("{}", indented(&shown));
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

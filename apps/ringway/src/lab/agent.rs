//! `ringway lab agent`: the agent beside a server on a second machine, and its key.

use super::note;
use crate::failure::Failure;
use crate::output;
use clap::{Args as ClapArgs, Subcommand};
use ringway_lab::agent::{Agent, AgentCounts, AgentKey, AgentSettings, ProgramList};
use ringway_linux::process::{Signal, watch};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Arguments of `ringway lab agent`.
#[derive(Debug, ClapArgs)]
pub(crate) struct AgentArgs {
    /// Command in place of serving.
    #[command(subcommand)]
    pub(crate) command: Option<AgentCommand>,
    /// File with the key that the campaigns have too
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8061")]
    pub(crate) listen: SocketAddr,
    /// Program that a campaign may start: ringway, kamailio or opensips, or one of these names with =PATH
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) allow: Vec<String>,
    /// Running server that a campaign may watch, for example pbx=asterisk:5060: its name in --target, its process by name or
    /// number, its port
    #[arg(long, value_name = "NAME=PROCESS:PORT")]
    pub(crate) watch: Vec<String>,
}

/// Commands of the agent.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Make the key that an agent and its campaigns share
    #[command(after_help = "Examples:
  ringway lab agent init
  ringway lab agent init --out lab-agent.key

Exit status: 0 done, 1 the file exists or cannot be written.")]
    Init(AgentInitArgs),
}

/// Arguments of `ringway lab agent init`.
#[derive(Debug, ClapArgs)]
pub(crate) struct AgentInitArgs {
    /// File to write, which only its owner can read
    #[arg(long, value_name = "FILE", default_value = "agent.key")]
    pub(crate) out: PathBuf,
}

impl AgentArgs {
    /// Help behind the options.
    pub(crate) const HELP: &str =
        "The agent runs on the machine of the server, with the key of `lab agent init`. It
starts only the programs of --allow, with configurations that it writes itself
from the values of a campaign; each ends with the connection of its campaign.
A connection without the key is closed after a second at most.

Examples:
  ringway lab agent init
  ringway lab agent --key agent.key --listen 192.0.2.1:8061 \\
    --allow ringway --allow kamailio
  ringway lab agent --key agent.key --watch pbx=asterisk:5060

SIGTERM or Ctrl-C ends it with its servers.

Exit status: 0 after a signal, 1 it cannot listen, 2 bad usage.";
}

/// Makes a key, or serves campaigns until a signal.
pub(crate) fn run(args: &AgentArgs) -> Result<(), Failure> {
    match &args.command {
        Some(AgentCommand::Init(init)) => make_key(&init.out),
        None => serve(args),
    }
}

fn make_key(out: &Path) -> Result<(), Failure> {
    let made = AgentKey::generate().and_then(|key| key.write_new(out));
    made.map_err(|error| Failure::failed(format!("--out: {error:#}")))?;
    let file = out.display();
    output::line(&format!(
        "{file}: a new key. Copy it to the machine of the server, by a way that others cannot read, and run there\n\
         \n  ringway lab agent --key {file} --listen ADDRESS:8061 --allow ringway\n\
         \nwith the address of that machine. On this one the campaign is\n\
         \n  ringway lab run call --target ringway@ADDRESS:8061 --agent-key {file} --allow-remote ADDRESS\n\
         \nWho has the key can start the allowed programs there, and read their CPU time and memory."
    ))?;
    Ok(())
}

fn serve(args: &AgentArgs) -> Result<(), Failure> {
    let Some(file) = &args.key else {
        return Err(Failure::usage("--key: give the file that `ringway lab agent init` made"));
    };
    let key = AgentKey::read(file).map_err(|error| Failure::usage(format!("--key: {error:#}")))?;
    let own = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let mut programs = ProgramList::default();
    for text in &args.allow {
        programs
            .allow(text, own.clone())
            .map_err(|error| Failure::usage(format!("--allow {text}: {error:#}")))?;
    }
    for text in &args.watch {
        programs.watch(text).map_err(|error| Failure::usage(format!("--watch: {error:#}")))?;
    }
    if programs.is_empty() {
        return Err(Failure::usage(
            "the agent's list is empty; give --allow ringway, or --watch NAME=PROCESS:PORT",
        ));
    }
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::failed(format!("cannot make a temporary folder: {error}")))?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let names = programs.names();
    let settings = AgentSettings { key, programs, folder: folder.path().to_owned(), note: Box::new(note) };
    let agent = Agent::start(args.listen, settings)
        .map_err(|error| Failure::failed(format!("--listen: {error:#}")))?;
    output::line(&format!("ready tcp:{}", agent.address()))?;
    note(&format!("the agent serves {names}"));
    // A reload has nothing to read again.
    while let Ok(Signal::Reload) = signals.recv() {}
    let counts = agent.counts();
    drop(agent);
    let AgentCounts { strangers, crowded, refused } = counts;
    if counts != AgentCounts::default() {
        note(&format!(
            "connections that were not served: {strangers} without the key, {crowded} while too many had not proved it, \
             {refused} refused"
        ));
    }
    Ok(())
}

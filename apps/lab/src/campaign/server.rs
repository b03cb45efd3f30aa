//! A server of a campaign in one configuration: what is read of it, on this machine or at an agent.

use crate::agent::{Reading as AgentReading, Remote};
use crate::load::LoadTls;
use crate::process::Process;
use crate::profile::Sampler;
use crate::profile::split::{Processes, Trial};
use crate::record::{self, Profile};
use crate::server::program::{FINISHING, Program};
use crate::server::run_command;
use crate::tls::SideTls;
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A running server in one configuration.
pub struct Server {
    pub(super) source: Source,
    /// Its address for UDP and TCP.
    pub address: SocketAddr,
    /// Port of its listener for the transport of the variant, if that is another one.
    pub(super) stream_port: Option<u16>,
    /// TLS of the callers and called users, if the transport of the variant has it.
    pub(super) tls: Option<SideTls>,
    /// Its domain.
    pub domain: String,
    /// Password of its users; empty for none.
    pub password: String,
    /// Time after a load until it has written what it writes later.
    pub rest: Duration,
    /// Its configuration, for the results.
    pub record: record::Target,
    /// Number of users that it has.
    pub(super) users: u32,
    pub(super) next_user: u32,
    /// Program and configuration of a Ringway server that reads passwords from a database.
    pub(super) reader: Option<[PathBuf; 2]>,
    /// Interval of the load while it is sampled.
    pub(super) tick: Option<Duration>,
}

/// Source of a server's counters.
pub(super) enum Source {
    /// None: a server that runs anywhere.
    Address,
    /// A process that the campaign started.
    Process(Box<Started>),
    /// An agent, which started it, or watches it.
    Agent { remote: Box<Remote>, is_started: bool },
}

/// A process that the campaign started.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) program: Program,
    pub(super) sampler: Option<Sampler>,
}

/// Counters of a server at one time.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// CPU time of the server, in nanoseconds.
    pub cpu_ns: u64,
    /// Counters of its machine, if that is another one.
    pub elsewhere: Option<AgentReading>,
}

impl Server {
    /// A server at this address without users of its own.
    pub(super) fn of(source: Source, address: SocketAddr) -> Self {
        Self {
            source,
            address,
            stream_port: None,
            tls: None,
            domain: String::new(),
            password: String::new(),
            rest: FINISHING,
            record: record::Target::default(),
            users: u32::MAX,
            next_user: 0,
            reader: None,
            tick: None,
        }
    }

    /// Address for the transport of the variant that it was started for.
    pub fn variant_address(&self) -> SocketAddr {
        SocketAddr::new(self.address.ip(), self.stream_port.unwrap_or(self.address.port()))
    }

    /// TLS of the callers and called users; `None` without TLS.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load_tls(&self) -> Result<Option<LoadTls>> {
        self.tls.as_ref().map(SideTls::load).transpose()
    }

    /// Its counters; `None` for a server of which only the address is known.
    ///
    /// # Errors
    /// The server has ended; the agent is away.
    pub fn read(&self) -> Result<Option<Reading>> {
        match &self.source {
            Source::Address => Ok(None),
            Source::Process(started) => {
                Ok(Some(Reading { cpu_ns: started.process.cpu_ns()?, elsewhere: None }))
            }
            Source::Agent { remote, .. } => {
                let reading = remote.read()?;
                let elsewhere = (!remote.is_same_machine()).then_some(reading);
                Ok(Some(Reading { cpu_ns: reading.server_ns, elsewhere }))
            }
        }
    }

    /// Number of passwords that it has read from a database; `None` if it reads none, or is not Ringway.
    ///
    /// # Errors
    /// The server has ended.
    pub fn lookups(&self) -> Result<Option<u64>> {
        let Some([program, configuration]) = &self.reader else { return Ok(None) };
        let shown = run_command(program, configuration, &["show", "stats", "--json"])?;
        let shown: serde_json::Value =
            serde_json::from_slice(&shown).context("read the server's counters")?;
        let lookups = shown.get("danger_lookups").and_then(serde_json::Value::as_u64);
        lookups.map(Some).context("the server does not count its reads of passwords")
    }

    /// Memory of all its processes in bytes; shared memory counts once.
    ///
    /// # Errors
    /// The server has ended; the agent is away.
    pub fn memory_bytes(&self) -> Result<Option<u64>> {
        match &self.source {
            Source::Address => Ok(None),
            Source::Process(started) => started.process.memory_bytes().map(Some),
            Source::Agent { remote, .. } => remote.memory_bytes().map(Some),
        }
    }

    /// Checks that the server runs, and its agent.
    ///
    /// # Errors
    /// Its process has ended; the agent is away.
    pub fn check(&mut self) -> Result<()> {
        match &mut self.source {
            Source::Address => Ok(()),
            Source::Process(started) => match started.process.fate() {
                "" => Ok(()),
                _ => bail!("the server ended in the middle of a trial"),
            },
            Source::Agent { remote, .. } => remote.check(),
        }
    }

    /// Error of a load: the server has ended, its agent is away, or what the load found.
    pub(super) fn cause(&mut self, found: anyhow::Error) -> anyhow::Error {
        let error = match &self.source {
            Source::Address | Source::Process(_) => self.check().err(),
            // It was perhaps asked a moment ago.
            Source::Agent { remote, .. } => remote.read().err(),
        };
        error.unwrap_or(found)
    }

    /// Starts to sample it, with files in `folder`; the window begins later. The load is to come in intervals of `tick`.
    ///
    /// # Errors
    /// It was not started for this campaign; perf cannot sample.
    pub fn start_sampler(&mut self, folder: &Path, tick: Duration) -> Result<()> {
        match &mut self.source {
            Source::Process(started) => started.sampler = Some(Sampler::start(folder)?),
            Source::Agent { remote, is_started: true } => remote.start_sampler()?,
            Source::Address | Source::Agent { is_started: false, .. } => {
                bail!(
                    "not available: a running server is not profiled; the lab profiles those that it starts"
                )
            }
        }
        self.tick = Some(tick);
        Ok(())
    }

    /// Interval of the load; `None` if it comes at its planned times.
    pub const fn tick(&self) -> Option<Duration> {
        self.tick
    }

    /// Begins the window of the samples, if it is sampled.
    ///
    /// # Errors
    /// The agent is away.
    pub fn begin_window(&mut self) -> Result<()> {
        match &mut self.source {
            Source::Process(started) => started.sampler.iter_mut().for_each(Sampler::begin),
            Source::Agent { remote, .. } if self.tick.is_some() => remote.begin_window()?,
            Source::Address | Source::Agent { .. } => {}
        }
        Ok(())
    }

    /// Ends the window of the samples. Returns the CPU time of perf in it, in nanoseconds; `None` if it is not sampled.
    ///
    /// # Errors
    /// The agent is away.
    pub fn end_window(&mut self) -> Result<Option<u64>> {
        match &mut self.source {
            Source::Process(started) => Ok(started.sampler.as_mut().map(|sampler| {
                sampler.end();
                sampler.profiler_ns()
            })),
            Source::Agent { remote, .. } if self.tick.is_some() => remote.end_window().map(Some),
            Source::Address | Source::Agent { .. } => Ok(None),
        }
    }

    /// Ends the sampling without a result: a further load is not sampled.
    pub fn drop_sampler(&mut self) {
        self.tick = None;
        if let Source::Process(started) = &mut self.source {
            started.sampler = None;
        }
    }

    /// Ends the sampling, and sums the samples of the window.
    ///
    /// # Errors
    /// perf failed; the server has ended; the agent is away.
    pub fn profile(&mut self, trial: &Trial) -> Result<Profile> {
        self.tick = None;
        match &mut self.source {
            Source::Address => bail!("it was not started here"),
            Source::Process(started) => {
                let Started { process, program, sampler } = &mut **started;
                let sampler = sampler.take().context("it is not sampled")?;
                let family = process.family()?;
                let number = |pid: &rustix::process::Pid| u32::try_from(pid.as_raw_nonzero().get()).ok();
                let server = family.iter().filter_map(number).collect();
                let processes = Processes { server, generator: Some(std::process::id()) };
                Ok(sampler.finish(processes, program.table()?)?.profile(trial))
            }
            Source::Agent { remote, .. } => remote.profile(trial),
        }
    }

    /// True if it was started for this campaign, in the configuration of the variant.
    pub const fn is_started(&self) -> bool {
        matches!(self.source, Source::Process(_) | Source::Agent { is_started: true, .. })
    }

    /// Number of users that the server has.
    pub const fn users(&self) -> u32 {
        self.users
    }

    /// Takes `count` users that no earlier load had; when all are used, again from the first one on.
    pub const fn take_users(&mut self, count: u32) -> u32 {
        let is_left = self.next_user.saturating_add(count) <= self.users;
        let first = if is_left { self.next_user } else { 0 };
        self.next_user = first + count;
        first
    }
}

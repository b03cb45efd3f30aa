//! One connection of a campaign, with at most one server.

use super::connection::Connection;
use super::key::AgentKey;
use super::list::ProgramList;
use super::message::{Reading, Request, Response, StartedServer};
use crate::machine::{self, Ticks};
use crate::process::{self, Process};
use crate::profile::Sampler;
use crate::profile::split::{Processes, Trial};
use crate::record;
use crate::server::program::{FINISHING, Program, ServerSetup};
use crate::server::{Carrier, Environment, Store, StreamListener, free_port_at};
use anyhow::{Context, Result, bail, ensure};
use rustix::time::ClockId;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tempfile::TempDir;

/// Values of an agent.
pub struct AgentSettings {
    /// Key that it shares with its campaigns.
    pub key: AgentKey,
    /// Programs that it may start, and servers that it may watch.
    pub programs: ProgramList,
    /// Folder for the files of its servers.
    pub folder: PathBuf,
    /// Receives a line for the operator about each connection that has the key.
    pub note: Box<dyn Fn(&str) + Send + Sync>,
}

pub(super) struct Session<'s> {
    settings: &'s AgentSettings,
    /// Address at which the campaign reached the agent; its servers listen on it.
    host: IpAddr,
    // Ends before the folder is removed.
    server: Option<Served>,
    sampler: Option<Sampler>,
    folder: TempDir,
}

/// Server of a session.
enum Served {
    Started { process: Process, program: Program },
    Running { pid: u32 },
}

impl<'s> Session<'s> {
    pub(super) fn new(settings: &'s AgentSettings, host: IpAddr) -> Result<Self> {
        let folder = TempDir::new_in(&settings.folder).context("make a folder")?;
        Ok(Self { settings, host, server: None, sampler: None, folder })
    }

    /// Serves the connection until it ends.
    pub(super) fn run(mut self, connection: &mut Connection, from: SocketAddr) {
        let machine = machine::hardware();
        if connection.send(&Response::Begun { machine, boot: machine::boot_id() }).is_err() {
            return;
        }
        // An error is the end of the connection.
        while let Ok(request) = connection.receive(None) {
            let response = self.handle(&request).unwrap_or_else(|error| Response::Refused {
                error: format!("{error:#}").chars().take(ERROR_CHARS_MAX).collect(),
            });
            match (&request, &response) {
                (Request::Start { program, .. }, Response::Started(server)) => {
                    (self.settings.note)(&format!("{from}: started {program} on port {}", server.port));
                }
                (Request::Watch { name }, Response::Started(_)) => {
                    (self.settings.note)(&format!("{from}: watches {name}"));
                }
                (Request::Start { .. } | Request::Watch { .. }, Response::Refused { error }) => {
                    (self.settings.note)(&format!("{from}: {error}"));
                }
                _ => {}
            }
            if connection.send(&response).is_err() {
                return;
            }
        }
    }

    fn handle(&mut self, request: &Request) -> Result<Response> {
        match request {
            Request::Begin { .. } => bail!("the connection has begun already"),
            Request::Start { program, setup } => {
                self.start(program, setup).map(|server| Response::Started(Box::new(server)))
            }
            Request::Watch { name } => self.watch(name).map(|server| Response::Started(Box::new(server))),
            Request::Read => self.read().map(Response::Reading),
            Request::Memory => self.memory().map(|bytes| Response::Memory { bytes }),
            Request::StartSampler => {
                ensure!(matches!(self.server, Some(Served::Started { .. })), NOT_PROFILED);
                // One at a time has the folder.
                self.sampler = None;
                let started = Sampler::start(self.folder.path());
                self.sampler = Some(started.context(
                    "not available: perf cannot sample at the agent; run it as root or with CAP_PERFMON",
                )?);
                Ok(Response::Done)
            }
            Request::BeginWindow => {
                self.sampler.as_mut().context(NO_SAMPLER)?.begin();
                Ok(Response::Done)
            }
            Request::EndWindow => {
                let sampler = self.sampler.as_mut().context(NO_SAMPLER)?;
                sampler.end();
                Ok(Response::Window { profiler_ns: sampler.profiler_ns() })
            }
            Request::Sum { attempts, scheduled_ns, profiler_ns } => {
                let trial =
                    Trial { attempts: *attempts, scheduled_ns: *scheduled_ns, profiler_ns: *profiler_ns };
                self.sum(&trial).map(|profile| Response::Profile(Box::new(profile)))
            }
            Request::Stop => {
                self.sampler = None;
                match self.server.take() {
                    Some(Served::Started { mut process, .. }) => process.stop()?,
                    Some(Served::Running { .. }) | None => {}
                }
                Ok(Response::Done)
            }
        }
    }

    fn start(&mut self, name: &str, setup: &ServerSetup) -> Result<StartedServer> {
        let programs = &self.settings.programs;
        let program = programs.program(name)?;
        ensure!(self.server.is_none(), "the connection has a server already");
        ensure!(
            (1..=USERS_MAX).contains(&setup.users),
            "{} users are not possible; at most {USERS_MAX} are",
            setup.users
        );
        let secure = match setup.carrier {
            Carrier::Udp | Carrier::Tcp => None,
            carrier @ Carrier::Ws => {
                Some(StreamListener { carrier, port: free_port_at(self.host)?, tls: None })
            }
            Carrier::Tls | Carrier::Wss => {
                bail!("not available: an agent starts no server with certificates")
            }
        };
        let path = |name: &str| programs.path(name).cloned();
        let environment = Environment {
            ringway: path("ringway").unwrap_or_default(),
            kamailio: path("kamailio"),
            opensips: path("opensips"),
            floor_command: Environment::no_floor,
            folder: self.folder.path().to_path_buf(),
        };
        let stream_port = secure.as_ref().map(|listener| listener.port);
        let settings = setup.settings(self.host, Store::Memory, secure);
        let started = program.start(&environment, settings, setup.carrier)?;
        self.server = Some(Served::Started { process: started.process, program });
        let rest_ms = u64::try_from(program.rest().as_millis()).unwrap_or_default();
        Ok(StartedServer { port: started.address.port(), stream_port, record: started.record, rest_ms })
    }

    fn watch(&mut self, name: &str) -> Result<StartedServer> {
        let server = self.settings.programs.running(name)?;
        ensure!(self.server.is_none(), "the connection has a server already");
        let pid = server.pid()?;
        process::cpu_ns_of(pid).with_context(|| format!("{name}: process {pid}"))?;
        let record = record::Target { command: "a running server".to_owned(), ..record::Target::default() };
        let rest_ms = u64::try_from(FINISHING.as_millis()).unwrap_or_default();
        let started = StartedServer { port: server.port, stream_port: None, record, rest_ms };
        self.server = Some(Served::Running { pid });
        Ok(started)
    }

    fn read(&mut self) -> Result<Reading> {
        let server_ns = match self.server.as_mut().context(NO_SERVER)? {
            Served::Started { process, .. } => {
                ensure!(process.fate().is_empty(), "the server ended in the middle of a trial");
                process.cpu_ns()?
            }
            Served::Running { pid } => process::cpu_ns_of(*pid).context("the server ended")?,
        };
        let ticks = Ticks::now();
        Ok(Reading {
            server_ns,
            agent_ns: machine::clock_ns(ClockId::ProcessCPUTime),
            busy_ns: ticks.busy * Ticks::ns(),
            steal_ns: ticks.steal * Ticks::ns(),
        })
    }

    fn memory(&self) -> Result<u64> {
        match self.server.as_ref().context(NO_SERVER)? {
            Served::Started { process, .. } => process.memory_bytes(),
            Served::Running { pid } => process::memory_bytes_of(*pid),
        }
    }

    fn sum(&mut self, trial: &Trial) -> Result<record::Profile> {
        let sampler = self.sampler.take().context(NO_SAMPLER)?;
        let Some(Served::Started { process, program }) = &self.server else { bail!(NOT_PROFILED) };
        let family = process.family()?;
        let number = |pid: &rustix::process::Pid| u32::try_from(pid.as_raw_nonzero().get()).ok();
        let server = family.iter().filter_map(number).collect();
        let split = sampler.finish(Processes { server, generator: None }, program.table()?)?;
        Ok(split.profile(trial))
    }
}

const NO_SERVER: &str = "the connection has no server";
const NO_SAMPLER: &str = "nothing is sampled";
const NOT_PROFILED: &str =
    "not available: a running server is not profiled; the lab profiles those that it starts";
/// Most users of a server.
const USERS_MAX: u32 = 400_000;
/// Longest reason of a refusal.
const ERROR_CHARS_MAX: usize = 2000;

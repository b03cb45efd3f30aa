//! One connection of a campaign, with at most one server.

use super::connection::Connection;
use super::key::AgentKey;
use super::list::ProgramList;
use super::message::{Reading, Request, Response, StartedServer};
use super::tls_values::{AuthorityText, TlsValues};
use crate::machine::{self, Ticks};
use crate::process::{self, Process};
use crate::profile::Sampler;
use crate::profile::split::{Processes, Trial};
use crate::record;
use crate::server::program::{FINISHING, Program, ServerSetup};
use crate::server::{Environment, Store, StreamListener};
use crate::tls::{Authority, SideTls, save_authority};
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
            Request::Start { program, setup, tls } => {
                let started = self.start(program, setup, tls.as_ref());
                started.map(|server| Response::Started(Box::new(server)))
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

    fn start(&mut self, name: &str, setup: &ServerSetup, tls: Option<&TlsValues>) -> Result<StartedServer> {
        let programs = &self.settings.programs;
        let program = programs.program(name)?;
        ensure!(self.server.is_none(), "the connection has a server already");
        ensure!(
            (1..=USERS_MAX).contains(&setup.users),
            "{} users are not possible; at most {USERS_MAX} are",
            setup.users
        );
        let carrier = setup.carrier;
        ensure!(carrier.is_secure() == tls.is_some(), "{} and TLS do not go together", carrier.name());
        let (tls, authority) = tls.map(|values| self.make_tls(program, values)).transpose()?.unzip();
        let secure = StreamListener::open(self.host, carrier, tls)?;
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
        let (port, record) = (started.address.port(), started.record);
        Ok(StartedServer { port, stream_port, authority, record, rest_ms })
    }

    /// Makes an authority and the server's certificate, once for each kind of key, in the folder of this connection.
    fn make_tls(&self, program: Program, values: &TlsValues) -> Result<(SideTls, AuthorityText)> {
        let (tls, users) = values.read()?;
        match program {
            // It is this build, or one like it.
            Program::Ringway(_) => drop(tls.offer()?),
            Program::Kamailio(_) | Program::OpenSips => {}
        }
        let folder = self.folder.path();
        let peer_ca = save_authority(folder, "users-ca", &users)?;
        let authority = Authority::make(folder, tls.key)?;
        let sent = AuthorityText::new(&authority.der()?);
        let files = authority.server(self.host, peer_ca)?;
        Ok((SideTls { tls, files }, sent))
    }

    fn watch(&mut self, name: &str) -> Result<StartedServer> {
        let server = self.settings.programs.running(name)?;
        ensure!(self.server.is_none(), "the connection has a server already");
        let pid = server.pid()?;
        process::cpu_ns_of(pid).with_context(|| format!("{name}: process {pid}"))?;
        let record = record::Target { command: "a running server".to_owned(), ..record::Target::default() };
        let rest_ms = u64::try_from(FINISHING.as_millis()).unwrap_or_default();
        let (stream_port, authority) = (None, None);
        let started = StartedServer { port: server.port, stream_port, authority, record, rest_ms };
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

#[cfg(test)]
mod tests {
    use super::super::tls_values::RemoteTls;
    use super::*;
    use crate::tls::{KeyKind, TlsUse};
    use std::fs;

    #[test]
    fn an_agent_makes_certificates_once_for_each_key_and_sends_no_private_one() {
        let [folder, campaign] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let settings = AgentSettings {
            key: AgentKey::generate().unwrap(),
            programs: ProgramList::default(),
            folder: folder.path().to_owned(),
            note: Box::new(|_| ()),
        };
        let host: IpAddr = "192.0.2.1".parse().unwrap();
        let session = Session::new(&settings, host).unwrap();
        let program = Program::by_name("ringway").unwrap();
        for key in [KeyKind::P256, KeyKind::Rsa2048] {
            let tls = TlsUse { key, is_mutual: true, ..TlsUse::default() };
            let users = Authority::make(campaign.path(), key).unwrap();
            let values = TlsValues::new(RemoteTls { tls: &tls, authority: &users.der().unwrap() });
            let (server, sent) = session.make_tls(program, &values).unwrap();
            // The server trusts the campaign's authority, and the campaign that of the server; each key stays where it is.
            assert_eq!(fs::read(&server.files.peer_ca).unwrap(), fs::read(users.certificate()).unwrap());
            assert!(server.load().is_ok());
            let peer_ca = save_authority(campaign.path(), "agent", &sent.read().unwrap()).unwrap();
            let files = users.users(&["192.0.2.9".parse().unwrap()], peer_ca).unwrap();
            assert!(SideTls { tls, files }.load().is_ok());
            let certificate = fs::read(&server.files.certificate).unwrap();
            let (again, same) = session.make_tls(program, &values).unwrap();
            assert_eq!((fs::read(again.files.certificate).unwrap(), same), (certificate, sent));
        }
    }
}

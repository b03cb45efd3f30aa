//! A server at an agent, as a campaign has it.

use super::connection::Connection;
use super::key::AgentKey;
use super::message::{Reading, Request, Response, StartedServer};
use super::tls_values::{AuthorityText, RemoteTls, TlsValues};
use crate::machine;
use crate::profile::split::Trial;
use crate::record::{Profile, Target};
use crate::server::program::ServerSetup;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Access of a campaign to its agents.
#[derive(Clone, Debug)]
pub struct AgentAccess {
    key: AgentKey,
    /// Random name of the campaign.
    campaign: String,
}

/// A server at an agent. It is stopped with this value.
pub struct Remote {
    agent: SocketAddr,
    connection: RefCell<Connection>,
    /// The agent went away.
    is_lost: Cell<bool>,
    /// Last time at which it answered.
    answered: Cell<Instant>,
    is_same_machine: bool,
    machine: String,
    server: StartedServer,
}

/// Server that an agent is to measure.
#[derive(Clone, Copy, Debug)]
pub enum RemoteServer<'a> {
    /// A program that it starts.
    Program {
        /// Name of the program.
        name: &'a str,
        /// Values of its configuration.
        setup: &'a ServerSetup,
        /// TLS of its listener, if the transport has it.
        tls: Option<RemoteTls<'a>>,
    },
    /// A running server of its list.
    Running {
        /// Name in the list.
        name: &'a str,
    },
}

impl AgentAccess {
    /// Access by this key for a new campaign.
    ///
    /// # Errors
    /// The operating system returned no random bytes.
    pub fn new(key: AgentKey) -> Result<Self> {
        let mut name = [0; 16];
        getrandom::fill(&mut name)
            .map_err(|error| anyhow!("the operating system returned no random bytes: {error}"))?;
        Ok(Self { key, campaign: base16ct::lower::encode_string(&name) })
    }

    /// Has the agent start, or watch, a server.
    ///
    /// # Errors
    /// The agent is away, has another key, or refuses.
    pub fn start(&self, agent: SocketAddr, server: RemoteServer<'_>) -> Result<Remote> {
        let begun = || {
            let mut connection = Connection::open(agent, &self.key)?;
            connection.send(&Request::Begin { campaign: self.campaign.clone() })?;
            let answer = connection.receive(Some(ANSWER_TIME));
            Ok((connection, answer.context("it closes the connection if its key is another one")?))
        };
        let begun: Result<(Connection, Response)> = begun();
        let (mut connection, response) = begun.with_context(|| format!("the agent at {agent}"))?;
        let (machine, boot) = match response {
            Response::Begun { machine, boot } => (machine, boot),
            other => bail!("the agent at {agent}: {}", reason(other)),
        };
        let request = match server {
            RemoteServer::Program { name, setup, tls } => Request::Start {
                program: name.to_owned(),
                setup: setup.clone(),
                tls: tls.map(TlsValues::new),
            },
            RemoteServer::Running { name } => Request::Watch { name: name.to_owned() },
        };
        let mut ask = || {
            connection.send(&request)?;
            connection.receive(Some(START_TIME))
        };
        let response: Result<Response> = ask();
        let server = match response.with_context(|| format!("the agent at {agent} went away"))? {
            Response::Started(server) => *server,
            other => {
                let reason = reason(other);
                // Of a row that is no failure.
                match reason.strip_prefix("not available: ") {
                    Some(reason) => bail!("not available: the agent at {agent}: {reason}"),
                    None => bail!("the agent at {agent}: {reason}"),
                }
            }
        };
        Ok(Remote {
            agent,
            connection: RefCell::new(connection),
            is_lost: Cell::new(false),
            answered: Cell::new(Instant::now()),
            is_same_machine: boot == machine::boot_id() && !boot.is_empty(),
            machine,
            server,
        })
    }
}

impl Remote {
    /// Address of the server for UDP and TCP, at the address of its agent.
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(self.agent.ip(), self.server.port)
    }

    /// Port of its listener for TLS or WebSocket, if it has one.
    pub const fn stream_port(&self) -> Option<u16> {
        self.server.stream_port
    }

    /// Certificate, in DER, of the authority that its certificate is of.
    ///
    /// # Errors
    /// The agent sent none, or not one.
    pub fn authority(&self) -> Result<Vec<u8>> {
        let authority = self.server.authority.as_ref().map(AuthorityText::read);
        let read = authority.unwrap_or_else(|| Err(anyhow!("no authority's certificate was sent")));
        read.with_context(|| format!("the agent at {}", self.agent))
    }

    /// Its configuration for the results, without the name of the target.
    pub fn record(&self) -> Target {
        Target { machine: self.machine.clone(), ..self.server.record.clone() }
    }

    /// Time after a load until it has written what it writes later.
    pub const fn rest(&self) -> Duration {
        self.server.rest()
    }

    /// True if the agent is on this machine, perhaps in another namespace.
    pub const fn is_same_machine(&self) -> bool {
        self.is_same_machine
    }

    /// Reads the counters of server and machine.
    ///
    /// # Errors
    /// The agent is away, or the server ended.
    pub fn read(&self) -> Result<Reading> {
        match self.ask(&Request::Read, ANSWER_TIME)? {
            Response::Reading(reading) => Ok(reading),
            other => Err(self.refused(other)),
        }
    }

    /// Memory of the server in bytes.
    ///
    /// # Errors
    /// As [`Remote::read`].
    pub fn memory_bytes(&self) -> Result<u64> {
        match self.ask(&Request::Memory, ANSWER_TIME)? {
            Response::Memory { bytes } => Ok(bytes),
            other => Err(self.refused(other)),
        }
    }

    /// Checks once a second that agent and server are there.
    ///
    /// # Errors
    /// As [`Remote::read`].
    pub fn check(&self) -> Result<()> {
        if self.answered.get().elapsed() < CHECK_EVERY { Ok(()) } else { self.read().map(drop) }
    }

    /// Begins to sample the server.
    ///
    /// # Errors
    /// As [`Remote::read`]; perf cannot sample there.
    pub fn start_sampler(&self) -> Result<()> {
        self.done(&Request::StartSampler)
    }

    /// Begins the window of the samples.
    ///
    /// # Errors
    /// As [`Remote::read`].
    pub fn begin_window(&self) -> Result<()> {
        self.done(&Request::BeginWindow)
    }

    /// Ends the window of the samples. Returns the CPU time of perf in it, in nanoseconds.
    ///
    /// # Errors
    /// As [`Remote::read`].
    pub fn end_window(&self) -> Result<u64> {
        match self.ask(&Request::EndWindow, ANSWER_TIME)? {
            Response::Window { profiler_ns } => Ok(profiler_ns),
            other => Err(self.refused(other)),
        }
    }

    /// Ends the sampling; sums the samples of the window.
    ///
    /// # Errors
    /// As [`Remote::read`]; perf failed.
    pub fn profile(&self, trial: &Trial) -> Result<Profile> {
        let Trial { attempts, scheduled_ns, profiler_ns } = *trial;
        match self.ask(&Request::Sum { attempts, scheduled_ns, profiler_ns }, SUM_TIME)? {
            Response::Profile(profile) => Ok(*profile),
            other => Err(self.refused(other)),
        }
    }

    fn done(&self, request: &Request) -> Result<()> {
        match self.ask(request, SAMPLER_TIME)? {
            Response::Done => Ok(()),
            other => Err(self.refused(other)),
        }
    }

    fn ask(&self, request: &Request, wait: Duration) -> Result<Response> {
        ensure!(!self.is_lost.get(), "the agent at {} went away", self.agent);
        let asked = {
            let mut connection = self.connection.borrow_mut();
            connection.send(request).and_then(|()| connection.receive(Some(wait)))
        };
        self.answered.set(Instant::now());
        self.is_lost.set(asked.is_err());
        asked.with_context(|| format!("the agent at {} went away", self.agent))
    }

    fn refused(&self, response: Response) -> anyhow::Error {
        let reason = reason(response);
        match reason.strip_prefix("not available: ") {
            Some(_) => anyhow!(reason),
            None => anyhow!("the agent at {}: {reason}", self.agent),
        }
    }
}

/// Waits until the server has ended, as that of a campaign on its own machine.
impl Drop for Remote {
    fn drop(&mut self) {
        if !self.is_lost.get() {
            let _ = self.ask(&Request::Stop, STOP_TIME);
        }
    }
}

fn reason(response: Response) -> String {
    match response {
        Response::Refused { error } => error,
        other => format!("an unexpected response: {other:?}").chars().take(200).collect(),
    }
}

/// Most time until an agent answers.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Most time until a server with all its users runs.
const START_TIME: Duration = Duration::from_secs(180);
/// Most time until perf samples.
const SAMPLER_TIME: Duration = Duration::from_secs(15);
/// Most time until all samples are summed.
const SUM_TIME: Duration = Duration::from_secs(300);
/// Most time until a server has ended.
const STOP_TIME: Duration = Duration::from_secs(25);
/// Interval at which a campaign checks that an agent is there.
const CHECK_EVERY: Duration = Duration::from_secs(1);

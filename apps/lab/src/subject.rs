//! A server under measurement with its phones: Ringway, Kamailio or the floor.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::floor::Kind;
use crate::load::{Files, Flow, Plan, Session, Side, Statistics, Users, Window};
use crate::operation::{CONNECTIONS, Operation, called};
use crate::process::Process;
use crate::saturation::{Runnable, Saturation};
use crate::server::{Allocator, Carrier, DOMAIN, PASSWORD};
pub use crate::server::{Environment, ROUTES, Routing, Rules, Settings, Store, Under, free_port};

/// Length of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Number of operations.
    Operations(u64),
    /// Time during which operations are begun.
    Time(Duration),
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Operations completed.
    pub operations: u64,
    /// CPU time of the server, in nanoseconds.
    pub server_ns: u64,
    /// Share of its processor that the generator used.
    pub generator: f64,
    /// Retransmissions of the generator.
    pub retransmissions: u64,
    /// Use of the processor by the server, after the start and before the end of a run of a given time.
    pub saturation: Option<Saturation>,
}

/// A running server with its phones.
pub struct Subject {
    /// The server.
    pub process: Process,
    /// Phones that have registered.
    session: Option<Session>,
    /// Address of the server for UDP and TCP (of the floor for one of them).
    address: SocketAddrV4,
    users: u32,
    carrier: Carrier,
}

impl Subject {
    fn new(process: Process, port: u16, users: u32) -> Self {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        Self { process, session: None, address, users, carrier: Carrier::Udp }
    }

    /// Makes the phones use another transport than UDP.
    #[must_use]
    pub fn over(self, carrier: Carrier) -> Self {
        Self { carrier, ..self }
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Registers every user once; `operation` is a REGISTER with or without a challenge.
    pub fn register_all(&mut self, operation: Operation) -> Result<()> {
        let plan = self.plan(operation)?;
        let session =
            Session::open(&plan).with_context(|| format!("register all users{}", self.process.fate()))?;
        self.session = Some(session.napping());
        Ok(())
    }

    /// Runs an operation by the registered phones. An operation that fails ends the run: a figure for something else than
    /// the row says would be worse than none.
    pub fn run(&mut self, operation: Operation, extent: Extent) -> Result<Outcome> {
        self.load(operation, extent).with_context(|| format!("{operation:?}{}", self.process.fate()))
    }

    fn load(&mut self, operation: Operation, extent: Extent) -> Result<Outcome> {
        let session =
            self.session.take().context("the users are not registered, or an earlier run failed")?;
        let side = if operation.is_register() { Side::Called } else { Side::Callers };
        let (length, attempts) = match extent {
            Extent::Operations(count) => (TIME_MAX, count),
            Extent::Time(length) => (length, u64::MAX),
        };
        let window = Window { size: operation.window(self.carrier).min(self.users), length, attempts };
        let before = self.process.cpu_ns()?;
        let begun = Instant::now();
        let run = session.start_window(side, &operation.scenario()?, window)?;
        let saturation = match extent {
            Extent::Time(length) if length > 3 * MARGIN => {
                thread::sleep(MARGIN);
                let start = Runnable::of(&self.process)?;
                thread::sleep(length - 2 * MARGIN);
                Some(start.until_now(&self.process)?)
            }
            Extent::Time(_) | Extent::Operations(_) => None,
        };
        let (statistics, session) = run.finish_session()?;
        let wall = begun.elapsed();
        self.session = Some(session);
        check(&statistics)?;
        Ok(Outcome {
            operations: statistics.successes(),
            server_ns: self.process.cpu_ns()?.saturating_sub(before),
            generator: statistics.generator_cpu().as_secs_f64() / wall.as_secs_f64(),
            retransmissions: statistics.counters().retransmissions,
            saturation,
        })
    }

    /// Plan of the phones: each user registers and is called, and each is called by the one before.
    fn plan(&self, operation: Operation) -> Result<Plan> {
        let callers = Users::by_rule("u", 7, 0, self.users, PASSWORD)?;
        let called_users = Users::by_rule("u", 7, 0, self.users, PASSWORD)?;
        let name = "operations of the benchmark".to_owned();
        let caller = Operation::Call.scenario()?.as_ref().clone();
        let files = Files::new(name, caller, Some(called()?))?.with_registration(operation.scenario()?);
        let sockets = if self.carrier == Carrier::Udp { 1 } else { CONNECTIONS };
        Ok(Plan {
            transport: self.carrier.transport(),
            sockets,
            files: Some(files),
            // A floor that relays records no route.
            is_outbound_proxy: true,
            domain: DOMAIN.to_owned(),
            register_window: Some(operation.window(self.carrier)),
            ..Plan::new(SocketAddr::V4(self.address), Flow::Call, callers, called_users)
        })
    }

    /// Ends the server.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

/// Fails unless all operations succeeded.
fn check(statistics: &Statistics) -> Result<()> {
    if let Some(loss) = statistics.target_loss() {
        bail!("{loss}");
    }
    let failures: Vec<String> =
        statistics.failures().map(|(outcome, count)| format!("{outcome}: {count}")).collect();
    if !failures.is_empty() {
        return Err(anyhow!("operations failed ({})", failures.join(", ")));
    }
    Ok(())
}

/// Time at the start and at the end of a run in which the window fills and empties.
const MARGIN: Duration = Duration::from_millis(100);

/// Longest time for a number of operations, under callgrind for example.
const TIME_MAX: Duration = Duration::from_secs(600);

impl Environment {
    /// Starts Ringway on a free port.
    pub fn ringway(&self, settings: &Settings, under: Under<'_>) -> Result<Subject> {
        let port = free_port()?;
        Ok(Subject::new(self.start_ringway(settings, port, under)?, port, settings.users))
    }

    /// Restarts Ringway, possibly with another configuration; returns the time until it is ready.
    pub fn restart(&self, subject: &mut Subject, settings: &Settings) -> Result<Duration> {
        subject.stop()?;
        let begun = Instant::now();
        subject.process = self.start_ringway(settings, subject.address.port(), Under::Itself)?;
        Ok(begun.elapsed())
    }

    /// Starts Kamailio on a free port.
    pub fn kamailio(&self, program: &Path, settings: &Settings, carrier: Carrier) -> Result<Subject> {
        let port = free_port()?;
        let process = self.start_kamailio(program, settings, port, carrier, Allocator::Tlsf)?;
        Ok(Subject::new(process, port, settings.users))
    }

    /// Starts a floor, which learns its phones from their REGISTERs.
    pub fn floor(&self, kind: Kind, users: u32) -> Result<Subject> {
        let mut command = (self.floor_command)()?;
        command.arg(kind.name());
        let mut process = Process::start("floor", &mut command, &self.folder.join("floor.log"))?;
        let line = process.ready()?;
        let port = line
            .rsplit_once(':')
            .and_then(|(_, port)| port.trim().parse().ok())
            .with_context(|| format!("the floor printed {line:?}, which has no port"))?;
        Ok(Subject::new(process, port, users))
    }
}

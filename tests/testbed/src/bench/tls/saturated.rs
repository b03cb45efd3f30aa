//! Operations on a saturated server: a closed loop, and the ballast that leaves the server less time than the generator.

use super::load::{Load, Readings, in_turn, open_all};
use super::servers::Servers;
use anyhow::{Context, Result};
use ringway_lab::load::{ConnectionUse, Flow, Length, Plan, Session, Side, Statistics, Window};
use ringway_lab::saturation::Ballast;
use ringway_lab::saturation::Runnable;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Length of a reading, and of the run before it that does not count.
pub(super) const LENGTH: Duration = Duration::from_millis(1000);
const RUN_UP: Duration = Duration::from_millis(200);
/// Time at both ends of a reading in which the window fills and empties.
const MARGIN: Duration = Duration::from_millis(100);
/// Attempts that are open at a time. With a connection for each they are as many as a client keeps tickets of a server.
const WINDOW: u32 = 64;
const WINDOW_OF_CONNECTIONS: u32 = 8;
const USERS: u32 = 512;
/// Local addresses of the clients, each of which has ports for some thousand closed connections.
const SOURCES: u8 = 8;

/// A load that saturates its server.
pub(super) struct Contestant {
    load: Load,
    flow: Flow,
    /// Between two readings.
    session: Option<Session>,
}

impl Contestant {
    /// Opens connections, and registers users.
    pub(super) fn open(servers: &Servers, flow: Flow, load: Load) -> Result<Self> {
        let plan = load.plan(servers, flow, USERS)?;
        let at_once = Length::Fixed(Duration::ZERO);
        let plan = Plan { ring: at_once, talk: at_once, sources: SOURCES, ..plan };
        let session = Session::open(&plan).context(load.name)?.napping();
        Ok(Self { load, flow, session: Some(session) })
    }

    /// Takes a reading. Returns the CPU time of an operation in µs, and the reason why it does not count.
    pub(super) fn read(&mut self, servers: &Servers) -> Result<(f64, Option<String>)> {
        let process = &servers.get(self.load.server)?.process;
        let _ballast = Ballast::start()?;
        self.run(RUN_UP, || Ok(()))?;
        let before = process.cpu_ns()?;
        let (statistics, saturation) = self.run(LENGTH, || {
            thread::sleep(MARGIN);
            let start = Runnable::of(process)?;
            thread::sleep(LENGTH - 2 * MARGIN);
            start.until_now(process)
        })?;
        let us =
            process.cpu_ns()?.saturating_sub(before) as f64 / 1000.0 / statistics.successes().max(1) as f64;
        let fault = match statistics.failures().next() {
            Some((outcome, count)) => Some(format!("{count} operations failed ({outcome})")),
            None if saturation.runnable < RUNNABLE_MIN => {
                Some(format!("the server was not saturated: runnable {:.0} %", 100.0 * saturation.runnable))
            }
            None => self.load.not_resumed(&statistics, statistics.successes()),
        };
        Ok((us, fault))
    }

    fn run<T>(&mut self, length: Duration, meanwhile: impl FnOnce() -> Result<T>) -> Result<(Statistics, T)> {
        let scenario = Arc::new(self.flow.caller(Length::Fixed(Duration::ZERO)).scenario()?);
        let size = match self.load.connections {
            ConnectionUse::PerAttempt => WINDOW_OF_CONNECTIONS,
            ConnectionUse::Shared | ConnectionUse::PerUser => WINDOW,
        };
        let window = Window { size, length, attempts: u64::MAX };
        let session = self.session.take().context("an earlier reading failed")?;
        let running = session.start_window(Side::Callers, &scenario, window)?;
        let result = meanwhile()?;
        let (statistics, session) = running.finish_session()?;
        self.session = Some(session);
        Ok((statistics, result))
    }
}

/// Measures the loads in turn; the cost of each is the sum of its costs of all `flows`.
///
/// # Errors
/// A load of which no reading counts; one on Kamailio is left out.
pub(super) fn measure(servers: &Servers, flows: &[Flow], loads: &[Load], rounds: u32) -> Result<Readings> {
    let open =
        |load| flows.iter().map(|&flow| Contestant::open(servers, flow, load)).collect::<Result<Vec<_>>>();
    let (mut contestants, note) = open_all(loads, open)?;
    let name_of = |parts: &Vec<Contestant>| parts.first().map_or("", |part| part.load.name);
    let mut readings = in_turn(&mut contestants, rounds, name_of, |parts| {
        let mut sum = (0.0, None);
        for part in parts {
            let (us, fault) = part.read(servers)?;
            sum = (sum.0 + us, sum.1.or(fault));
        }
        Ok(sum)
    })?;
    readings.notes.extend(note);
    Ok(readings)
}

/// Smallest share of the time in which the busiest thread of a saturated server runs or waits for its processor. Handshakes
/// on other threads of the server leave its worker nothing to do for moments.
pub(super) const RUNNABLE_MIN: f64 = 0.90;

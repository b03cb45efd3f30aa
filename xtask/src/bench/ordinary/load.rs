//! Load by SIPp at a fixed rate on one server after another, and the CPU time that each uses for it.

use super::Plan;
use crate::interop::sipp::{Connections, Load, Sipp, Statistics, User};
use crate::interop::{Stage, Transport};
use anyhow::{Context, Result, anyhow};
use ringway_lab::digest::{Algorithm, PASSWORD};
use ringway_lab::floor::Kind;
use ringway_lab::statistics::median;
use ringway_lab::subject::{Environment, Routing, Settings, Store, Subject, Under, free_port};
use ringway_lab::template::Carrier;
use std::thread;
use std::time::Duration;

/// Maximum share of failed or retransmitted operations in a valid reading.
const FAULTS_MAX: f64 = 0.01;

/// Minimum share of the rate that SIPp must reach in a valid reading.
const RATE_MIN: f64 = 0.95;

/// Time from the start of the last operation to its end, and of SIPp's own start and end.
const LAST_OPERATION_S: f64 = 0.25;

/// Time after a reading for what a server with a store on disk still has to write.
pub(super) const WRITING: Duration = Duration::from_millis(1300);

/// The same for other servers, which only finish what they do.
const FINISHING: Duration = Duration::from_millis(200);

/// Messages of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Traffic {
    /// REGISTER, 200.
    Register,
    /// REGISTER, 401, REGISTER, 200.
    RegisterPair,
    /// INVITE, 100 if stateful, 180, 200, ACK, BYE, 200.
    Call,
}

/// An offered load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) what: &'static str,
    pub(super) traffic: Traffic,
    /// Operations a second.
    pub(super) rate: u32,
    pub(super) carrier: Carrier,
    pub(super) routing: Routing,
}

/// A server in the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Sends the same messages without reading them.
    Echo,
    Kamailio,
    /// With SQLite, relaxed.
    Ringway,
    /// With `memory:`.
    RingwayInMemory,
}

/// Result of one reading.
#[derive(Clone, Debug)]
struct Reading {
    /// CPU time of the whole server per operation, in microseconds.
    us: f64,
    /// Reason for which the reading does not count.
    fault: Option<String>,
}

/// All readings of one server.
pub(super) struct Readings {
    pub(super) side: Side,
    /// The readings, or the error that ended them.
    taken: Result<Vec<Reading>>,
}

/// A server with its phones.
struct Player {
    side: Side,
    subject: Subject,
    /// Folder of SIPp's files.
    stage: Stage,
    /// Port of the caller, or of the registering phone.
    caller: u16,
    /// Port of the called phone.
    callee: u16,
    /// Number of runs so far.
    runs: u32,
}

impl Side {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Kamailio => "kamailio",
            Self::Ringway => "ringway",
            Self::RingwayInMemory => "ringway with memory:",
        }
    }

    /// Time after a reading in which the server's CPU time still counts.
    const fn rest(self) -> Duration {
        match self {
            Self::Ringway => WRITING,
            Self::Echo | Self::Kamailio | Self::RingwayInMemory => FINISHING,
        }
    }
}

impl Readings {
    /// Median of the valid readings, and the smallest and largest.
    ///
    /// # Errors
    /// There is no valid reading.
    pub(super) fn us(&self) -> Result<[f64; 3]> {
        let taken = self.taken.as_ref().map_err(|error| anyhow!("{}: {error:#}", self.side.name()))?;
        let valid = || taken.iter().filter(|reading| reading.fault.is_none()).map(|reading| reading.us);
        if valid().count() == 0 {
            return Err(anyhow!("{}: no valid reading: {}", self.side.name(), self.faults().join("; ")));
        }
        let (low, high) =
            valid().fold((f64::INFINITY, 0.0), |(low, high), us| (f64::min(low, us), f64::max(high, us)));
        Ok([median(valid()), low, high])
    }

    /// Reasons of the readings that do not count.
    pub(super) fn faults(&self) -> Vec<String> {
        let taken = self.taken.as_ref().map(Vec::as_slice).unwrap_or_default();
        taken.iter().filter_map(|reading| reading.fault.clone()).collect()
    }
}

impl Point {
    /// Number of operations in a reading.
    fn operations(&self, plan: Plan) -> u32 {
        self.rate * plan.seconds
    }

    fn settings(&self, environment: &Environment, side: Side, plan: Plan) -> Settings {
        let store = match side {
            Side::RingwayInMemory => Store::Memory,
            Side::Echo | Side::Kamailio | Side::Ringway => {
                Store::Sqlite(environment.folder.join(format!("{}.db", self.what.replace(' ', "-"))))
            }
        };
        let challenge = (self.traffic == Traffic::RegisterPair).then_some(Algorithm::Md5);
        Settings { store, challenge, ..Settings::open(self.operations(plan), self.routing) }
    }

    const fn floor(&self) -> Kind {
        match (self.traffic, self.carrier, self.routing) {
            (Traffic::Call, Carrier::Tcp, _) => Kind::BlockingStreamRelay,
            (Traffic::Call, Carrier::Udp, Routing::Stateless) => Kind::BlockingRelayStateless,
            (Traffic::Call, Carrier::Udp, _) => Kind::BlockingRelay,
            (Traffic::Register | Traffic::RegisterPair, Carrier::Tcp, _) => Kind::BlockingStream,
            (Traffic::Register | Traffic::RegisterPair, Carrier::Udp, _) => Kind::BlockingEcho,
        }
    }

    const fn transport(&self) -> Transport {
        transport(self.carrier)
    }

    /// Users in the order in which they register or call; each calls the next one.
    fn users(&self, plan: Plan) -> Vec<User> {
        let count = self.operations(plan);
        let name = |number: u32| format!("u{:07}", number % count);
        // SIPp reads a password with spaces in quotes.
        let user = |number| User {
            name: name(number),
            password: format!("\"{PASSWORD}\""),
            callee: name(number + 1),
        };
        (0..count).map(user).collect()
    }
}

/// Measures all sides in turn (A B C, A B C, …), after one run of each that is not counted.
pub(super) fn measure(environment: &Environment, point: &Point, sides: &[Side], plan: Plan) -> Vec<Readings> {
    eprintln!("{} at {}/s", point.what, point.rate);
    let users = point.users(plan);
    let mut players: Vec<Result<Player>> =
        sides.iter().map(|&side| Player::start(environment, point, side, plan, &users)).collect();
    let mut all: Vec<Readings> = sides.iter().map(|&side| Readings { side, taken: Ok(Vec::new()) }).collect();
    for round in 1..=plan.rounds {
        for (player, readings) in players.iter_mut().zip(&mut all) {
            let Ok(taken) = &mut readings.taken else { continue };
            let reading = match player {
                Ok(player) => player.reading(point, plan, &users),
                Err(error) => Err(anyhow!("{error:#}")),
            };
            let name = readings.side.name();
            match reading {
                Ok(reading) => {
                    let fault = reading.fault.as_ref().map(|fault| format!(", does not count: {fault}"));
                    eprintln!(
                        "  round {round} of {}: {name} {:.2} µs{}",
                        plan.rounds,
                        reading.us,
                        fault.unwrap_or_default()
                    );
                    taken.push(reading);
                }
                Err(error) => {
                    eprintln!("  round {round} of {}: {name} failed: {error:#}", plan.rounds);
                    readings.taken = Err(error);
                }
            }
        }
    }
    all
}

impl Player {
    /// Starts the server and registers all users from the ports of the later runs.
    fn start(
        environment: &Environment,
        point: &Point,
        side: Side,
        plan: Plan,
        users: &[User],
    ) -> Result<Self> {
        let settings = point.settings(environment, side, plan);
        let (caller, callee) = (free_port()?, free_port()?);
        let subject = match side {
            Side::Echo => environment.floor_between(point.floor(), &[caller, callee])?,
            Side::Kamailio => {
                let program = environment.kamailio.as_ref().context("kamailio is not installed")?;
                environment.kamailio(program, &settings, point.carrier)?
            }
            Side::Ringway | Side::RingwayInMemory => {
                if settings.challenge.is_some() {
                    environment.import_users(&settings)?;
                }
                environment.ringway(&settings, Under::Itself)?
            }
        };
        let folder = environment.folder.join(format!("sipp-{}", subject.port()));
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut player = Self { side, subject, stage: Stage::outside(folder), caller, callee, runs: 0 };
        let statistics = match (point.traffic, side) {
            (Traffic::Call, Side::Echo) => return Ok(player),
            // Over UDP, as a binding over TCP ends with its connection; from the port at which the called phone will listen.
            (Traffic::Call, _) => {
                let phone = Phone { port: callee, contact: callee, carrier: Carrier::Udp };
                player.register(point, phone, 2 * point.rate, users)?
            }
            (Traffic::Register | Traffic::RegisterPair, _) => {
                player.register(point, phone_at(point, caller)?, 2 * point.rate, users)?
            }
        };
        match statistics.successful {
            0 => Err(anyhow!("{} accepts no REGISTER", side.name())),
            _ => Ok(player),
        }
    }

    fn reading(&mut self, point: &Point, plan: Plan, users: &[User]) -> Result<Reading> {
        let before = self.subject.process.cpu_ns()?;
        let statistics = match point.traffic {
            Traffic::Call => self.call(point, users)?,
            Traffic::Register | Traffic::RegisterPair => {
                self.register(point, phone_at(point, self.caller)?, point.rate, users)?
            }
        };
        thread::sleep(self.side.rest());
        let used = self.subject.process.cpu_ns()?.saturating_sub(before);
        let operations = f64::from(point.operations(plan));
        Ok(Reading {
            us: used as f64 / 1000.0 / operations,
            fault: fault(&statistics, operations, point.rate),
        })
    }

    /// Registers every user once at `rate`.
    fn register(&mut self, point: &Point, phone: Phone, rate: u32, users: &[User]) -> Result<Statistics> {
        self.runs += 1;
        let parts: &[&str] = match (point.traffic, self.side) {
            (Traffic::RegisterPair, Side::Echo) => &["echo", "echo-digest"],
            (_, Side::Echo) => &["echo"],
            (Traffic::RegisterPair, _) => &["digest", "server"],
            (Traffic::Register | Traffic::Call, _) => &["server"],
        };
        let words = [
            ("CSEQ", (2 * self.runs).to_string()),
            ("NEXT", (2 * self.runs + 1).to_string()),
            ("CONTACT", phone.contact.to_string()),
            ("TRANSPORT", point.transport().name().to_owned()),
            ("AFTER", if self.side == Side::Echo { "0" } else { "500" }.to_owned()),
        ];
        let mut sipp = self.sipp(point, "load-register", phone.port, users);
        (sipp.parts, sipp.words, sipp.transport) = (parts, &words, transport(phone.carrier));
        sipp.load = Some(Load { rate, calls: users.len() });
        sipp.play(&self.stage)
    }

    /// Lets every user call the next one.
    fn call(&mut self, point: &Point, users: &[User]) -> Result<Statistics> {
        let mut answering = self.sipp(point, "load-answer", self.callee, users);
        answering.server = None;
        let _answering = answering.start(&self.stage)?;
        let mut calling = self.sipp(point, "load-call", phone_at(point, self.caller)?.port, users);
        if point.routing == Routing::Stateful {
            calling.parts = &["stateful"];
        }
        calling.play(&self.stage)
    }

    fn sipp<'a>(&self, point: &Point, scenario: &'a str, port: u16, users: &'a [User]) -> Sipp<'a> {
        Sipp {
            scenario,
            role: scenario,
            parts: &[],
            words: &[],
            users,
            port,
            server: Some(self.subject.port()),
            transport: point.transport(),
            connections: Connections::One,
            contact: None,
            load: Some(Load { rate: point.rate, calls: users.len() }),
        }
    }
}

const fn transport(carrier: Carrier) -> Transport {
    match carrier {
        Carrier::Udp => Transport::Udp,
        Carrier::Tcp => Transport::Tcp,
    }
}

/// Ports of a registering phone.
#[derive(Clone, Copy)]
struct Phone {
    /// Its own port.
    port: u16,
    /// Port in its Contact, the same in all runs, so that they refresh a binding.
    contact: u16,
    /// Transport of the REGISTER; that of the Contact is the point's.
    carrier: Carrier,
}

/// A phone over TCP has another port for each connection, as the last one is not free again at once.
fn phone_at(point: &Point, contact: u16) -> Result<Phone> {
    let port = match point.carrier {
        Carrier::Udp => contact,
        Carrier::Tcp => free_port()?,
    };
    Ok(Phone { port, contact, carrier: point.carrier })
}

/// Reason for which a reading does not count.
fn fault(statistics: &Statistics, operations: f64, rate: u32) -> Option<String> {
    let failed = operations - statistics.successful as f64;
    if failed > FAULTS_MAX * operations {
        return Some(format!("{failed} of {operations} operations failed"));
    }
    if statistics.retransmissions as f64 > FAULTS_MAX * operations {
        return Some(format!("{} retransmissions in {operations} operations", statistics.retransmissions));
    }
    let seconds_max = operations / (RATE_MIN * f64::from(rate)) + LAST_OPERATION_S;
    (operations / statistics.rate > seconds_max)
        .then(|| format!("SIPp reached {:.0} of {rate} operations a second", statistics.rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(taken: Vec<(f64, Option<&str>)>) -> Readings {
        let taken = taken.into_iter().map(|(us, fault)| Reading { us, fault: fault.map(str::to_owned) });
        Readings { side: Side::Echo, taken: Ok(taken.collect()) }
    }

    #[test]
    fn readings_with_faults_do_not_count() {
        let some = readings(vec![(8.0, None), (90.0, Some("lost")), (7.0, None), (7.5, None)]);
        assert_eq!(some.us().unwrap(), [7.5, 7.0, 8.0]);
        assert_eq!(some.faults(), ["lost"]);
        assert!(readings(vec![(90.0, Some("lost"))]).us().unwrap_err().to_string().contains("lost"));
    }

    #[test]
    fn failures_retransmissions_and_a_slow_generator_are_faults() {
        let good = Statistics { successful: 5950, failed: 50, retransmissions: 60, rate: 2950.0 };
        assert_eq!(fault(&good, 6000.0, 3000), None);
        let bad = [
            Statistics { successful: 5930, ..good },
            Statistics { retransmissions: 61, ..good },
            Statistics { rate: 2400.0, ..good },
        ];
        for statistics in bad {
            assert!(fault(&statistics, 6000.0, 3000).is_some(), "{statistics:?}");
        }
    }
}

//! Load at a fixed rate on one server after another, and the CPU time that each uses for it.

use super::sipp::{Generator, Phones};
use super::{Plan, Played, Point, Traffic};
use anyhow::{Context, Result, anyhow};
use ringway_lab::floor::Kind;
use ringway_lab::server::Algorithm;
use ringway_lab::server::Carrier;
use ringway_lab::statistics::median;
use ringway_lab::subject::{Environment, Routing, Settings, Store, Subject, Under};
use std::thread;
use std::time::Duration;

/// Maximum share of failed or retransmitted operations in a valid reading.
const FAULTS_MAX: f64 = 0.01;

/// Time after a reading for what a server with a store on disk still has to write.
pub(super) const WRITING: Duration = Duration::from_millis(1300);

/// Interval at which SIPp looks at its clock and its sockets.
const SIPP_TICK: Duration = Duration::from_millis(1);

/// The same for other servers, which only finish what they do.
const FINISHING: Duration = Duration::from_millis(200);

/// A server in the comparison, and what loads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Sends the same messages and reads only their first line.
    Echo,
    Kamailio,
    /// With SQLite, relaxed.
    Ringway,
    /// With `memory:`.
    RingwayInMemory,
    /// Like [`Side::Ringway`], with SIPp as load.
    RingwayBySipp,
    /// Like [`Side::Ringway`], with messages that wait for SIPp's tick.
    RingwayInTicks,
}

/// Result of one reading.
#[derive(Clone, Debug)]
struct Reading {
    /// CPU time of the whole server per operation, in microseconds.
    us: f64,
    /// Share of successful operations.
    success: f64,
    /// Reason for which the reading does not count.
    fault: Option<String>,
}

/// All readings of one server.
pub(super) struct Readings {
    pub(super) side: Side,
    /// The readings, or the error that ended them.
    taken: Result<Vec<Reading>>,
}

/// A server with its load.
struct Player {
    side: Side,
    subject: Subject,
    load: Load,
}

enum Load {
    Generator(Box<Generator>),
    Sipp(Phones),
}

impl Side {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Kamailio => "kamailio",
            Self::Ringway => "ringway",
            Self::RingwayInMemory => "ringway with memory:",
            Self::RingwayBySipp => "ringway with SIPp",
            Self::RingwayInTicks => "ringway in ticks of 1 ms",
        }
    }

    /// Time after a reading in which the server's CPU time still counts.
    const fn rest(self) -> Duration {
        match self {
            Self::Ringway | Self::RingwayBySipp | Self::RingwayInTicks => WRITING,
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
        let valid = || self.valid().map(|reading| reading.us);
        if let Err(error) = &self.taken {
            return Err(anyhow!("{}: {error:#}", self.side.name()));
        }
        if valid().count() == 0 {
            return Err(anyhow!("{}: no valid reading: {}", self.side.name(), self.faults().join("; ")));
        }
        let (low, high) =
            valid().fold((f64::INFINITY, 0.0), |(low, high), us| (f64::min(low, us), f64::max(high, us)));
        Ok([median(valid()), low, high])
    }

    /// Median share of successful operations in the valid readings.
    pub(super) fn success(&self) -> f64 {
        median(self.valid().map(|reading| reading.success))
    }

    /// One valid reading.
    #[cfg(test)]
    pub(super) fn fixed(side: Side, us: f64, success: f64) -> Self {
        Self { side, taken: Ok(vec![Reading { us, success, fault: None }]) }
    }

    /// Reasons of the readings that do not count.
    pub(super) fn faults(&self) -> Vec<String> {
        self.all().filter_map(|reading| reading.fault.clone()).collect()
    }

    fn valid(&self) -> impl Iterator<Item = &Reading> {
        self.all().filter(|reading| reading.fault.is_none())
    }

    fn all(&self) -> impl Iterator<Item = &Reading> {
        self.taken.as_ref().map(Vec::as_slice).unwrap_or_default().iter()
    }
}

impl Point {
    /// Number of operations in a reading, and of users.
    fn operations(&self, plan: Plan) -> u32 {
        self.rate * plan.seconds
    }

    fn settings(&self, environment: &Environment, side: Side, plan: Plan) -> Settings {
        let database =
            |end: &str| environment.folder.join(format!("{}{end}.db", self.what.replace(' ', "-")));
        let store = match side {
            Side::RingwayInMemory => Store::Memory,
            Side::Echo | Side::Kamailio | Side::Ringway => Store::Sqlite(database("")),
            Side::RingwayBySipp => Store::Sqlite(database("-sipp")),
            Side::RingwayInTicks => Store::Sqlite(database("-ticks")),
        };
        let challenge = (self.traffic == Traffic::RegisterPair).then_some(Algorithm::Md5);
        Settings { store, challenge, ..Settings::open(self.operations(plan), self.routing) }
    }

    const fn floor(&self) -> Kind {
        match (self.traffic, self.carrier, self.routing) {
            (Traffic::Call, Carrier::Udp, Routing::Stateless) => Kind::BlockingRelayStateless,
            (Traffic::Call, Carrier::Udp, _) => Kind::BlockingRelay,
            (Traffic::Call, _, _) => Kind::BlockingStreamRelay,
            (Traffic::Register, Carrier::Udp, _) => Kind::BlockingEcho,
            (Traffic::RegisterPair, Carrier::Udp, _) => Kind::BlockingChallenge,
            (Traffic::Register | Traffic::RegisterPair, _, _) => Kind::BlockingStream,
        }
    }
}

/// Measures all sides in turn (A B C, A B C, …), after one run of each that is not counted.
pub(super) fn measure(environment: &Environment, point: &Point, sides: &[Side], plan: Plan) -> Vec<Readings> {
    eprintln!("{} at {}/s", point.what, point.rate);
    let mut players: Vec<Result<Player>> =
        sides.iter().map(|&side| Player::start(environment, point, side, plan)).collect();
    let mut all: Vec<Readings> = sides.iter().map(|&side| Readings { side, taken: Ok(Vec::new()) }).collect();
    for round in 1..=plan.rounds {
        for (player, readings) in players.iter_mut().zip(&mut all) {
            let Ok(taken) = &mut readings.taken else { continue };
            let reading = match player {
                Ok(player) => player.reading(point, plan),
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
    /// Starts the server and registers its users.
    fn start(environment: &Environment, point: &Point, side: Side, plan: Plan) -> Result<Self> {
        let settings = point.settings(environment, side, plan);
        let subject = match side {
            Side::Echo => environment.floor(point.floor(), point.operations(plan))?,
            Side::Kamailio => {
                let program = environment.kamailio.as_ref().context("kamailio is not installed")?;
                environment.kamailio(program, &settings, point.carrier)?
            }
            Side::Ringway | Side::RingwayInMemory | Side::RingwayBySipp | Side::RingwayInTicks => {
                if settings.challenge.is_some() {
                    environment.import_users(&settings)?;
                }
                environment.ringway(&settings, Under::Itself)?
            }
        };
        let load = match side {
            Side::RingwayBySipp => {
                Load::Sipp(Phones::start(environment, point, settings.users, subject.port())?)
            }
            Side::RingwayInTicks => {
                let generator = Generator::start(point, settings.users, subject.port())?;
                Load::Generator(generator.ticking(SIPP_TICK).into())
            }
            Side::Echo | Side::Kamailio | Side::Ringway | Side::RingwayInMemory => {
                Load::Generator(Generator::start(point, settings.users, subject.port())?.into())
            }
        };
        thread::sleep(side.rest());
        Ok(Self { side, subject, load })
    }

    fn reading(&mut self, point: &Point, plan: Plan) -> Result<Reading> {
        let before = self.subject.process.cpu_ns()?;
        let played = match &mut self.load {
            Load::Generator(generator) => generator.play(point, plan.seconds)?,
            Load::Sipp(phones) => phones.play(point)?,
        };
        thread::sleep(self.side.rest());
        let used = self.subject.process.cpu_ns()?.saturating_sub(before);
        let operations = f64::from(point.operations(plan));
        Ok(Reading {
            us: used as f64 / 1000.0 / operations,
            success: played.successful as f64 / operations,
            fault: fault(played, operations),
        })
    }
}

/// Reason for which a reading does not count.
fn fault(played: Played, operations: f64) -> Option<String> {
    let failed = operations - played.successful as f64;
    if failed > FAULTS_MAX * operations {
        return Some(format!("{failed} of {operations} operations failed"));
    }
    if played.retransmissions as f64 > FAULTS_MAX * operations {
        return Some(format!("{} retransmissions in {operations} operations", played.retransmissions));
    }
    played.slow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(taken: Vec<(f64, Option<&str>)>) -> Readings {
        let reading =
            |(us, fault): (f64, Option<&str>)| Reading { us, success: 1.0, fault: fault.map(str::to_owned) };
        Readings { side: Side::Echo, taken: Ok(taken.into_iter().map(reading).collect()) }
    }

    #[test]
    fn readings_with_faults_do_not_count() {
        let some = readings(vec![(8.0, None), (90.0, Some("lost")), (7.0, None), (7.5, None)]);
        assert_eq!(some.us().unwrap(), [7.5, 7.0, 8.0]);
        assert_eq!(some.faults(), ["lost"]);
        assert!(readings(vec![(90.0, Some("lost"))]).us().unwrap_err().to_string().contains("lost"));
    }

    #[test]
    fn failures_retransmissions_and_a_slow_load_are_faults() {
        let good = Played { successful: 5950, retransmissions: 60, slow: None };
        assert_eq!(fault(good.clone(), 6000.0), None);
        let bad = [
            Played { successful: 5930, ..good.clone() },
            Played { retransmissions: 61, ..good.clone() },
            Played { slow: Some("late".to_owned()), ..good },
        ];
        for played in bad {
            assert!(fault(played.clone(), 6000.0).is_some(), "{played:?}");
        }
    }
}

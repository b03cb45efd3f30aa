//! Load by the generator, in sessions with its users, and by SIPp, as a cross-check.

use super::{Played, Point, Traffic};
use crate::interop::sipp::{self, Connections, Load, Sipp, User};
use crate::interop::{self, Stage};
use anyhow::{Context, Result, ensure};
use ringway_lab::load::{Flow, Length, Plan, Session, Statistics, Users};
use ringway_lab::server::PASSWORD;
use ringway_lab::server::{Carrier, DOMAIN};
use ringway_lab::subject::{Environment, Routing, free_port};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Minimum share of the rate that SIPp must reach in a valid reading.
const RATE_MIN: f64 = 0.95;

/// Time from the start of the last operation to its end, and of SIPp's own start and end.
const LAST_OPERATION_S: f64 = 0.25;

/// SIPp's phones of one server.
pub(super) struct Phones {
    server: u16,
    /// Folder of SIPp's files.
    stage: Stage,
    users: Vec<User>,
    /// Port of the caller, or of the registering phone.
    caller: u16,
    /// Port of the called phone.
    callee: u16,
    /// Number of runs so far.
    runs: u32,
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

impl Phones {
    /// Registers all users with the server at the port `server`, from the ports of the later runs.
    pub(super) fn start(environment: &Environment, point: &Point, users: u32, server: u16) -> Result<Self> {
        let folder = environment.folder.join(format!("sipp-{server}"));
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let (caller, callee) = (free_port()?, free_port()?);
        let stage = Stage::outside(folder);
        let mut phones = Self { server, stage, users: rows(users), caller, callee, runs: 0 };
        let phone = match point.traffic {
            // Over UDP, as a binding over TCP ends with its connection; from the port at which the called phone will listen.
            Traffic::Call => Phone { port: callee, contact: callee, carrier: Carrier::Udp },
            Traffic::Register | Traffic::RegisterPair => phone_at(point, caller)?,
        };
        let statistics = phones.register(point, phone, 2 * point.rate)?;
        ensure!(statistics.successful > 0, "the server accepts no REGISTER of SIPp");
        Ok(phones)
    }

    /// Makes the load of `point` once.
    pub(super) fn play(&mut self, point: &Point) -> Result<Played> {
        let statistics = match point.traffic {
            Traffic::Call => self.call(point)?,
            Traffic::Register | Traffic::RegisterPair => {
                self.register(point, phone_at(point, self.caller)?, point.rate)?
            }
        };
        Ok(Played {
            successful: statistics.successful,
            retransmissions: statistics.retransmissions,
            slow: slow(statistics.rate, self.users.len() as f64, point.rate),
        })
    }

    /// Registers every user once at `rate`.
    fn register(&mut self, point: &Point, phone: Phone, rate: u32) -> Result<sipp::Statistics> {
        self.runs += 1;
        let parts: &[&str] = if point.traffic == Traffic::RegisterPair { &["digest"] } else { &[] };
        let words = [
            ("CSEQ", (2 * self.runs).to_string()),
            ("NEXT", (2 * self.runs + 1).to_string()),
            ("CONTACT", phone.contact.to_string()),
            ("TRANSPORT", transport(point.carrier).name().to_owned()),
        ];
        let mut sipp = self.sipp(point, "load-register", phone.port);
        (sipp.parts, sipp.words, sipp.transport) = (parts, &words, transport(phone.carrier));
        sipp.load = Some(Load { rate, calls: self.users.len() });
        sipp.play(&self.stage)
    }

    /// Lets every user call the next one.
    fn call(&self, point: &Point) -> Result<sipp::Statistics> {
        let mut answering = self.sipp(point, "load-answer", self.callee);
        answering.server = None;
        let _answering = answering.start(&self.stage)?;
        let mut calling = self.sipp(point, "load-call", phone_at(point, self.caller)?.port);
        if point.routing == Routing::Stateful {
            calling.parts = &["stateful"];
        }
        calling.play(&self.stage)
    }

    fn sipp<'a>(&'a self, point: &Point, scenario: &'a str, port: u16) -> Sipp<'a> {
        Sipp {
            scenario,
            role: scenario,
            parts: &[],
            words: &[],
            users: &self.users,
            port,
            server: Some(self.server),
            transport: transport(point.carrier),
            connections: Connections::One,
            contact: None,
            load: Some(Load { rate: point.rate, calls: self.users.len() }),
        }
    }
}

/// Users in the order in which they register or call; each calls the next one.
fn rows(count: u32) -> Vec<User> {
    let name = |number: u32| format!("u{:07}", number % count);
    // SIPp reads a password with spaces in quotes.
    let user =
        |number| User { name: name(number), password: format!("\"{PASSWORD}\""), callee: name(number + 1) };
    (0..count).map(user).collect()
}

/// Debian's SIPp has no TLS and no WebSocket; the bench measures neither.
const fn transport(carrier: Carrier) -> interop::Transport {
    match carrier {
        Carrier::Udp => interop::Transport::Udp,
        Carrier::Tcp | Carrier::Tls | Carrier::Ws | Carrier::Wss => interop::Transport::Tcp,
    }
}

/// A phone over TCP has another port for each connection, as the last one is not free again at once.
fn phone_at(point: &Point, contact: u16) -> Result<Phone> {
    let port = match point.carrier {
        Carrier::Udp => contact,
        Carrier::Tcp | Carrier::Tls | Carrier::Ws | Carrier::Wss => free_port()?,
    };
    Ok(Phone { port, contact, carrier: point.carrier })
}

/// Text for a reading in which SIPp was too slow.
fn slow(reached: f64, operations: f64, rate: u32) -> Option<String> {
    let seconds_max = operations / (RATE_MIN * f64::from(rate)) + LAST_OPERATION_S;
    (operations / reached > seconds_max)
        .then(|| format!("SIPp reached {reached:.0} of {rate} operations a second"))
}

/// Time that a call rings, and that it lasts.
const PAUSE: Duration = Duration::from_millis(50);

/// The generator with its sockets and registered users, while no load is under way.
pub(super) struct Generator {
    session: Option<Session>,
    tick: Duration,
}

impl Generator {
    /// Registers `users` users with the server at `port`, or those that will be called.
    pub(super) fn start(point: &Point, users: u32, port: u16) -> Result<Self> {
        let flow = match point.traffic {
            Traffic::Register | Traffic::RegisterPair => Flow::Update,
            Traffic::Call => Flow::Call,
        };
        let transport = point.carrier.transport();
        let plan = Plan { transport, ..plan(flow, users, port)? };
        Ok(Self { session: Some(Session::open(&plan)?), tick: Duration::ZERO })
    }

    /// Lets messages in both directions wait for a tick.
    pub(super) fn ticking(self, tick: Duration) -> Self {
        Self { session: self.session.map(|session| session.ticking(tick)), tick }
    }

    /// Makes the load of `point` once.
    pub(super) fn play(&mut self, point: &Point, seconds: u32) -> Result<Played> {
        let session = self.session.take().context("an earlier reading failed")?;
        let length = Duration::from_secs(seconds.into());
        let (statistics, session) = session.start(point.rate.into(), length)?.finish_session()?;
        self.session = Some(session);
        Ok(played(&statistics, self.tick))
    }
}

/// Plan of a session; rate and length are those of each load.
pub(super) fn plan(flow: Flow, users: u32, port: u16) -> Result<Plan> {
    let callers = Users::by_rule("u", 7, 0, users, PASSWORD)?;
    // Each calls the next one.
    let peers = Users::by_rule("u", 7, 1, users, PASSWORD)?;
    Ok(Plan {
        // A floor that relays records no route.
        is_outbound_proxy: true,
        domain: DOMAIN.to_owned(),
        ring: Length::Fixed(PAUSE),
        talk: Length::Fixed(PAUSE),
        ..Plan::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), flow, callers, peers)
    })
}

fn played(statistics: &Statistics, tick: Duration) -> Played {
    Played {
        successful: statistics.successes(),
        retransmissions: statistics.counters().retransmissions,
        slow: statistics.health().invalid_with(tick).map(|(reason, _)| reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_sipp_is_found_out() {
        assert_eq!(slow(2950.0, 6000.0, 3000), None);
        assert!(slow(2400.0, 6000.0, 3000).is_some_and(|text| text.contains("2400 of 3000")));
    }
}

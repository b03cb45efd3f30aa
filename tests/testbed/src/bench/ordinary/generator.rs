//! Load by the generator: a session with its users, for one reading after another.

use super::point::{Played, Point, Traffic};
use anyhow::{Context, Result};
use ringway_lab::load::{Flow, Length, Plan, Session, Statistics, Transport, Users};
use ringway_lab::server::PASSWORD;
use ringway_lab::server::{Carrier, DOMAIN};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

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
        let transport = match point.carrier {
            Carrier::Udp => Transport::Udp,
            Carrier::Tcp => Transport::Tcp,
        };
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

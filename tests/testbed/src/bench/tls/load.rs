//! Loads on the servers, and their readings.

use super::servers::{Handshake, Servers, Which};
use anyhow::{Context, Result, ensure};
use ringway_lab::load::{ConnectionUse, Flow, Length, LoadTls, Plan, Session, Statistics, Transport, Users};
use ringway_lab::server::DOMAIN;
use ringway_lab::server::PASSWORD;
use ringway_lab::statistics::median;
use ringway_tls::{Observer, Role};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Length of a reading.
pub(super) const SECONDS: u32 = 2;
/// Time after a reading in which the server's CPU time still counts.
pub(super) const REST: Duration = Duration::from_millis(200);
/// Time that a call rings, and that it lasts.
const PAUSE: Duration = Duration::from_millis(50);
/// REGISTERs before a load that are open at a time.
const REGISTER_WINDOW: u32 = 32;

/// A load on one of the servers.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) server: Which,
    pub(super) transport: Transport,
    pub(super) connections: ConnectionUse,
    pub(super) handshake: Handshake,
    /// Round trips over a new TCP connection, in place of a handshake's.
    pub(super) round_trips: u8,
}

impl Load {
    pub(super) const fn ringway(name: &'static str, transport: Transport) -> Self {
        Self {
            name,
            server: Which::Ringway,
            transport,
            connections: ConnectionUse::Shared,
            handshake: Handshake::USUAL,
            round_trips: 0,
        }
    }

    /// A connection for each attempt.
    pub(super) const fn each(self) -> Self {
        Self { connections: ConnectionUse::PerAttempt, ..self }
    }

    pub(super) const fn at(self, server: Which) -> Self {
        Self { server, ..self }
    }

    pub(super) const fn with(self, handshake: Handshake) -> Self {
        Self { handshake, ..self }
    }

    pub(super) fn plan(self, servers: &Servers, flow: Flow, users: u32) -> Result<Plan> {
        // Bindings of closed connections remain, so users of an earlier reading would have too many contacts, and calls to them forks.
        let prefix = format!("r{}u", READINGS.fetch_add(1, Ordering::Relaxed));
        let callers = Users::by_rule(&prefix, 7, 0, users, PASSWORD)?;
        let peers = Users::by_rule(&prefix, 7, 1, users, PASSWORD)?;
        let name = self.handshake.name().map(str::to_owned);
        let tls = match self.transport.is_secure() {
            true => Some(LoadTls::load(&servers.files.client(self.handshake)?, name, Arc::new(Reports))?),
            false => None,
        };
        let target = servers.get(self.server)?.address(self.transport);
        Ok(Plan {
            transport: self.transport,
            tls,
            connections: self.connections,
            round_trips: self.round_trips,
            domain: DOMAIN.to_owned(),
            ring: Length::Fixed(PAUSE),
            talk: Length::Fixed(PAUSE),
            register_window: Some(REGISTER_WINDOW.min(users)),
            ..Plan::new(target, flow, callers, peers)
        })
    }

    /// Reason why a reading does not count.
    fn fault(self, statistics: &Statistics, offered: u64) -> Option<String> {
        let done = statistics.successes();
        if done * 100 < offered * 99 {
            return Some(format!("{done} of {offered} successful"));
        }
        self.not_resumed(statistics, offered).or_else(|| statistics.health().invalid_because())
    }

    /// Reason if more than 2 % of the attempts made full handshakes where sessions should be resumed.
    pub(super) fn not_resumed(self, statistics: &Statistics, attempts: u64) -> Option<String> {
        let is_full = self.handshake.is_resumed && statistics.wire().tls_full > attempts / 50;
        is_full.then(|| "sessions were not resumed".to_owned())
    }
}

/// Operations of a row, at a fixed rate.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) flow: Flow,
    pub(super) rate: u32,
    /// The registrations of the called users are part of the operation: each reading makes them anew, over new connections.
    pub(super) has_registration: bool,
}

/// CPU times of a row's loads.
pub(super) struct Readings {
    /// Medians in µs.
    pub(super) us: Vec<f64>,
    pub(super) cells: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Readings {
    /// Medians of readings by load.
    ///
    /// # Errors
    /// A load of which no reading counts.
    pub(super) fn of(taken: &[(&'static str, Vec<f64>)], notes: Vec<String>) -> Result<Self> {
        let (mut us, mut cells) = (Vec::new(), Vec::new());
        for (name, taken) in taken {
            ensure!(!taken.is_empty(), "{name}: no valid reading: {}", notes.join("; "));
            let middle = median(taken.iter().copied());
            us.push(middle);
            cells.push(format!("{name} {middle:.1} µs"));
        }
        Ok(Self { us, cells, notes })
    }
}

/// Takes readings of each contestant in turn.
///
/// # Errors
/// A reading failed; a load has no reading that counts.
pub(super) fn in_turn<C>(
    contestants: &mut [C],
    rounds: u32,
    name_of: impl Fn(&C) -> &'static str,
    mut read: impl FnMut(&mut C) -> Result<(f64, Option<String>)>,
) -> Result<Readings> {
    let mut taken: Vec<_> = contestants.iter().map(|contestant| (name_of(contestant), Vec::new())).collect();
    let mut notes = Vec::new();
    for round in 1..=rounds {
        for (contestant, (name, taken)) in contestants.iter_mut().zip(&mut taken) {
            let (us, fault) = read(contestant).context(*name)?;
            eprintln!("  round {round}: {name} {us:.1} µs {}", fault.as_deref().unwrap_or_default());
            match fault {
                None => taken.push(us),
                Some(fault) => notes.push(format!("{name}: {fault}")),
            }
        }
    }
    Readings::of(&taken, notes)
}

/// Opens a contestant for each load; one on Kamailio that cannot be opened is left out, with a note.
///
/// # Errors
/// Another one cannot be opened.
pub(super) fn open_all<C>(
    loads: &[Load],
    open: impl Fn(Load) -> Result<C>,
) -> Result<(Vec<C>, Option<String>)> {
    let (mut contestants, mut note) = (Vec::new(), None);
    for &load in loads {
        match open(load) {
            Ok(contestant) => contestants.push(contestant),
            Err(error) if load.server == Which::Kamailio => note = Some(format!("{}: {error:#}", load.name)),
            Err(error) => return Err(error.context(load.name)),
        }
    }
    Ok((contestants, note))
}

/// A load at a fixed rate.
pub(super) struct Contestant {
    pub(super) load: Load,
    operation: Operation,
    plan: Plan,
    /// Between two readings of loads whose registrations do not count.
    session: Option<Session>,
}

/// Measures the loads in turn.
///
/// # Errors
/// A load of which no reading counts.
pub(super) fn measure(
    servers: &Servers,
    operation: Operation,
    loads: &[Load],
    rounds: u32,
) -> Result<Readings> {
    let (mut contestants, note) = open_all(loads, |load| Contestant::open(servers, operation, load))?;
    let mut readings = in_turn(&mut contestants, rounds, |it| it.load.name, |it| it.read(servers))?;
    readings.notes.extend(note);
    Ok(readings)
}

impl Contestant {
    pub(super) fn open(servers: &Servers, operation: Operation, load: Load) -> Result<Self> {
        let plan = load.plan(servers, operation.flow, operation.rate * SECONDS)?;
        let session = if operation.has_registration { None } else { Some(Session::open(&plan)?) };
        Ok(Self { load, operation, plan, session })
    }

    /// CPU time of an operation in µs, and the reason why it does not count.
    pub(super) fn read(&mut self, servers: &Servers) -> Result<(f64, Option<String>)> {
        let operation = self.operation;
        let process = &servers.get(self.load.server)?.process;
        let before = process.cpu_ns()?;
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::open(&self.plan)?,
        };
        let length = Duration::from_secs(SECONDS.into());
        let running = session.start(operation.rate.into(), length)?;
        let (statistics, again) = running.finish_session()?;
        if operation.has_registration {
            drop(again);
        } else {
            self.session = Some(again);
        }
        thread::sleep(REST);
        let used = process.cpu_ns()?.saturating_sub(before);
        let us = used as f64 / 1000.0 / statistics.successes().max(1) as f64;
        Ok((us, self.load.fault(&statistics, u64::from(operation.rate * SECONDS))))
    }
}

struct Reports;

impl Observer for Reports {
    fn failed(&self, remote: SocketAddr, _role: Role, reason: &str) {
        eprintln!("  TLS with {remote} failed: {reason}");
    }
}

/// Number of readings so far.
static READINGS: AtomicU32 = AtomicU32::new(0);

//! Readings: the CPU time that a loop, the generator or SIPp uses for the same load.

use super::{Kind, Reading, bare};
use crate::interop::sipp::{Connections, Load, Sipp, User};
use crate::interop::{self, Stage};
use crate::process::cpu_s;
use anyhow::{Context, Result};
use ringway_lab::floor;
use ringway_lab::load::in_memory::{PAUSE, messages};
use ringway_lab::load::{Delay, Flow, Length, Plan, Statistics, Users, run};
use ringway_lab::subject::{Environment, Subject, free_port};
use std::net::{SocketAddrV4, UdpSocket};
use std::thread;
use std::time::Duration;

/// A load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) kind: Kind,
    /// Attempts a second.
    pub(super) rate: u32,
    pub(super) attempts: u32,
}

/// Program that makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    Bare,
    Generator,
    Sipp,
}

/// The peer, and what the contestants need.
pub(super) struct Field {
    subject: Subject,
    stage: Stage,
    /// Messages of an attempt, of each kind.
    messages: [Vec<Vec<u8>>; 2],
    runs: u32,
}

impl Field {
    /// Starts the peer.
    pub(super) fn start(environment: &Environment) -> Result<Self> {
        let subject = environment.floor(floor::Kind::Peer, 1)?;
        let folder = environment.folder.join("sipp");
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let messages = [messages(Flow::Register)?, messages(Flow::Call)?];
        Ok(Self { subject, stage: Stage::outside(folder), messages, runs: 0 })
    }

    /// Makes the load once.
    pub(super) fn reading(&mut self, contestant: Contestant, point: Point) -> Result<Reading> {
        match contestant {
            Contestant::Bare => {
                let messages = self.messages.get(point.kind as usize).context("no messages")?;
                bare::play(point.kind, point.rate.into(), point.attempts.into(), self.peer(), messages)
            }
            Contestant::Generator => {
                let statistics = self.generated(point.kind, point.rate.into(), point.attempts)?;
                Ok(Reading {
                    cpu_ns: statistics.generator_cpu().as_nanos() as f64,
                    attempts: point.attempts.into(),
                    ended: statistics.successes(),
                    lag_p99: statistics.percentile(Delay::Lag, 99.0).unwrap_or_default(),
                })
            }
            Contestant::Sipp => self.sipp(point),
        }
    }

    /// Runs the generator.
    pub(super) fn generated(&self, kind: Kind, rate: f64, attempts: u32) -> Result<Statistics> {
        let users = |first, count| Users::by_rule("u", 7, first, count, "");
        let count = match kind {
            Kind::Register => USERS_REGISTER,
            Kind::Call => USERS_CALL,
        };
        let plan = Plan {
            rate,
            length: Duration::from_secs_f64((f64::from(attempts) - 0.5) / rate),
            ring: Length::Fixed(PAUSE),
            talk: Length::Fixed(PAUSE),
            ..Plan::new(self.peer().into(), kind.flow(), users(0, count)?, users(count, count)?)
        };
        run(&plan)?.finish()
    }

    fn peer(&self) -> SocketAddrV4 {
        SocketAddrV4::new(super::HOST, self.subject.port())
    }

    /// Runs SIPp; the CPU time of a run with one call, its start and end, is taken off.
    fn sipp(&mut self, point: Point) -> Result<Reading> {
        let empty = self.sipp_run(Point { attempts: 1, ..point })?;
        let full = self.sipp_run(point)?;
        Ok(Reading { cpu_ns: full.cpu_ns - empty.cpu_ns, ..full })
    }

    fn sipp_run(&mut self, point: Point) -> Result<Reading> {
        self.runs += 1;
        let (caller, phone) = (free_port()?, free_port()?);
        let users = users(USERS_CALL);
        let words = [
            ("CSEQ", self.runs.to_string()),
            ("NEXT", String::new()),
            ("CONTACT", caller.to_string()),
            ("TRANSPORT", "udp".to_owned()),
        ];
        let sipp = |scenario, port, server| Sipp {
            scenario,
            role: scenario,
            parts: if point.kind == Kind::Call { &["stateful"] } else { &[] },
            words: &words,
            users: &users,
            port,
            server,
            transport: interop::Transport::Udp,
            connections: Connections::One,
            contact: None,
            load: Some(Load { rate: point.rate, calls: point.attempts as usize }),
        };
        let answering = match point.kind {
            Kind::Register => None,
            Kind::Call => {
                let socket = UdpSocket::bind((super::HOST, phone)).context("bind the phone's port")?;
                socket.send_to(b"REGISTER\r\n", self.peer()).context("register")?;
                socket.recv_from(&mut [0; 64]).context("register")?;
                drop(socket);
                Some(sipp("load-answer", phone, None).start(&self.stage)?)
            }
        };
        let scenario = if point.kind == Kind::Call { "load-call" } else { "load-register" };
        let calling = sipp(scenario, caller, Some(self.subject.port()));
        let running = calling.start(&self.stage)?;
        let mut used_s = 0.0;
        while !running.has_ended()? {
            // A process that is ending has no threads any more.
            used_s = cpu_s(&running).unwrap_or_default().max(used_s);
            thread::sleep(LOOK_EVERY);
        }
        let statistics = calling.finish(&self.stage, running)?;
        if let Some(answering) = &answering {
            used_s += cpu_s(answering)?;
        }
        Ok(Reading {
            cpu_ns: used_s * 1e9,
            attempts: point.attempts.into(),
            ended: statistics.successful,
            lag_p99: Duration::ZERO,
        })
    }
}

fn users(count: u32) -> Vec<User> {
    let name = |number: u32| format!("u{number:07}");
    (0..count)
        .map(|number| User { name: name(number), password: "x".to_owned(), callee: name(count + number) })
        .collect()
}

/// Numbers of users; a user has one REGISTER at a time.
const USERS_REGISTER: u32 = 100_000;
const USERS_CALL: u32 = 1000;
/// Interval at which the CPU time of SIPp is read.
const LOOK_EVERY: Duration = Duration::from_millis(5);

//! SIPp against the server: registrations and calls, without and with digest, over UDP and TCP. `kill -9` of the
//! server: users registered before can be called after the restart.

use anyhow::{Context, Result};
use std::time::Duration;

use super::server::{Mode, Server, Wanted};
use super::sipp::{Connections, Sipp, User, succeeded};
use super::{Scenario, Stage, Transport};
use crate::process::free_port;

/// Number of users in a scenario.
const USERS: usize = 20;

/// Registrations and calls by SIPp, in every combination of transport and authentication.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        for digest in [false, true] {
            for (name, kind) in KINDS {
                let protection = if digest { "digest" } else { "open" };
                let name = format!("sipp/{name}/{}/{protection}", transport.name());
                all.push(Scenario::new(name, move |stage: &Stage| {
                    Play { stage, transport, digest }.run(kind)
                }));
            }
        }
    }
    all
}

#[derive(Clone, Copy)]
enum Kind {
    /// REGISTER only; then checks whether the users are registered.
    Register {
        scenario: &'static str,
        registered: bool,
    },
    Answered(Mode),
    /// A call rejected with this status; the callee is unknown, or not registered.
    Refused(&'static str),
    Redirected,
    RedirectFollowed,
}

const KINDS: [(&str, Kind); 9] = [
    ("register", Kind::Register { scenario: "register", registered: true }),
    ("update", Kind::Register { scenario: "update", registered: true }),
    ("logout", Kind::Register { scenario: "logout", registered: false }),
    ("call-stateful", Kind::Answered(Mode::Stateful)),
    ("call-stateless", Kind::Answered(Mode::Stateless)),
    ("call-not-found", Kind::Refused("404")),
    ("call-not-registered", Kind::Refused("480")),
    ("redirect", Kind::Redirected),
    ("redirect-followed", Kind::RedirectFollowed),
];

/// One scenario with its choices.
pub(crate) struct Play<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) transport: Transport,
    pub(crate) digest: bool,
}

impl Play<'_> {
    fn run(&self, kind: Kind) -> Result<()> {
        match kind {
            Kind::Register { scenario, registered } => self.register_only(scenario, registered),
            Kind::Answered(mode) => self.answered(mode, ""),
            Kind::Refused(status) => self.refused(status),
            Kind::Redirected => self.redirected(),
            Kind::RedirectFollowed => self.redirect_followed(),
        }
    }

    fn register_only(&self, scenario: &str, registered: bool) -> Result<()> {
        let users = users("caller", "callee");
        let server = self.server(Mode::Stateful, &users)?;
        self.sipp(scenario, "register", &users, free_port()?, Some(server.port)).run(self.stage)?;
        server.expect_registered(users.iter().map(|user| user.name.as_str()), registered)
    }

    /// Users register, and others call them through a server in this mode and with these further lines of `[auth]`.
    pub(crate) fn answered(&self, mode: Mode, auth: &'static str) -> Result<()> {
        let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
        let wanted = Wanted { digest: self.digest, auth, mode, ..Wanted::default() };
        let accounts = [callers.clone(), callees.clone()].concat();
        let server = Server::start(self.stage, wanted, &accounts_of(&accounts))?;
        let callee_port = free_port()?;
        self.sipp("register", "register", &callees, callee_port, Some(server.port)).run(self.stage)?;
        let parts: &[&str] = match (mode, self.digest) {
            (Mode::Stateless, true) => &["digest"],
            (Mode::Stateless, false) => &["open"],
            (Mode::Stateful | Mode::Redirect, true) => &["digest", "stateful"],
            (Mode::Stateful | Mode::Redirect, false) => &["open", "stateful"],
        };
        self.call([&callers, &callees], callee_port, server.port, parts)
    }

    /// Callees answer at `callee_port` the calls that callers make through the server at `server_port`, each from a port of its own.
    pub(crate) fn call(
        &self,
        [callers, callees]: [&[User]; 2],
        callee_port: u16,
        server_port: u16,
        parts: &[&str],
    ) -> Result<()> {
        let mut answering = self.sipp("answer", "callee", callees, callee_port, None);
        answering.parts = &["routed"];
        let mut answering = answering.start(self.stage)?;
        let mut calling = self.sipp("call", "caller", callers, free_port()?, Some(server_port));
        calling.connections = Connections::OnePerCall;
        calling.parts = parts;
        calling.run(self.stage)?;
        succeeded("callee", &mut answering)
    }

    fn refused(&self, status: &str) -> Result<()> {
        let callers = users("caller", if status == "404" { "nobody" } else { "callee" });
        let server = self.server(Mode::Stateful, &[callers.clone(), users("callee", "caller")].concat())?;
        let words = [("STATUS", status.to_owned())];
        let mut calling = self.sipp("refused", "caller", &callers, free_port()?, Some(server.port));
        calling.words = &words;
        calling.run(self.stage)
    }

    fn redirected(&self) -> Result<()> {
        let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
        let server = self.server(Mode::Redirect, &[callers.clone(), callees.clone()].concat())?;
        self.sipp("register", "register", &callees, free_port()?, Some(server.port)).run(self.stage)?;
        self.sipp("redirected", "caller", &callers, free_port()?, Some(server.port)).run(self.stage)
    }

    fn redirect_followed(&self) -> Result<()> {
        let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
        let server = self.server(Mode::Redirect, &[callers.clone(), callees.clone()].concat())?;
        let callee_port = free_port()?;
        self.sipp("register", "register", &callees, callee_port, Some(server.port)).run(self.stage)?;
        let mut answering = self.sipp("answer", "callee", &callees, callee_port, None);
        answering.parts = &["unrouted"];
        let mut answering = answering.start(self.stage)?;
        let mut calling = self.sipp("redirect-followed", "caller", &callers, free_port()?, Some(server.port));
        // Only in this mode SIPp connects to another address over TCP.
        calling.connections = Connections::OnePerCall;
        calling.run(self.stage)?;
        succeeded("callee", &mut answering)
    }

    fn server(&self, mode: Mode, users: &[User]) -> Result<Server> {
        let wanted = Wanted { digest: self.digest, mode, ..Wanted::default() };
        Server::start(self.stage, wanted, &accounts_of(users))
    }

    pub(crate) fn sipp<'a>(
        &self,
        scenario: &'a str,
        role: &'a str,
        users: &'a [User],
        port: u16,
        server: Option<u16>,
    ) -> Sipp<'a> {
        let parts: &[&str] = if self.digest { &["digest"] } else { &["open"] };
        Sipp {
            scenario,
            role,
            parts,
            words: &[],
            users,
            port,
            server,
            transport: self.transport,
            connections: Connections::One,
            contact: self.stage.ringway.contact_for(self.transport),
            load: None,
        }
    }
}

fn accounts_of(users: &[User]) -> Vec<(String, String)> {
    users.iter().map(|user| (user.name.clone(), user.password.clone())).collect()
}

/// Twenty users `NAME00`, `NAME01`, … who call the other twenty.
pub(crate) fn users(name: &str, callee: &str) -> Vec<User> {
    let numbered = |n: usize| {
        let name = format!("{name}{n:02}");
        User { password: format!("secret-{name}"), callee: format!("{callee}{n:02}"), name }
    };
    (0..USERS).map(numbered).collect()
}

/// Number of kills in a scenario.
const ROUNDS: u32 = 10;

/// Ten rounds with each setting of `durability`.
pub(crate) fn restart_scenarios() -> Vec<Scenario> {
    let mut all = vec![
        Scenario::new("restart/kill-9/relaxed", |stage: &Stage| rounds(stage, false)),
        Scenario::new("restart/kill-9/strict", |stage: &Stage| rounds(stage, true)),
    ];
    for scenario in &mut all {
        // Kamailio as the reference keeps its bindings in memory only.
        scenario.reference = false;
    }
    all
}

fn rounds(stage: &Stage, strict: bool) -> Result<()> {
    for round in 1..=ROUNDS {
        let own = stage.within(&format!("round-{round}"))?;
        let transport = if round % 2 == 0 { Transport::Tcp } else { Transport::Udp };
        if let Err(error) = one(&own, strict, transport) {
            super::print_traces(&own.folder);
            return Err(error).with_context(|| format!("round {round} of {ROUNDS}, {}", transport.name()));
        }
    }
    Ok(())
}

/// Registers twenty users, kills the server as early as its durability permits, and calls all of them after
/// the restart.
fn one(stage: &Stage, strict: bool, transport: Transport) -> Result<()> {
    let play = Play { stage, transport, digest: true };
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let accounts: Vec<_> =
        callers.iter().chain(&callees).map(|user| (user.name.clone(), user.password.clone())).collect();
    let mut server = Server::start(stage, Wanted { strict, ..Wanted::default() }, &accounts)?;
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(server.port)).run(stage)?;
    if !strict {
        // "Relaxed": a binding is on disk a second after its 200.
        std::thread::sleep(Duration::from_millis(1050));
    }
    server.kill();
    server.start_again().context("after kill -9")?;
    server.expect_registered(callees.iter().map(|user| user.name.as_str()), true).context("after kill -9")?;
    let mut answering = play.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    let mut calling = play.sipp("call", "caller", &callers, free_port()?, Some(server.port));
    calling.parts = &["digest", "stateful"];
    calling.run(stage).context("after kill -9")?;
    succeeded("callee", &mut answering)
}

//! Generators without sockets: both sides of the load and the peer in one thread, with a simulated clock.
//!
//! Nothing but the generators costs more than the copy of a message, so that instructions and bytes can be counted.

use super::{Flow as LoadFlow, Length, Users};
use crate::floor::Peer;
use anyhow::{Context as _, Result, bail};
use ringway_load::{Action, Arrivals, Classic, Config, Generator, Outcome, Spacing};
use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received, Seed, Transport};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

/// Address of the peer.
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5060);
const CALLER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 20_001);
const PHONE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 20_002);

/// Ring time and talk time of calls.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Time between two messages of an exchange.
const DELAY: Duration = Duration::from_micros(50);

/// The generators of a load and their [`Peer`].
pub struct Stage {
    now: Instant,
    caller: Generator,
    phone: Generator,
    peer: Peer,
    out: Outbox,
    actions: Vec<Action>,
    /// Messages on their way: destination, source, bytes.
    wire: VecDeque<(SocketAddrV4, SocketAddrV4, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Messages that the generators sent, while they are recorded.
    sent: Option<Vec<Vec<u8>>>,
    /// Number of successful attempts.
    pub successes: u64,
    /// True if nobody answers.
    pub is_mute: bool,
}

impl Stage {
    /// Plans `attempts` at `rate` a second for `users` users.
    pub fn new(flow: LoadFlow, attempts: u64, rate: f64, users: u32) -> Result<Self> {
        let now = Instant::from_secs(1000);
        let length = Duration::from_secs_f64((attempts as f64 - 0.5) / rate);
        let arrivals = Arrivals::new(rate, Spacing::Fixed, now, length);
        let pause = Length::Fixed(PAUSE);
        let caller = match flow {
            LoadFlow::Register => Classic::Register,
            LoadFlow::Call => Classic::Call { talk: pause },
            other => bail!("{} cannot be played in memory", other.name()),
        };
        let phone = Classic::Answer { ring: pause };
        let users = Users::by_rule("u", 7, 0, users, "")?;
        let generator = |classic: Classic, local, arrivals, seed| -> Result<Generator> {
            let config = config(classic, local, arrivals, users.clone())?;
            Ok(Generator::new(config, &Seed::from_number(seed), now))
        };
        let mut peer = Peer::new(PEER);
        peer.receive(b"REGISTER\r\n", PHONE, |_, _| {});
        Ok(Self {
            now,
            caller: generator(caller, CALLER, Some(arrivals), 1)?,
            phone: generator(phone, PHONE, None, 2)?,
            peer,
            out: Outbox::new(),
            actions: Vec::new(),
            wire: VecDeque::new(),
            spare: Vec::new(),
            sent: None,
            successes: 0,
            is_mute: false,
        })
    }

    /// Runs until all attempts have ended.
    pub fn play(&mut self) -> Result<()> {
        while !self.caller.is_done() {
            self.turn()?;
        }
        Ok(())
    }

    /// Runs until no attempt is planned and no transaction is left.
    pub fn settle(&mut self) -> Result<()> {
        self.play()?;
        while self.caller.transactions_len() != (0, 0) || self.phone.transactions_len() != (0, 0) {
            self.turn()?;
        }
        Ok(())
    }

    /// Number of open attempts.
    pub fn open(&self) -> usize {
        self.caller.open()
    }

    /// Releases the buffers of the network.
    pub fn release_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// Goes to the next deadline or message.
    pub fn turn(&mut self) -> Result<()> {
        if self.wire.is_empty() {
            let deadlines = [&self.caller, &self.phone].map(Generator::next_deadline);
            let next = deadlines.into_iter().flatten().map(|deadline| deadline.at).min();
            self.now = next.context("nothing is left to do")?.max(self.now);
            for is_caller in [true, false] {
                let generator = if is_caller { &self.caller } else { &self.phone };
                if generator.next_deadline().is_some_and(|deadline| deadline.at <= self.now) {
                    self.run(is_caller, |generator, cx| generator.on_timeout(cx));
                }
            }
        } else {
            self.now = self.now + DELAY;
        }
        for _ in 0..self.wire.len() {
            let Some((to, from, bytes)) = self.wire.pop_front() else { break };
            self.deliver(to, from, &bytes);
            self.spare.push(bytes);
        }
        Ok(())
    }

    fn deliver(&mut self, to: SocketAddrV4, from: SocketAddrV4, bytes: &[u8]) {
        if to == PEER {
            let Self { peer, wire, spare, is_mute, .. } = self;
            return peer.receive(bytes, from, |to, bytes| {
                if !*is_mute {
                    push(wire, spare, (to, PEER, bytes));
                }
            });
        }
        let received = Received::new(Flow::udp(ListenerId(0), SocketAddr::V4(from)), bytes);
        self.run(to == CALLER, |generator, cx| generator.on_message(cx, received));
    }

    fn run(&mut self, is_caller: bool, run: impl FnOnce(&mut Generator, &mut Context<'_, Action>)) {
        let mut cx = Context::new(self.now, &mut self.out, &mut self.actions);
        run(if is_caller { &mut self.caller } else { &mut self.phone }, &mut cx);
        let from = if is_caller { CALLER } else { PHONE };
        for (packet, bytes) in self.out.packets() {
            if let SocketAddr::V4(to) = packet.flow.remote {
                push(&mut self.wire, &mut self.spare, (to, from, bytes));
            }
            if let Some(sent) = &mut self.sent {
                sent.push(bytes.to_vec());
            }
        }
        self.out.clear();
        let is_success =
            |action: &Action| matches!(action, Action::Ended(report) if report.outcome == Outcome::Success);
        self.successes +=
            self.actions.drain(..).filter(|action| is_caller && is_success(action)).count() as u64;
    }
}

type Wire = VecDeque<(SocketAddrV4, SocketAddrV4, Vec<u8>)>;

fn push(wire: &mut Wire, spare: &mut Vec<Vec<u8>>, (to, from, bytes): (SocketAddrV4, SocketAddrV4, &[u8])) {
    let mut copy = spare.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(bytes);
    wire.push_back((to, from, copy));
}

/// Messages of one attempt, in the order in which the generators send them.
pub fn messages(flow: LoadFlow) -> Result<Vec<Vec<u8>>> {
    let mut stage = Stage::new(flow, 1, 1.0, 1)?;
    stage.sent = Some(Vec::new());
    stage.play()?;
    if stage.successes != 1 {
        bail!("the attempt failed");
    }
    stage.sent.context("nothing was recorded")
}

fn config(classic: Classic, local: SocketAddrV4, arrivals: Option<Arrivals>, users: Users) -> Result<Config> {
    Ok(Config {
        scenario: Arc::new(classic.scenario()?),
        peers: users.clone(),
        users,
        domain: "localhost".to_owned(),
        remote: PEER.into(),
        transport: Transport::Udp,
        connections: Default::default(),
        is_outbound_proxy: false,
        locals: vec![local.into()],
        media: local.into(),
        media_use: Default::default(),
        arrivals,
        timers: Default::default(),
        attempts_max: 2 * Config::ATTEMPTS_MAX,
        honours_retry_after: false,
        silence_max: Config::SILENCE_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_an_attempt_are_those_of_the_scenario() {
        let first_words = |flow| -> Vec<String> {
            let messages = messages(flow).unwrap();
            let line =
                |message: &Vec<u8>| String::from_utf8_lossy(message).lines().next().unwrap().to_owned();
            messages.iter().map(|message| line(message).replace("SIP/2.0 ", "")).collect()
        };
        assert_eq!(first_words(LoadFlow::Register), ["REGISTER sip:localhost SIP/2.0"]);
        let call = first_words(LoadFlow::Call);
        assert!(call[0].starts_with("INVITE ") && call[3].starts_with("ACK ") && call[4].starts_with("BYE "));
        assert_eq!([&call[1], &call[2], &call[5]], ["180 Ringing", "200 OK", "200 OK"]);
    }
}

//! Phones at a network without delay or loss.

use ringway_agent::{Account, Config, Listener};
use ringway_media::MediaSession;
use ringway_phone::{
    Action, CallMediaEvent, CallNumber, Levels, MediaCommand, Phone, PhoneCommand, PhoneConfig, PhoneEvent,
};
use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received, Seed, Transport};
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) const ALICE: usize = 0;
pub(crate) const BOB: usize = 1;
pub(crate) const CAROL: usize = 2;

/// A phone with its front end.
pub(crate) struct Station {
    pub(crate) phone: Phone,
    pub(crate) address: SocketAddr,
    pub(crate) events: Vec<PhoneEvent>,
    pub(crate) sessions: Vec<(CallNumber, MediaSession)>,
    pub(crate) commands: Vec<(CallNumber, MediaCommand)>,
    pub(crate) is_ringing: bool,
    pub(crate) stored: usize,
    /// Calls whose media are being closed; `None`: they are closed at once.
    pub(crate) closing: Option<Vec<CallNumber>>,
    /// Result of opening media; `None`: it is not opened.
    pub(crate) opening: Option<Result<SocketAddr, String>>,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) stations: Vec<Station>,
}

/// A call into a phone.
type Call<'a> = Box<dyn FnOnce(&mut Phone, &mut Context<'_, Action>) + 'a>;

impl World {
    /// Phones alice, bob and carol, configured by `change`.
    pub(crate) fn new(change: impl Fn(usize, &mut PhoneConfig)) -> Self {
        let now = Instant::from_secs(1_000);
        let mut world = Self { now, stations: Vec::new() };
        for (place, name) in ["alice", "bob", "carol"].into_iter().enumerate() {
            let address = SocketAddr::from(([192, 0, 2, 1 + place as u8], 5060));
            let account = Account::direct(&format!("sip:{name}@{address}"));
            let listener = Listener { transport: Transport::Udp, address };
            let mut config = PhoneConfig::new(Config::new(vec![account], vec![listener]));
            change(place, &mut config);
            let seed = Seed::from_number(place as u64);
            world.stations.push(Station {
                phone: Phone::new(config, &seed, now).unwrap(),
                address,
                events: Vec::new(),
                sessions: Vec::new(),
                commands: Vec::new(),
                is_ringing: false,
                stored: 0,
                closing: None,
                opening: Some(Ok(SocketAddr::new(address.ip(), 4000))),
            });
            world.run(place, |phone, cx| phone.start(cx));
        }
        world
    }

    pub(crate) fn command(&mut self, at: usize, command: PhoneCommand) {
        self.run(at, |phone, cx| phone.command(cx, command));
    }

    /// Calls; returns the number of the new call at the caller.
    pub(crate) fn call(&mut self, from: usize, to: usize) -> CallNumber {
        let to = self.uri(to);
        self.command(from, PhoneCommand::Call { to });
        let calling = |event: &PhoneEvent| match event {
            PhoneEvent::Calling { call, .. } => Some(*call),
            _ => None,
        };
        self.stations[from].events.iter().rev().find_map(calling).unwrap()
    }

    /// An established call, by its numbers at the caller and at the callee.
    pub(crate) fn talking(&mut self, from: usize, to: usize) -> (CallNumber, CallNumber) {
        let call = self.call(from, to);
        let called = self.incoming(to);
        self.command(to, PhoneCommand::Answer { call: called });
        (call, called)
    }

    /// Confirms that the media of calls are closed.
    pub(crate) fn close_media(&mut self, at: usize) {
        for call in self.stations[at].closing.take().unwrap() {
            self.run(at, |phone, cx| phone.on_media_closed(cx, call));
        }
    }

    /// The last incoming call of a phone.
    pub(crate) fn incoming(&self, at: usize) -> CallNumber {
        let incoming = |event: &PhoneEvent| match event {
            PhoneEvent::Incoming { call, .. } => Some(*call),
            _ => None,
        };
        self.stations[at].events.iter().rev().find_map(incoming).unwrap()
    }

    pub(crate) fn uri(&self, at: usize) -> String {
        self.stations[at].phone.account().unwrap().aor.clone()
    }

    pub(crate) fn media(&mut self, at: usize, call: CallNumber, event: CallMediaEvent) {
        self.run(at, |phone, cx| phone.on_media(cx, call, event));
    }

    pub(crate) fn levels(&mut self, at: usize, call: CallNumber) {
        self.media(at, call, CallMediaEvent::Levels(Levels { sent_db: -10.0, received_db: -20.0 }));
    }

    /// Events of a phone since the last time.
    pub(crate) fn events(&mut self, at: usize) -> Vec<PhoneEvent> {
        std::mem::take(&mut self.stations[at].events)
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.stations.iter().filter_map(|station| station.phone.next_deadline());
            let Some(at) = due.map(|due| due.at).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            for place in 0..self.stations.len() {
                self.run(place, Phone::on_timeout);
            }
        }
        self.now = end;
    }

    /// Runs `f` with a phone, then everything that follows from it.
    pub(crate) fn run(&mut self, at: usize, f: impl FnOnce(&mut Phone, &mut Context<'_, Action>)) {
        self.run_boxed(at, Box::new(f));
    }

    fn run_boxed(&mut self, at: usize, f: Call<'_>) {
        let (mut out, mut actions) = (Outbox::new(), Vec::new());
        f(&mut self.stations[at].phone, &mut Context::new(self.now, &mut out, &mut actions));
        for action in actions {
            self.act(at, action);
        }
        let source = self.stations[at].address;
        let sent: Vec<_> =
            out.packets().map(|(packet, bytes)| (packet.flow.remote, bytes.to_vec())).collect();
        for (to, bytes) in sent {
            if let Some(place) = self.stations.iter().position(|station| station.address == to) {
                let flow = Flow::udp(ListenerId(0), source);
                self.run(place, |phone, cx| phone.on_message(cx, Received::new(flow, &bytes)));
            }
        }
    }

    fn act(&mut self, at: usize, action: Action) {
        let station = &mut self.stations[at];
        match action {
            Action::Resolve { .. } => {}
            Action::Event(event) => station.events.push(event),
            Action::OpenMedia { call, session } => {
                station.sessions.push((call, *session));
                if let Some(opened) = station.opening.clone() {
                    self.run(at, |phone, cx| phone.on_media_opened(cx, call, opened));
                }
            }
            Action::Media { call, command } => station.commands.push((call, command)),
            Action::CloseMedia { call } => {
                station.sessions.retain(|(of, _)| *of != call);
                if let Some(closing) = &mut station.closing {
                    return closing.push(call);
                }
                self.run(at, |phone, cx| phone.on_media_closed(cx, call));
            }
            Action::StartRinging => station.is_ringing = true,
            Action::StopRinging => station.is_ringing = false,
            Action::Retain(_) | Action::Forget(_) => station.stored += 1,
        }
    }
}

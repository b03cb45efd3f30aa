//! One script of commands and SIP messages against both front ends of the phone: Linux on loopback, the image on a cable in
//! memory. Both must report the same events.

mod peer;

use crate::phone::settings::{MediaSettings, Settings};
use crate::phone::telephone::{Behaviour, Telephone};
use peer::{Peer, PeerNode};
use ringway_agent::{Account, Trace};
use ringway_audio::{Input, Source};
use ringway_ethernet::{Lease, Port, Station, Worked};
use ringway_linux::SystemLocks;
use ringway_metal::{Hardware, Memory, PhoneMachine, Program, tables_with};
use ringway_phone::{
    CallNumber, Digit, Hold, IncomingPolicy, PhoneCommand, PhoneEvent, SrtpPolicy, TransferPolicy,
};
use ringway_sansio::{Flow, Instant, ListenerId, Seed, Token, Transport};
use ringway_test_support::ethernet::cable::{Frames, Plug};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn both_front_ends_report_the_same_events() {
    let linux = replay(&mut Linux::new());
    let image = replay(&mut Image::new());
    assert_eq!(linux, image);
    let ended = linux.iter().filter(|event| matches!(event, PhoneEvent::Ended { .. }));
    assert_eq!(ended.count(), 4, "{linux:#?}");
}

/// A front end with a scripted peer at its network.
trait FrontEnd {
    fn command(&mut self, command: PhoneCommand);

    /// Has the peer send the messages that `f` returns.
    fn peer(&mut self, f: fn(&mut Peer) -> Vec<String>);

    /// Lets a moment pass; returns the events of it.
    fn pass(&mut self) -> Vec<PhoneEvent>;
}

/// Runs the script; returns the events without levels and figures, which depend on the time.
fn replay(front: &mut impl FrontEnd) -> Vec<PhoneEvent> {
    let mut events = Vec::new();
    let call = CallNumber;
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Registered { .. }));

    front.command(PhoneCommand::Call { to: "sip:bob@example.org".to_owned() });
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Answered { .. }));
    front.command(PhoneCommand::Hold { call: call(1) });
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Held { hold: Hold::Ours, .. }));
    front.command(PhoneCommand::Resume { call: call(1) });
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Held { hold: Hold::None, .. }));
    front.command(PhoneCommand::Dtmf { call: call(1), digit: Digit::new('5').unwrap() });
    front.peer(Peer::hang_up);
    wait(front, &mut events, is_end);

    front.peer(Peer::call);
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Incoming { .. }));
    front.command(PhoneCommand::Answer { call: call(2) });
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Answered { .. }));
    // The peer has sent its ACK by then.
    (0..20).for_each(|_| assert!(front.pass().iter().all(|event| !is_of_the_script(event))));
    front.peer(Peer::hold);
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Held { hold: Hold::Theirs, .. }));
    front.command(PhoneCommand::HangUp { call: call(2) });
    wait(front, &mut events, is_end);

    front.command(PhoneCommand::Call { to: "sip:busy@example.org".to_owned() });
    wait(front, &mut events, is_end);

    front.peer(Peer::call);
    wait(front, &mut events, |event| matches!(event, PhoneEvent::Incoming { .. }));
    front.command(PhoneCommand::HangUp { call: call(4) });
    wait(front, &mut events, is_end);
    events
}

fn is_end(event: &PhoneEvent) -> bool {
    matches!(event, PhoneEvent::Ended { .. })
}

/// True for an event that does not depend on the time or the machine.
fn is_of_the_script(event: &PhoneEvent) -> bool {
    !matches!(
        event,
        PhoneEvent::Levels { .. }
            | PhoneEvent::Media { .. }
            | PhoneEvent::Network(_)
            | PhoneEvent::Message(_)
    )
}

/// Lets time pass until an event comes.
fn wait(front: &mut impl FrontEnd, events: &mut Vec<PhoneEvent>, is_expected: impl Fn(&PhoneEvent) -> bool) {
    let before = events.len();
    for _ in 0..STEPS_MAX {
        events.extend(front.pass().into_iter().filter(is_of_the_script));
        if events.iter().skip(before).any(&is_expected) {
            return;
        }
    }
    panic!("the expected event never came: {events:#?}");
}

/// The front end of Linux, with the peer at a socket.
struct Linux {
    telephone: Telephone,
    socket: UdpSocket,
    peer: Peer,
}

impl Linux {
    fn new() -> Self {
        let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let socket = UdpSocket::bind((home, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let media = MediaSettings {
            srtp: SrtpPolicy::None,
            input: Input::Source(Source::speech_like()),
            ..MediaSettings::default()
        };
        let account = Account::direct("sip:alice@example.org");
        let settings = Settings { trace: Trace::Off, ..Settings::at_local_server(account, address, media) };
        let behaviour = Behaviour {
            ring: Duration::from_secs(180),
            incoming: IncomingPolicy::Ask,
            transfers: TransferPolicy::Reject,
            calls_max: 1,
        };
        let telephone = Telephone::start(settings, behaviour, None).unwrap();
        Self { telephone, socket, peer: Peer::new(address) }
    }

    fn send(&self, messages: Vec<String>) {
        let to = self.telephone.listeners()[0].address;
        for message in messages {
            self.socket.send_to(message.as_bytes(), to).unwrap();
        }
    }
}

impl FrontEnd for Linux {
    fn command(&mut self, command: PhoneCommand) {
        self.telephone.command(command).unwrap();
    }

    fn peer(&mut self, f: fn(&mut Peer) -> Vec<String>) {
        let messages = f(&mut self.peer);
        self.send(messages);
    }

    fn pass(&mut self) -> Vec<PhoneEvent> {
        let mut room = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut room) {
            let responses = self.peer.on_message(&String::from_utf8_lossy(&room[..length]));
            self.send(responses);
        }
        let event = self.telephone.wait(Duration::from_millis(2)).unwrap();
        event.map(|(_, event)| event).into_iter().collect()
    }
}

/// The front end of the image, with the peer at the other end of a cable.
struct Image {
    machine: PhoneMachine<Plug>,
    peer: Station<Plug, PeerNode>,
    events: Rc<RefCell<Vec<PhoneEvent>>>,
    now: Instant,
}

impl Image {
    fn new() -> Self {
        let now = Instant::from_secs(1_800_000_000);
        let (to_machine, to_peer) = (Frames::default(), Frames::default());
        let card = Plug::new(&to_machine, &to_peer, [2, 0, 0, 0, 0, 1]);
        let words = "ip=192.0.2.1/24 account=sip:alice@example.org server=192.0.2.2 register=on srtp=none source=voice";
        let seed = Some(Seed::from_number(1));
        let hardware = Hardware {
            card_name: "a cable",
            version: "0.0.0",
            seed,
            tls_seed: None,
            boot_file: None,
            words: &[],
            tables: tables_with::<SystemLocks>(),
            step_clock: None,
            sound: None,
        };
        let mut machine = PhoneMachine::start(card, words, hardware, now);
        let events = Rc::new(RefCell::new(Vec::new()));
        let observed = Rc::clone(&events);
        machine.observe(move |event| observed.borrow_mut().push(event.clone()));
        let plug = Plug::new(&to_peer, &to_machine, [2, 0, 0, 0, 0, 2]);
        let mut peer = Station::new(plug, &Seed::from_number(2), now);
        peer.set_lease(Lease::fixed(PEER, 24, None));
        let ports = vec![Port { transport: Transport::Udp, number: 5060 }];
        peer.serve(PeerNode(Peer::new(SocketAddr::from((PEER, 5060)))), ports, 4096);
        Self { machine, peer, events, now }
    }
}

impl FrontEnd for Image {
    fn command(&mut self, command: PhoneCommand) {
        self.machine.command(self.now, command);
    }

    fn peer(&mut self, f: fn(&mut Peer) -> Vec<String>) {
        let flow = Flow::udp(ListenerId(0), SocketAddr::from((MACHINE, 5060)));
        self.peer.call(self.now, |node, cx| {
            for message in f(&mut node.0) {
                cx.out.send(flow, Token::NONE, message.as_bytes());
            }
        });
    }

    fn pass(&mut self) -> Vec<PhoneEvent> {
        self.now = self.now + Duration::from_millis(1);
        while self.peer.receive(self.now) != Worked::Nothing {}
        self.peer.run(self.now);
        while self.machine.receive(self.now) != Worked::Nothing {}
        self.machine.run(self.now, Memory::default());
        self.events.take()
    }
}

const MACHINE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// 10 s on Linux.
const STEPS_MAX: u32 = 5000;

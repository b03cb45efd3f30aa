//! Machines at a hub.

use crate::phone::helper::Helper;
use crate::phone::sound_card::Card;
use crate::phone::tap::Tap;
use ringway_ethernet::{Lease, Port, Station, Worked};
use ringway_metal::{
    CountedNode, Hardware, Memory, MemoryHost, PhoneMachine, Program, SoundCard, tables_with,
};
use ringway_sansio::{Flow, Instant, Seed, Token, Transport};
use ringway_server::Server;
use ringway_settings::MachineSettings;
use ringway_sim::SimLocks;
use ringway_test_support::ethernet::cable::{Frames, Plug};
use ringway_users::{NameHash, Subscribers};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const HELPER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const ALICE: usize = 0;
pub(crate) const BOB: usize = 1;
pub(crate) const CAROL: usize = 2;

/// The address of the phone with this number.
pub(crate) const fn phone_ip(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 10 + number as u8)
}

pub(crate) struct Network {
    pub(crate) phones: Vec<Phone>,
    pub(crate) server: Station<Plug, CountedNode<Server>>,
    pub(crate) helper: Station<Plug, Helper>,
    pub(crate) tap: Tap,
    pub(crate) now: Instant,
    ends: Vec<End>,
    cards: Vec<Card>,
}

pub(crate) struct Phone {
    pub(crate) machine: PhoneMachine<Plug>,
    /// The words of VGA's text memory.
    monitor: Vec<u16>,
    serial: Vec<u8>,
}

/// A machine's end of the cable, seen from the hub.
struct End {
    to: Frames,
    from: Frames,
}

impl End {
    fn plug_in(ends: &mut Vec<Self>) -> Plug {
        let (to, from) = (Frames::default(), Frames::default());
        let plug = Plug::new(&to, &from, [2, 0, 0, 0, 0, ends.len() as u8 + 1]);
        ends.push(Self { to, from });
        plug
    }
}

impl Network {
    /// The server with digest and its users alice, bob and carol; names and STUN; and phones with these words.
    pub(crate) fn new(phones: &[&str]) -> Self {
        let now = Instant::from_secs(1_800_000_000);
        let mut ends = Vec::new();
        let server = server(End::plug_in(&mut ends), now);
        let mut helper = Station::new(End::plug_in(&mut ends), &Seed::from_number(8), now);
        helper.set_lease(Lease::fixed(HELPER, 24, None));
        helper.serve(Helper::default(), Helper::PORTS.to_vec(), 2000);
        let mut network =
            Self { phones: Vec::new(), server, helper, tap: Tap::default(), now, ends, cards: Vec::new() };
        for (number, words) in phones.iter().enumerate() {
            let words = format!("ip={}/24 dns={HELPER} {words}", phone_ip(number));
            let seed = Some(Seed::from_number(100 + number as u64));
            network.add(&words, seed);
        }
        network
    }

    /// The next phone, at its address, with a sound card.
    pub(crate) fn add_with_card(&mut self, words: &str) -> Card {
        let card = Card::default();
        self.cards.push(card.clone());
        let number = self.phones.len();
        let words = format!("ip={}/24 {words}", phone_ip(number));
        self.add_with(&words, Some(Seed::from_number(100 + number as u64)), Some(Box::new(card.clone())));
        card
    }

    pub(crate) fn add(&mut self, words: &str, seed: Option<Seed>) {
        self.add_with(words, seed, None);
    }

    fn add_with(&mut self, words: &str, seed: Option<Seed>, sound: Option<Box<dyn SoundCard>>) {
        let hardware = Hardware {
            card_name: "a cable",
            version: "0.0.0",
            seed,
            tls_seed: None,
            boot_file: None,
            words: &["fault"],
            tables: tables_with::<SimLocks>(),
            step_clock: None,
            sound,
        };
        let machine = PhoneMachine::start(End::plug_in(&mut self.ends), words, hardware, self.now);
        self.phones.push(Phone { machine, monitor: vec![0x20; 80 * 25], serial: Vec::new() });
    }

    /// Time passes, 1 ms by 1 ms.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + Duration::from_millis(1);
            self.carry();
            self.cards.iter().for_each(Card::pass);
            let now = self.now;
            while self.server.receive(now) != Worked::Nothing {}
            self.server.run(now);
            while self.helper.receive(now) != Worked::Nothing {}
            self.helper.run(now);
            for phone in &mut self.phones {
                phone.run(now);
            }
        }
    }

    pub(crate) fn pass_ms(&mut self, milliseconds: u64) {
        self.pass(Duration::from_millis(milliseconds));
    }

    /// Time passes until a phone's log has a line with this text; at most 20 s.
    pub(crate) fn wait(&mut self, phone: usize, text: &str) {
        for _ in 0..2000 {
            if self.phones[phone].log().contains(text) {
                return;
            }
            self.pass_ms(10);
        }
        panic!("phone {phone} never said {text:?}:\n{}", self.phones[phone].log());
    }

    /// Presses and releases keys of the PC's keyboard, by scan codes.
    fn codes(&mut self, phone: usize, codes: &[u8]) {
        let machine = &mut self.phones[phone].machine;
        codes.iter().for_each(|code| machine.on_scan_code(self.now, *code));
        codes.iter().rev().for_each(|code| machine.on_scan_code(self.now, code | 0x80));
        self.pass_ms(5);
    }

    pub(crate) fn press(&mut self, phone: usize, key: char) {
        let code = match key {
            '1'..='9' => key as u8 - b'1' + 0x02,
            '0' => 0x0b,
            'h' => 0x23,
            'v' => 0x2f,
            _ => panic!("no scan code is known for {key:?}"),
        };
        self.codes(phone, &[code]);
    }

    /// Calls the quick dial key: Alt and the digit.
    pub(crate) fn dial(&mut self, phone: usize, quick: u8) {
        self.codes(phone, &[0x38, quick + 1]);
    }

    /// Ctrl-A.
    pub(crate) fn answer(&mut self, phone: usize) {
        self.codes(phone, &[0x1d, 0x1e]);
    }

    /// Ctrl-X, which rejects a call that rings.
    pub(crate) fn hang_up(&mut self, phone: usize) {
        self.codes(phone, &[0x1d, 0x2d]);
    }

    /// Shows a page: a function key, 2 to 8.
    pub(crate) fn page(&mut self, phone: usize, number: u8) {
        self.codes(phone, &[0x3a + number]);
    }

    /// Text of a phone's screen.
    pub(crate) fn screen(&mut self, phone: usize) -> String {
        // It is drawn four times a second.
        self.pass_ms(260);
        let rows = self.phones[phone].monitor.chunks(80);
        rows.map(|row| row.iter().map(|word| char::from(*word as u8)).collect::<String>() + "\n").collect()
    }

    /// The helper sends SIP to a phone, and 100 ms pass.
    pub(crate) fn say(&mut self, phone: usize, text: &str) {
        let flow = Flow::udp(Helper::SIP, (phone_ip(phone), 5060).into());
        self.helper.call(self.now, |_, cx| cx.out.send(flow, Token::NONE, text.as_bytes()));
        self.pass_ms(100);
    }

    fn carry(&mut self) {
        for from in 0..self.ends.len() {
            let frames: Vec<_> = self.ends[from].from.borrow_mut().drain(..).collect();
            for frame in frames {
                self.tap.see(&frame);
                let others = self.ends.iter().enumerate().filter(|(to, _)| *to != from);
                others.for_each(|(_, end)| end.to.borrow_mut().push_back(frame.clone()));
            }
        }
    }
}

impl Phone {
    /// Output of the serial line so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.serial).into_owned()
    }

    /// The line of the log with this text; empty: none.
    pub(crate) fn line(&self, text: &str) -> String {
        self.log().lines().rfind(|line| line.contains(text)).unwrap_or_default().to_owned()
    }

    fn run(&mut self, now: Instant) {
        let Self { machine, monitor, serial } = self;
        while machine.receive(now) != Worked::Nothing {}
        machine.run(now, Memory::default());
        machine.draw(now, |place, word| monitor[place] = word);
        let mut room = [0; 16];
        let count = machine.serial_output(&mut room);
        serial.extend(&room[..count]);
    }
}

fn server(plug: Plug, now: Instant) -> Station<Plug, CountedNode<Server>> {
    let mut station = Station::new(plug, &Seed::from_number(1), now);
    station.set_lease(Lease::fixed(SERVER, 24, None));
    let settings = MachineSettings::read("domains=example.org auth=on", None).unwrap();
    let ports: Vec<Port> =
        [Transport::Udp, Transport::Tcp].map(|transport| Port { transport, number: 5060 }).into();
    let listener = |port: &Port| {
        let at = (SERVER, port.number).into();
        ringway_server::Listener { transport: port.transport, bound: at, advertised: at }
    };
    let listeners = ports.iter().map(listener).collect();
    let config = settings.server_config(listeners, vec![SERVER.into()], [7; 32]);
    let list = b"username,password\nalice,wonderland\nbob,builder\ncarol,carol\n";
    let users =
        Subscribers::from_csv(list, "example.org", |_| "example.org", 10, NameHash::new([1; 16])).unwrap();
    let make = tables_with::<SimLocks>();
    let tables = make.tables(Duration::from_secs(300), 0, &Seed::from_number(2), now);
    let host = Arc::new(MemoryHost::new(users, make));
    let server = Server::new(Arc::new(config), host, Arc::new(tables), 0, Seed::from_number(3), now);
    station.serve(CountedNode::new(server), ports, 65_535);
    station
}

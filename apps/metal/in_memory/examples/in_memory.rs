//! Measures the cost of an operation without sockets: the image's network loop and server between the two rings of a
//! network card in memory. Prints one line of JSON: nanoseconds of CPU time per REGISTER, by row.
//!
//! `in_memory OPERATION COUNT` runs one operation for callgrind, which counts in `Bench::pass` only:
//! `valgrind --tool=callgrind --toggle-collect='*Bench*pass*' in_memory call 1000`. Calls to a trunk, `trunk-call` and `hidden-call`, need the
//! feature `operator`.
//!
//! Frames are created before the measurement, in bursts of 32 as on a busy card. Each has another user and is in memory
//! that was not accessed recently, as after DMA.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that cannot go on has failed"
)]

use ringway_ethernet::{Card, CardCounters, FRAME_BYTES_MAX, Lease, Port, Station};
use ringway_in_memory::{CountedNode, MemoryHost, tables_with};
use ringway_sansio::{Instant, Seed, Transport};
use ringway_server::{
    Algorithm, AuthConfig, Config, Listener, Mode, NumberChange, Route, RouteMatch, RouteTable, RouteTo,
    Server, Trunk, WeightedTrunk,
};
use ringway_sim::SimLocks;
use ringway_sip::digest::{Credentials, Ha1};
use ringway_users::{NameHash, Subscribers};
use rustix::time::{ClockId, clock_gettime};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PHONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const CARRIER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
const OWN_HARDWARE: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
const PHONE_HARDWARE: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const USERS: usize = 10_000;
const BURST: usize = 32;
const ROUNDS: usize = 12;

/// Network card whose rings are in memory.
#[derive(Default)]
struct Rings {
    incoming: Vec<Vec<u8>>,
    taken: usize,
    outgoing: Vec<Vec<u8>>,
    sent: usize,
}

impl Card for Rings {
    fn address(&self) -> [u8; 6] {
        OWN_HARDWARE.0
    }

    fn is_up(&mut self) -> bool {
        true
    }

    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let frame = self.incoming.get(self.taken)?;
        self.taken += 1;
        Some(take(frame))
    }

    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let Some(room) = self.outgoing.get_mut(self.sent) else { return false };
        room.truncate(bytes);
        fill(room);
        self.sent += 1;
        true
    }

    fn flush(&mut self) {}

    fn counters(&self) -> CardCounters {
        CardCounters::default()
    }
}

struct Bench {
    /// CPU time of this thread in nanoseconds; no time for callgrind, which cannot read the system's.
    clock: fn() -> u64,
    station: Station<Rings, CountedNode<Server>>,
    now: Instant,
}

impl Bench {
    /// A server with users, of which none is registered.
    fn new(mode: Mode, with_digest: bool, users: usize, clock: fn() -> u64) -> Self {
        Self::with(users, clock, |config| {
            (config.mode, config.auth.enabled) = (mode, with_digest);
        })
    }

    /// The same with another configuration.
    fn with(users: usize, clock: fn() -> u64, change: impl FnOnce(&mut Config)) -> Self {
        let now = Instant::from_secs(1_800_000_000);
        let mut station = Station::new(Rings::default(), &Seed::from_number(1), now);
        station.set_lease(Lease::fixed(OWN, 24, None));
        let at = (OWN, 5060).into();
        let mut config = Config {
            listeners: vec![Listener { transport: Transport::Udp, bound: at, advertised: at }],
            machine_addresses: vec![OWN.into()],
            keeps_bindings: false,
            auth: AuthConfig { enabled: false, ..AuthConfig::for_realm("example.org") },
            secret: [7; 32],
            ..Config::for_domains(vec!["example.org".into()])
        };
        change(&mut config);
        let mut list = String::from("username,password\n");
        (0..users).for_each(|user| list.push_str(&format!("{},{}\n", name(user), name(user))));
        let names = NameHash::new([1; 16]);
        let users =
            Subscribers::from_csv(list.as_bytes(), "example.org", |_| "example.org", users, names).unwrap();
        let make = tables_with::<SimLocks>();
        let tables = make.tables(Duration::from_secs(300), 0, &Seed::from_number(2), now);
        let host = Arc::new(MemoryHost::new(users, make));
        let server = Server::new(Arc::new(config), host, Arc::new(tables), 0, Seed::from_number(3), now);
        let ports = vec![Port { transport: Transport::Udp, number: 5060 }];
        station.serve(CountedNode::new(server), ports, 65_535);
        let mut bench = Self { clock, station, now };
        bench.run(vec![arp_request(PHONE), arp_request(CARRIER)], 1);
        bench
    }

    /// Passes frames through, burst by burst; returns the CPU time and the sent frames, `each` for one received.
    fn run(&mut self, frames: Vec<Vec<u8>>, each: usize) -> (u64, Vec<Vec<u8>>) {
        let count = frames.len();
        let card = self.station.card_mut();
        // Written before, as a card's memory: the system would allocate zeroed pages only at the first write.
        let outgoing = vec![vec![0xff; FRAME_BYTES_MAX]; count * each];
        *card = Rings { incoming: frames, outgoing, ..Rings::default() };
        let begun = (self.clock)();
        self.pass(count);
        let spent = (self.clock)() - begun;
        self.now = self.now + Duration::from_millis(100);
        let card = self.station.card_mut();
        assert_eq!(card.sent, count * each, "every message is answered or forwarded");
        (spent, std::mem::take(&mut card.outgoing))
    }

    /// Lets the station take `count` frames. A function of its own, so that callgrind counts nothing else.
    #[inline(never)]
    fn pass(&mut self, count: usize) {
        for number in 0..count {
            self.station.receive(self.now);
            if number % BURST == BURST - 1 {
                self.station.run(self.now);
            }
        }
        self.station.run(self.now);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => measure(),
        [operation, count] => count_one(operation, count.parse().unwrap()),
        _ => panic!("in_memory [OPERATION COUNT]"),
    }
}

/// Runs an operation once for each of `count` users.
fn count_one(operation: &str, count: usize) {
    let mode = if operation == "redirect" { Mode::Redirect } else { Mode::Proxy };
    let mut bench = match operation {
        "trunk-call" | "hidden-call" => {
            Bench::with(count, || 0, |config| add_trunk(config, operation == "hidden-call"))
        }
        _ => Bench::new(mode, operation == "register-digest", count, || 0),
    };
    let messages = |message: &dyn Fn(usize) -> String| (0..count).map(|user| frame(&message(user))).collect();
    match operation {
        "register" => {
            let (_, replies) = bench.run(messages(&|user| register(user, 0, "")), 1);
            assert!(payload(&replies[0]).starts_with("SIP/2.0 200 "), "{}", payload(&replies[0]));
        }
        "register-digest" => {
            let (_, challenges) = bench.run(messages(&|user| register(user, 0, "")), 1);
            let answer = |user: usize| register(user, 1, &credentials(user, payload(&challenges[user])));
            let (_, replies) = bench.run(messages(&answer), 1);
            assert!(payload(&replies[0]).starts_with("SIP/2.0 200 "), "{}", payload(&replies[0]));
        }
        "not-found" => {
            let (_, replies) = bench.run(messages(&|user| invite(user, "nobody")), 1);
            assert!(payload(&replies[0]).starts_with("SIP/2.0 404 "), "{}", payload(&replies[0]));
        }
        "redirect" => {
            bench.run(messages(&|user| register(user, 0, "")), 1);
            let (_, replies) = bench.run(messages(&|user| invite(user, &name(user))), 1);
            assert!(payload(&replies[0]).starts_with("SIP/2.0 302 "), "{}", payload(&replies[0]));
        }
        "call" => {
            bench.run(messages(&|user| register(user, 0, "")), 1);
            // So many at a time that no limit of a source is reached.
            (0..count).step_by(CALLS).for_each(|first| calls(&mut bench, first..count.min(first + CALLS)));
        }
        "trunk-call" | "hidden-call" => {
            let is_hidden = operation == "hidden-call";
            (0..count)
                .step_by(CALLS)
                .for_each(|first| trunk_calls(&mut bench, first..count.min(first + CALLS), is_hidden));
        }
        other => panic!("there is no operation {other}"),
    }
}

/// Calls of strangers to registered users, from INVITE to the 200 of the BYE.
fn calls(bench: &mut Bench, users: Range<usize>) {
    let first = users.start;
    let messages =
        |message: &dyn Fn(usize) -> String| users.clone().map(|user| frame(&message(user))).collect();
    // 100 and the forwarded INVITE.
    let (_, sent) = bench.run(messages(&|user| invite(user, &name(user))), 2);
    let invites: Vec<&str> =
        sent.iter().map(|frame| payload(frame)).filter(|text| text.starts_with("INVITE ")).collect();
    bench.run(messages(&|user| response(invites[user - first], "180 Ringing")), 1);
    let (_, answers) = bench.run(messages(&|user| response(invites[user - first], "200 OK")), 1);
    let route = |user: usize| field(payload(&answers[user - first]), "Record-Route");
    bench.run(messages(&|user| request_in_dialog(user, "ACK", &route(user))), 1);
    let (_, ends) = bench.run(messages(&|user| request_in_dialog(user, "BYE", &route(user))), 1);
    let (_, replies) = bench.run(messages(&|user| response(payload(&ends[user - first]), "200 OK")), 1);
    assert!(payload(&replies[0]).starts_with("SIP/2.0 200 "), "{}", payload(&replies[0]));
}

/// Adds a trunk for all numbers.
fn add_trunk(config: &mut Config, hides_topology: bool) {
    let uri = format!("sip:{CARRIER}:5060");
    let networks = vec![CARRIER.to_string().parse().unwrap()];
    config.trunking.trunks = vec![Trunk { networks, hides_topology, ..Trunk::at("carrier", &uri) }].into();
    let trunks = [WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into();
    let to = RouteTo::Trunks { trunks, change: NumberChange::default() };
    let route = Route { matches: RouteMatch::Prefix("+".into()), to };
    config.trunking.routes = RouteTable::new(vec![route]).unwrap();
}

/// Calls to numbers at the trunk, from INVITE to the 200 of the BYE.
fn trunk_calls(bench: &mut Bench, users: Range<usize>, is_hidden: bool) {
    let first = users.start;
    let of_user = |text: String| text.replace("caller@example.net", "caller@example.org");
    let (_, sent) =
        bench.run(users.clone().map(|user| frame(&of_user(invite(user, &number(user))))).collect(), 2);
    let invites: Vec<&str> =
        sent.iter().map(|frame| payload(frame)).filter(|text| text.starts_with("INVITE ")).collect();
    let headers = invites[0].split("\r\n\r\n").next().unwrap_or_default();
    assert_eq!((invites.len(), headers.contains(&PHONE.to_string())), (users.len(), !is_hidden));
    let (at_phone, at_carrier) = (format!("@{PHONE}:5060"), format!("@{CARRIER}:5060"));
    let answers = |status: &str| -> Vec<Vec<u8>> {
        let answer = |user: usize| response(invites[user - first], status).replace(&at_phone, &at_carrier);
        users.clone().map(|user| frame_from(CARRIER, &answer(user))).collect()
    };
    bench.run(answers("180 Ringing"), 1);
    let (_, answered) = bench.run(answers("200 OK"), 1);
    let request = |user: usize, method: &str| {
        let text = request_in_dialog(user, method, &field(payload(&answered[user - first]), "Record-Route"));
        let text = of_user(text).replace(&at_phone, &at_carrier);
        frame(&text.replace(&format!("sip:{}@", name(user)), &format!("sip:{}@", number(user))))
    };
    bench.run(users.clone().map(|user| request(user, "ACK")).collect(), 1);
    let (_, ends) = bench.run(users.clone().map(|user| request(user, "BYE")).collect(), 1);
    // The rate of the callers' address.
    bench.now = bench.now + Duration::from_secs(3);
    let ended = |user: usize| frame_from(CARRIER, &response(payload(&ends[user - first]), "200 OK"));
    let (_, replies) = bench.run(users.clone().map(ended).collect(), 1);
    assert!(payload(&replies[0]).starts_with("SIP/2.0 200 "), "{}", payload(&replies[0]));
}

fn number(user: usize) -> String {
    format!("+4930{user:05}")
}

/// Calls at a time.
const CALLS: usize = 50;

/// Prints the times of REGISTERs.
fn measure() {
    let mut open = Bench::new(Mode::Proxy, false, USERS, cpu_ns);
    let plain = median((0..ROUNDS).map(|round| {
        let frames = (0..USERS).map(|user| frame(&register(user, 2 * round, ""))).collect();
        let (spent, replies) = open.run(frames, 1);
        assert!(payload(&replies[0]).starts_with("SIP/2.0 200 "), "{}", payload(&replies[0]));
        spent / USERS as u64
    }));
    let mut closed = Bench::new(Mode::Proxy, true, USERS, cpu_ns);
    let both = median((0..ROUNDS).map(|round| {
        let asked = (0..USERS).map(|user| frame(&register(user, 2 * round, ""))).collect();
        let (challenged, replies) = closed.run(asked, 1);
        let answers = replies
            .iter()
            .enumerate()
            .map(|(user, reply)| frame(&register(user, 2 * round + 1, &credentials(user, payload(reply)))));
        let (answered, replies) = closed.run(answers.collect(), 1);
        assert!(payload(&replies[0]).starts_with("SIP/2.0 200 "), "{}", payload(&replies[0]));
        (challenged + answered) / USERS as u64
    }));
    println!("{{\"register_ns\":{plain},\"register_digest_ns\":{both},\"users\":{USERS}}}");
}

fn median(figures: impl Iterator<Item = u64>) -> u64 {
    let mut figures: Vec<u64> = figures.collect();
    figures.sort_unstable();
    figures[figures.len() / 2]
}

/// CPU time of this thread in nanoseconds; `schedstat` is updated only with the system's timer tick.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

fn name(user: usize) -> String {
    format!("user{user:05}")
}

/// The same header fields as the REGISTER that `cargo xtask bench` sends over sockets.
fn register(user: usize, cseq: usize, more: &str) -> String {
    let name = name(user);
    format!(
        "REGISTER sip:example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP {PHONE}:5060;branch=z9hG4bKn{user:08x}{cseq:08x};rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:{name}@example.org>;tag=r{user:07}\r\n\
         To: <sip:{name}@example.org>\r\n\
         Call-ID: reg-{name}-3f1c94ab@{PHONE}\r\n\
         CSeq: {} REGISTER\r\n\
         Contact: <sip:{name}@{PHONE}:5060>\r\n\
         Expires: 3600\r\n\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK\r\n\
         Supported: replaces, outbound, path, gruu, timer\r\n\
         User-Agent: bench phone for measurements 0.1 (x86_64/linux), one of a million of them\r\n\
         {more}Content-Length: 0\r\n\r\n",
        cseq + 1
    )
}

/// An INVITE of one of the callers, who register nowhere.
fn invite(user: usize, callee: &str) -> String {
    format!(
        "INVITE sip:{callee}@example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP {PHONE}:5060;branch=z9hG4bKi{user:08x};rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:caller@example.net>;tag=c{user:07}\r\n\
         To: <sip:{callee}@example.org>\r\n\
         Call-ID: call-{user}-3f1c94ab@{PHONE}\r\n\
         CSeq: 1 INVITE\r\n\
         Contact: <sip:caller@{PHONE}:5060>\r\n\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK\r\n\
         Supported: replaces, timer\r\n\
         User-Agent: bench phone for measurements 0.1 (x86_64/linux), one of a million of them\r\n\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{SDP}",
        SDP.len()
    )
}

const SDP: &str = "v=0\r\no=- 3911 3911 IN IP4 192.0.2.2\r\ns=-\r\nc=IN IP4 192.0.2.2\r\nt=0 0\r\n\
                   m=audio 40000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
                   a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

/// ACK or BYE of the caller.
fn request_in_dialog(user: usize, method: &str, route: &str) -> String {
    let cseq = if method == "ACK" { 1 } else { 2 };
    let callee = name(user);
    format!(
        "{method} sip:{callee}@{PHONE}:5060 SIP/2.0\r\n\
         Via: SIP/2.0/UDP {PHONE}:5060;branch=z9hG4bK{method}{user:08x};rport\r\n\
         Max-Forwards: 70\r\n\
         Route: {route}\r\n\
         From: <sip:caller@example.net>;tag=c{user:07}\r\n\
         To: <sip:{callee}@example.org>;tag=callee\r\n\
         Call-ID: call-{user}-3f1c94ab@{PHONE}\r\n\
         CSeq: {cseq} {method}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// The callee's response to a request that the server forwarded.
fn response(request: &str, status: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for line in request.lines() {
        let name = line.split(':').next().unwrap_or_default();
        match name {
            "Via" | "Record-Route" | "From" | "Call-ID" | "CSeq" => text.push_str(&format!("{line}\r\n")),
            "To" if line.contains(";tag=") => text.push_str(&format!("{line}\r\n")),
            "To" => text.push_str(&format!("{line};tag=callee\r\n")),
            _ => {}
        }
    }
    let callee = field(request, "To");
    let user = callee.split(['@', ':']).nth(1).unwrap_or_default();
    text + &format!("Contact: <sip:{user}@{PHONE}:5060>\r\nContent-Length: 0\r\n\r\n")
}

/// Value of a header field.
fn field(message: &str, name: &str) -> String {
    let line = message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {message}")).to_owned()
}

/// Response to a challenge, with MD5 and qop=auth.
fn credentials(user: usize, challenge: &str) -> String {
    let nonce = challenge.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let name = name(user);
    let ha1 = Ha1::new(name.as_bytes(), b"example.org", name.as_bytes());
    let mut given = Credentials {
        username: name.as_bytes(),
        realm: b"example.org",
        nonce: nonce.as_bytes(),
        uri: b"sip:example.org",
        algorithm: Some(b"MD5"),
        cnonce: Some(b"0a4f113b"),
        qop: Some(b"auth"),
        nc: Some(b"00000001"),
        ..Credentials::default()
    };
    let mut hex = [0; 64];
    given.response = Algorithm::Md5.response(&ha1, b"REGISTER", b"", &given, &mut hex);
    let mut line = b"Authorization: ".to_vec();
    given.write(&mut line);
    String::from_utf8(line).unwrap() + "\r\n"
}

fn frame(message: &str) -> Vec<u8> {
    frame_from(PHONE, message)
}

fn frame_from(source: Ipv4Addr, message: &str) -> Vec<u8> {
    let payload = message.as_bytes();
    let mut frame = vec![0; 14 + 20 + 8 + payload.len()];
    let ethernet =
        EthernetRepr { src_addr: PHONE_HARDWARE, dst_addr: OWN_HARDWARE, ethertype: EthernetProtocol::Ipv4 };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let checksums = ChecksumCapabilities::default();
    let ip = Ipv4Repr {
        src_addr: source,
        dst_addr: OWN,
        next_header: IpProtocol::Udp,
        payload_len: 8 + payload.len(),
        hop_limit: 64,
    };
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut frame[14..]), &checksums);
    UdpRepr { src_port: 5060, dst_port: 5060 }.emit(
        &mut UdpPacket::new_unchecked(&mut frame[34..]),
        &source.into(),
        &OWN.into(),
        payload.len(),
        |room| room.copy_from_slice(payload),
        &checksums,
    );
    frame
}

fn payload(frame: &[u8]) -> &str {
    std::str::from_utf8(&frame[42..]).unwrap()
}

/// ARP request from which the station gets the phones' MAC address.
fn arp_request(source: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; 42];
    let to = EthernetAddress::BROADCAST;
    EthernetRepr { src_addr: PHONE_HARDWARE, dst_addr: to, ethertype: EthernetProtocol::Arp }
        .emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let repr = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: PHONE_HARDWARE,
        source_protocol_addr: source,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: OWN,
    };
    repr.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    frame
}

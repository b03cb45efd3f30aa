//! Measures the cost of a REGISTER without sockets: the image's network loop and server between the two rings of a
//! network card in memory. Prints one line of JSON: nanoseconds of CPU time per message, by row.
//!
//! Frames are created before the measurement, in bursts of 32 as on a busy card. Each has another user and is in memory
//! that was not accessed recently, as after DMA.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on has failed")]

use ringway_ethernet::{Card, CardCounters, FRAME_BYTES_MAX, Lease, Port, Station};
use ringway_metal::{CountedNode, MemoryServices};
use ringway_sansio::{Instant, Seed, Transport};
use ringway_server::auth::Algorithm;
use ringway_server::{AuthConfig, Config, Listener, Mode, RegistrarConfig, Server};
use ringway_sip::digest::{Credentials, Ha1};
use ringway_users::{NameHash, Subscribers};
use rustix::time::{ClockId, clock_gettime};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PHONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
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
    station: Station<Rings, CountedNode<Server<MemoryServices>>>,
    now: Instant,
}

impl Bench {
    fn new(with_digest: bool) -> Self {
        let now = Instant::from_secs(1_800_000_000);
        let mut station = Station::new(Rings::default(), &Seed::from_number(1), now);
        station.set_lease(Lease::fixed(OWN, 24, None));
        let at = (OWN, 5060).into();
        let config = Config {
            domains: vec!["example.org".into()],
            listeners: vec![Listener { transport: Transport::Udp, bound: at, advertised: at }],
            removed_listeners: Vec::new(),
            machine_addresses: vec![OWN.into()],
            mode: Mode::Proxy,
            stateful: true,
            record_route: true,
            serial_fork: Duration::from_secs(20),
            recurse: false,
            edge_domains: Vec::new(),
            dialog_lifetime: Duration::from_secs(86_400),
            auth: AuthConfig {
                enabled: with_digest,
                realms: "example.org".into(),
                digest: Default::default(),
                algorithms: vec![Algorithm::Md5],
                nonce_lifetime: Duration::from_secs(300),
                in_dialog: false,
                strangers: Default::default(),
                trusted: Vec::new(),
                fronts: Vec::new(),
                certificates: Default::default(),
            },
            registrar: RegistrarConfig {
                min_expires_s: 60,
                default_expires_s: 3600,
                max_expires_s: 7200,
                max_contacts: 10,
                outbound: true,
                gruu: false,
                flow_timer_s: 0,
                service_route: Vec::new(),
            },
            neighbours: Vec::new(),
            cluster: None,
            links: None,
            trunking: ringway_server::Trunking::default(),
            media: ringway_server::MediaConfig::default(),
            presence: ringway_server::PresenceConfig::default(),
            timers: ringway_transaction::Timers::default(),
            timer_c: Duration::from_secs(185),
            message_limits: ringway_sip::Limits::default(),
            transaction_limits: ringway_transaction::Limits::default(),
            secret: [7; 32],
        };
        let mut list = String::from("username,password\n");
        (0..USERS).for_each(|user| list.push_str(&format!("{},{}\n", name(user), name(user))));
        let names = NameHash::new([1; 16]);
        let users =
            Subscribers::from_csv(list.as_bytes(), "example.org", |_| "example.org", USERS, names).unwrap();
        let services = MemoryServices::new(users, Duration::from_secs(300), 0, &Seed::from_number(2), now);
        let server = Server::new(Arc::new(config), services, 0, Seed::from_number(3), now);
        let ports = vec![Port { transport: Transport::Udp, number: 5060 }];
        station.serve(CountedNode::new(server), ports, 65_535);
        let mut bench = Self { station, now };
        bench.run(vec![arp_request()]);
        bench
    }

    /// Passes frames through, burst by burst; returns the CPU time and the sent frames.
    fn run(&mut self, frames: Vec<Vec<u8>>) -> (u64, Vec<Vec<u8>>) {
        let count = frames.len();
        let card = self.station.card_mut();
        // Written before, as a card's memory: the system would allocate zeroed pages only at the first write.
        let outgoing = vec![vec![0xff; FRAME_BYTES_MAX]; count];
        *card = Rings { incoming: frames, outgoing, ..Rings::default() };
        let begun = cpu_ns();
        for number in 0..count {
            self.station.receive(self.now);
            if number % BURST == BURST - 1 {
                self.station.run(self.now);
            }
        }
        self.station.run(self.now);
        let spent = cpu_ns() - begun;
        self.now = self.now + Duration::from_millis(100);
        let card = self.station.card_mut();
        assert_eq!(card.sent, count, "every message is answered");
        (spent, std::mem::take(&mut card.outgoing))
    }
}

fn main() {
    let mut open = Bench::new(false);
    let plain = median((0..ROUNDS).map(|round| {
        let frames = (0..USERS).map(|user| frame(&register(user, 2 * round, ""))).collect();
        let (spent, replies) = open.run(frames);
        assert!(payload(&replies[0]).starts_with("SIP/2.0 200 "), "{}", payload(&replies[0]));
        spent / USERS as u64
    }));
    let mut closed = Bench::new(true);
    let both = median((0..ROUNDS).map(|round| {
        let asked = (0..USERS).map(|user| frame(&register(user, 2 * round, ""))).collect();
        let (challenged, replies) = closed.run(asked);
        let answers = replies
            .iter()
            .enumerate()
            .map(|(user, reply)| frame(&register(user, 2 * round + 1, &credentials(user, payload(reply)))));
        let (answered, replies) = closed.run(answers.collect());
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
    let payload = message.as_bytes();
    let mut frame = vec![0; 14 + 20 + 8 + payload.len()];
    let ethernet =
        EthernetRepr { src_addr: PHONE_HARDWARE, dst_addr: OWN_HARDWARE, ethertype: EthernetProtocol::Ipv4 };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let checksums = ChecksumCapabilities::default();
    let ip = Ipv4Repr {
        src_addr: PHONE,
        dst_addr: OWN,
        next_header: IpProtocol::Udp,
        payload_len: 8 + payload.len(),
        hop_limit: 64,
    };
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut frame[14..]), &checksums);
    UdpRepr { src_port: 5060, dst_port: 5060 }.emit(
        &mut UdpPacket::new_unchecked(&mut frame[34..]),
        &PHONE.into(),
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
fn arp_request() -> Vec<u8> {
    let mut frame = vec![0; 42];
    let to = EthernetAddress::BROADCAST;
    EthernetRepr { src_addr: PHONE_HARDWARE, dst_addr: to, ethertype: EthernetProtocol::Arp }
        .emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let repr = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: PHONE_HARDWARE,
        source_protocol_addr: PHONE,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: OWN,
    };
    repr.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    frame
}

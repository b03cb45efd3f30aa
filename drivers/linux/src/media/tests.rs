//! Tested: ticks and time stamps of a call on loopback, that a tick allocates nothing, commands, reports, deadlines, floods,
//! long datagrams, ports. Limits are wide, because a test machine is busy; the benchmarks have the strict ones.

use super::tick_loop::{Counters, Shared, TickLoop};
use super::*;
use crate::config::Clock;
use crate::sys::EventFd;
use ringway_sansio::{Deadline, Flow, Instant, Outbox, PacedNode};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(5);
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Sends a numbered packet with each tick and records received ones.
struct Metronome {
    peer: Option<SocketAddr>,
    next: u64,
    dues: Vec<Instant>,
    received: Vec<(u64, Instant, Instant)>,
    alarm: Option<Instant>,
    alarms: u32,
    reported: u32,
}

impl Metronome {
    fn new(peer: Option<SocketAddr>) -> Self {
        let room = 4096;
        let (dues, received) = (Vec::with_capacity(room), Vec::with_capacity(room));
        Self { peer, next: 0, dues, received, alarm: None, alarms: 0, reported: 0 }
    }
}

enum Ask {
    SendTo(SocketAddr),
    Alarm(Duration),
    Sleep(Duration),
}

impl PacedNode for Metronome {
    type Command = Ask;
    type Report = u32;

    fn packet_interval(&self) -> Duration {
        TICK
    }

    fn prepare(&mut self, _now: Instant, due: Instant, out: &mut Outbox) {
        self.dues.push(due);
        if let Some(peer) = self.peer {
            let mut packet = [0; 172];
            packet[..8].copy_from_slice(&self.next.to_be_bytes());
            out.send(Flow::udp(RTP_PORT, peer), ringway_sansio::Token::NONE, &packet);
            self.next += 1;
        }
    }

    fn on_datagram(
        &mut self,
        now: Instant,
        arrived: Instant,
        flow: Flow,
        bytes: &mut [u8],
        out: &mut Outbox,
    ) {
        let number = bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        if flow.listener == RTCP_PORT {
            out.send(flow, ringway_sansio::Token::NONE, b"rtcp");
        }
        if self.received.len() < self.received.capacity() {
            self.received.push((number, arrived, now));
        }
    }

    fn on_command(&mut self, now: Instant, command: Ask, _out: &mut Outbox) {
        match command {
            Ask::SendTo(peer) => self.peer = Some(peer),
            Ask::Alarm(after) => self.alarm = Some(now + after),
            Ask::Sleep(time) => std::thread::sleep(time),
        }
    }

    fn on_timeout(&mut self, now: Instant, _out: &mut Outbox) {
        if self.alarm.is_some_and(|at| at <= now) {
            self.alarm = None;
            self.alarms += 1;
        }
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.alarm.map(|at| Deadline { at, reason: "a test" })
    }

    fn poll_report(&mut self, _now: Instant) -> Option<u32> {
        (self.reported < self.alarms).then(|| {
            self.reported += 1;
            self.reported
        })
    }
}

fn ports() -> MediaPorts {
    MediaPorts::bind(HOME, PortRange::default()).unwrap()
}

fn start(ports: MediaPorts, machine: Metronome) -> MediaThread<Metronome> {
    MediaThread::start(ports, machine, Clock::new(), MediaConfig::default()).unwrap()
}

#[test]
fn two_hundred_packets_are_sent_at_their_ticks_and_received_with_stamps() {
    let (here, there) = (ports(), ports());
    let listener = Metronome::new(Some(here.rtp_address()));
    let speaker = Metronome::new(Some(there.rtp_address()));
    let (mut listener, mut speaker) = (start(there, listener), start(here, speaker));
    println!("priority: {}", speaker.priority());
    std::thread::sleep(TICK * 200);
    let (counters, counts) = (speaker.counters(), speaker.counts());
    let (speaker, listener) = (speaker.stop().unwrap(), listener.stop().unwrap());
    assert!(counts.ticks >= 150 && counts.send_errors == 0 && counters.counts().ticks >= counts.ticks);
    assert!(speaker.dues.windows(2).all(|pair| {
        let step = pair[1].since(pair[0]).as_nanos();
        step > 0 && step % TICK.as_nanos() == 0
    }));
    let received = &listener.received;
    assert!(received.len() >= 150, "{} received", received.len());
    assert!(received.iter().enumerate().all(|(index, (number, ..))| index as u64 == *number), "none lost");
    assert!(received.iter().all(|(_, arrived, now)| arrived <= now), "the kernel receives it first");
    let mut deltas: Vec<Duration> = received.windows(2).map(|pair| pair[1].1.since(pair[0].1)).collect();
    deltas.sort_unstable();
    // Not the mean, which a thread that is not scheduled for a while would change.
    let (median, worst) = (deltas[deltas.len() / 2], deltas.last().unwrap());
    println!("{} packets, median delta {median:?}, max {worst:?}, {:?}", received.len(), counters.counts());
    assert!(median.abs_diff(TICK) < Duration::from_millis(1), "{median:?}");
    assert_eq!(counters.counts().unstamped, 0);
}

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Number of allocations of a media thread in so many ticks.
fn allocations_in(ticks: u32) -> u64 {
    let shared = Arc::new(Shared {
        counters: Counters::default(),
        wake: EventFd::new().unwrap(),
        ending: AtomicBool::new(false),
    });
    let ports = ports();
    // It sends to itself.
    let machine = Metronome::new(Some(ports.rtp_address()));
    let (mut commands, from_program) = rtrb::RingBuffer::new(8);
    let (to_program, _reports) = rtrb::RingBuffer::new(8);
    let mut tick_loop =
        TickLoop::new(ports, Arc::clone(&shared), Clock::new(), from_program, to_program).unwrap();
    let thread = std::thread::spawn(move || {
        let mut received = 0;
        let info = allocation_counter::measure(|| received = tick_loop.run(machine).received.len());
        assert!(received > 0);
        info.count_total
    });
    assert!(commands.push(Ask::Alarm(TICK * 3)).is_ok());
    until("the ticks", || shared.counters.counts().ticks >= u64::from(ticks));
    shared.ending.store(true, Ordering::Release);
    shared.wake.signal();
    thread.join().unwrap()
}

#[test]
fn a_tick_allocates_nothing() {
    assert_eq!(allocations_in(10), allocations_in(100));
}

#[test]
fn commands_deadlines_and_reports_are_handled_between_ticks() {
    let mut thread = start(ports(), Metronome::new(None));
    let ear = UdpSocket::bind("127.0.0.1:0").unwrap();
    ear.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(thread.command(Ask::SendTo(ear.local_addr().unwrap())).is_ok());
    assert!(thread.command(Ask::Alarm(Duration::from_millis(30))).is_ok());
    assert_eq!(ear.recv(&mut [0; 500]).unwrap(), 172);
    let mut report = None;
    until("the report", || {
        report = thread.poll();
        report.is_some()
    });
    assert_eq!((report, thread.poll()), (Some(1), None));
    assert!(thread.command(Ask::Alarm(Duration::ZERO)).is_ok());
    assert_eq!(thread.stop().unwrap().alarms, 2);
    assert_eq!((thread.poll(), thread.poll()), (Some(2), None), "the last report is not lost");
    assert!(thread.stop().is_none());
}

#[test]
fn rtcp_is_received_and_sent_on_its_own_port() {
    let ports = ports();
    let mut rtcp = ports.rtp_address();
    assert_eq!(rtcp.port() % 2, 0);
    rtcp.set_port(rtcp.port() + 1);
    let thread = start(ports, Metronome::new(None));
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    peer.send_to(b"a report", rtcp).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(peer.recv_from(&mut buffer).unwrap(), (4, rtcp));
    drop(thread);
}

#[test]
fn ticks_of_a_long_pause_are_skipped_and_of_a_short_one_run_late() {
    let mut thread = start(ports(), Metronome::new(None));
    assert!(thread.command(Ask::Sleep(Duration::from_millis(200))).is_ok());
    until("the ticks after the pause", || thread.counts().ticks_skipped >= 30);
    let counts = thread.counts();
    let dues = thread.stop().unwrap().dues;
    assert!(counts.late_ns_max >= 150_000_000, "{counts:?}");
    let first = dues[0];
    assert!(dues.iter().all(|due| due.since(first).as_nanos().is_multiple_of(TICK.as_nanos())));
}

#[test]
fn a_flood_neither_delays_ticks_nor_uses_up_the_processor() {
    let ports = ports();
    let target = ports.rtp_address();
    let thread = start(ports, Metronome::new(None));
    let flood = UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = std::time::Instant::now();
    let mut sent = 0_u64;
    while begun.elapsed() < Duration::from_millis(500) {
        let _ = flood.send_to(&[0; 100], target);
        sent += 1;
    }
    let counts = thread.counts();
    assert!(counts.ticks + counts.ticks_skipped >= 60, "{counts:?}");
    assert!(counts.received <= (counts.ticks + 1) * 600, "{counts:?} of {sent}");
    println!("{sent} sent, {counts:?}");
}

#[test]
fn too_long_datagrams_are_counted_and_dropped() {
    let ports = ports();
    let target = ports.rtp_address();
    let mut thread = start(ports, Metronome::new(None));
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 2049, 60_000, 100] {
        peer.send_to(&vec![0; length], target).unwrap();
    }
    until("the datagrams", || thread.counts().received == 5);
    assert_eq!(thread.counts().too_long, 2);
    assert_eq!(thread.stop().unwrap().received.len(), 3);
}

#[test]
fn ranges_are_parsed_and_invalid_ones_are_errors() {
    for (text, written) in [("4000-4001", "4000-4001"), ("4000", "4000-4001"), ("4001-4004", "4001-4004")] {
        assert_eq!(text.parse::<PortRange>().unwrap().to_string(), written);
    }
    for wrong in ["", "4001", "4001-4002", "0-1", "5-4", "x", "1-70000", "65535"] {
        let error = wrong.parse::<PortRange>().unwrap_err().to_string();
        assert!(error.contains("A-B"), "{wrong}: {error}");
    }
}

#[test]
fn an_exhausted_range_is_an_error() {
    let range = "20000-20005".parse().unwrap();
    let mut held: Vec<MediaPorts> = Vec::new();
    let error = loop {
        match MediaPorts::bind("127.0.0.7".parse().unwrap(), range) {
            Ok(ports) => held.push(ports),
            Err(error) => break error.to_string(),
        }
        assert!(held.len() <= 3);
    };
    // Another program may have one of the pairs, at all addresses.
    let is_free = |port: u16| std::net::UdpSocket::bind(("127.0.0.7", port)).is_ok();
    let free = [20_000, 20_002, 20_004].into_iter().find(|&port| is_free(port) && is_free(port + 1));
    assert_eq!((free, held.is_empty()), (None, false));
    assert!(error.contains("127.0.0.7") && error.contains("20000-20005"), "{error}");
    let elsewhere = MediaPorts::bind("192.0.2.1".parse().unwrap(), range).unwrap_err().to_string();
    assert!(elsewhere.contains("192.0.2.1"), "{elsewhere}");
}

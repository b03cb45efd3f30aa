//! A paced node beside the node: two stations on a cable, audio with SRTP between them, ticks, floods.

use crate::station::harness::Echo;
use ringway_ethernet::{Lease, PacedStation, Port, Station, Worked};
use ringway_media::MediaSession;
use ringway_media::session::{RTP_PORT, Report, SessionConfig};
use ringway_sansio::{Deadline, Flow, Instant, Outbox, PacedNode, Seed, Token, Transport};
use ringway_sdp::{Codec, CryptoSuite, Direction, MasterKey, MediaParams, Protection};
use ringway_test_support::ethernet::cable::{Frames, OWN, OWN_HARDWARE, PEER, PEER_HARDWARE, Plug};
use ringway_test_support::tone;
use std::f64::consts::TAU;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const PORTS: [u16; 2] = [16_384, 16_385];
const TICK: Duration = Duration::from_millis(20);

/// A media session that sends a tone and stores the received audio.
struct Talk {
    session: MediaSession,
    frequency_hz: f64,
    sent: u32,
    received: Vec<i16>,
}

impl Talk {
    fn new(seed: u64, params: MediaParams, frequency_hz: f64, now: Instant) -> Self {
        let mut session = MediaSession::new(SessionConfig::default(), Seed::from_number(seed), now);
        session.set_params(now, params);
        Self { session, frequency_hz, sent: 0, received: Vec::new() }
    }

    /// Fraction of the last second's energy at one frequency.
    fn share_at(&self, frequency_hz: f64) -> f64 {
        tone::share_at(&self.received[self.received.len() - 8000..], frequency_hz)
    }
}

impl PacedNode for Talk {
    type Command = MediaParams;
    type Report = Report;

    fn packet_interval(&self) -> Duration {
        TICK
    }

    fn prepare(&mut self, now: Instant, due: Instant, out: &mut Outbox) {
        let mut block = [0; 160];
        self.session.playout(now, &mut block);
        self.received.extend_from_slice(&block);
        for sample in &mut block {
            self.sent += 1;
            *sample = (8000.0 * (TAU * self.frequency_hz * f64::from(self.sent) / 8000.0).sin()) as i16;
        }
        if let Some((packet, to)) = self.session.prepare(due, &block) {
            out.send(Flow::udp(RTP_PORT, to), Token::NONE, packet);
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
        self.session.on_datagram(now, arrived, flow, bytes, out);
    }

    fn on_command(&mut self, now: Instant, params: MediaParams, _: &mut Outbox) {
        self.session.set_params(now, params);
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.session.on_timeout(now, out);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.session.next_deadline()
    }

    fn poll_report(&mut self, _: Instant) -> Option<Report> {
        Some(self.session.report())
    }
}

/// Two stations, each with a media session at [`PORTS`].
struct Pair {
    ends: [PacedStation<Plug, Echo, Talk>; 2],
    /// Frames to the first and to the second station.
    cables: [Frames; 2],
    now: Instant,
}

fn key(byte: u8) -> MasterKey {
    MasterKey { key: vec![byte; 16], salt: vec![byte; 14], lifetime_packets: None, mki: Vec::new() }
}

fn params(to: Ipv4Addr, send: u8, receive: u8) -> MediaParams {
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    MediaParams {
        remote: SocketAddr::from((to, PORTS[0])),
        remote_rtcp: SocketAddr::from((to, PORTS[1])),
        rtcp_mux: false,
        codec: Codec::Pcmu,
        payload_type: 0,
        receive: vec![(0, Codec::Pcmu)],
        telephone_event: None,
        receive_telephone_event: None,
        ptime_ms: 20,
        direction: Direction::SendRecv,
        ice: None,
        protection: Protection::Sdes { suite, send: key(send), receive: key(receive) },
    }
}

impl Pair {
    fn new() -> Self {
        let now = Instant::from_secs(1000);
        let cables = [Frames::default(), Frames::default()];
        let [to_first, to_second] = &cables;
        let end = |plug, own, peer, (send, receive), frequency_hz| {
            let mut station = Station::new(plug, &Seed::from_number(u64::from(send)), now);
            station.set_lease(Lease::fixed(own, 24, None));
            let ports = vec![Port { transport: Transport::Udp, number: 5060 }];
            station.serve(Echo::default(), ports, 65_535);
            let mut end = PacedStation::new(station);
            let talk = Talk::new(u64::from(send), params(peer, send, receive), frequency_hz, now);
            end.start(talk, PORTS, now);
            end
        };
        let first = end(Plug::new(to_first, to_second, OWN_HARDWARE), OWN, PEER, (1, 2), 440.0);
        let second = end(Plug::new(to_second, to_first, PEER_HARDWARE), PEER, OWN, (2, 1), 1000.0);
        Self { ends: [first, second], cables, now }
    }

    /// Advances the clock in steps.
    fn pass(&mut self, time: Duration, step: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + step;
            for station in &mut self.ends {
                while station.receive(self.now) != Worked::Nothing {}
                station.run(self.now);
            }
        }
    }
}

#[test]
fn two_stations_exchange_srtp_and_every_packet_is_sent_on_time() {
    let mut pair = Pair::new();
    pair.pass(Duration::from_secs(5), Duration::from_micros(500));
    for (end, frequency_hz) in pair.ends.iter_mut().zip([1000.0, 440.0]) {
        let counters = end.paced_counters().unwrap();
        assert_eq!((counters.ticks, counters.ticks_late, counters.ticks_skipped), (250, 0, 0));
        assert_eq!(counters.late_max, Duration::ZERO, "the tick is a multiple of 500 µs");
        let report = end.poll_report(pair.now).unwrap();
        assert_eq!((report.sent.packets, report.refused.auth_failures), (251, 0), "one is prepared ahead");
        assert!(report.received.counts.received >= 248, "{:?}", report.received.counts);
        assert_eq!((report.received.counts.lost(), report.refused.strangers), (0, 0));
        assert!(report.received.delta_max_ms < 20.6, "{}", report.received.delta_max_ms);
        assert!(report.reports_sent > 0 && report.reports_received > 0, "RTCP goes by the second port");
        assert!(end.machine().unwrap().share_at(frequency_hz) > 0.98);
    }
}

#[test]
fn packets_under_other_keys_are_refused() {
    let mut pair = Pair::new();
    let now = pair.now;
    assert!(pair.ends[0].command(now, params(PEER, 1, 9)));
    // For two seconds packets under the previous key are still accepted.
    pair.pass(Duration::from_secs(3), Duration::from_millis(1));
    let before = pair.ends[0].poll_report(pair.now).unwrap();
    pair.pass(Duration::from_secs(2), Duration::from_millis(1));
    let after = pair.ends[0].poll_report(pair.now).unwrap();
    assert_eq!(after.received.counts.received, before.received.counts.received);
    assert!(after.refused.auth_failures - before.refused.auth_failures > 90, "{:?}", after.refused);
}

#[test]
fn a_late_poll_runs_a_few_missed_ticks_and_skips_many() {
    let mut pair = Pair::new();
    pair.pass(Duration::from_secs(1), Duration::from_millis(1));
    let before = pair.ends[0].paced_counters().unwrap();
    // 70 ms contain three ticks; they run one after the other at the next poll.
    pair.pass(Duration::from_millis(70), Duration::from_millis(70));
    pair.pass(Duration::from_millis(10), Duration::from_millis(1));
    let after = pair.ends[0].paced_counters().unwrap();
    assert_eq!((after.ticks - before.ticks, after.ticks_skipped), (4, 0));
    assert_eq!(after.late_max, Duration::from_millis(50));
    pair.pass(Duration::from_millis(500), Duration::from_millis(500));
    pair.pass(Duration::from_millis(20), Duration::from_millis(1));
    let much_later = pair.ends[0].paced_counters().unwrap();
    assert_eq!((much_later.ticks - after.ticks, much_later.ticks_skipped), (2, 24));
    assert!(pair.ends[0].next_tick().unwrap() > pair.now);
}

#[test]
fn a_flood_delays_neither_the_ticks_nor_the_node() {
    let mut pair = Pair::new();
    pair.pass(Duration::from_secs(1), Duration::from_millis(1));
    pair.cables[0].borrow_mut().clear();
    // A thousand copies of a packet of the second station.
    let sound = loop {
        pair.now = pair.now + Duration::from_millis(1);
        pair.ends[1].run(pair.now);
        if let Some(frame) = pair.cables[0].borrow().iter().find(|frame| frame.len() > 200) {
            break frame.clone();
        }
    };
    pair.cables[0].borrow_mut().extend(std::iter::repeat_n(sound, 1000));
    let before = pair.ends[0].paced_counters().unwrap();
    pair.pass(Duration::from_millis(40), Duration::from_millis(1));
    let after = pair.ends[0].paced_counters().unwrap();
    // One tick was due while the frame was created.
    assert_eq!(after.ticks - before.ticks, 3);
    assert!(after.flooded > 480 && after.flooded <= 490, "{after:?}");
    let report = pair.ends[0].poll_report(pair.now).unwrap();
    assert!(report.refused.replays > 500, "what came again is counted: {:?}", report.refused);
}

#[test]
fn without_a_paced_node_its_ports_are_closed_and_the_node_is_served() {
    let mut pair = Pair::new();
    pair.pass(Duration::from_millis(100), Duration::from_millis(1));
    let (talk, counters) = pair.ends[0].stop().unwrap();
    assert!(counters.sent > 4 && talk.received.len() > 160);
    let datagrams_in = pair.ends[0].counters().datagrams_in;
    pair.pass(Duration::from_millis(100), Duration::from_millis(1));
    assert_eq!(pair.ends[0].counters().datagrams_in, datagrams_in);
    assert!(pair.ends[0].machine().is_none() && !pair.ends[0].command(pair.now, params(PEER, 1, 2)));
    // A line from the second station's node to the first's.
    let flow = Flow::udp(ringway_sansio::ListenerId(0), SocketAddr::from((OWN, 5060)));
    pair.ends[1].station_mut().call(pair.now, |_, cx| cx.out.send(flow, Token::NONE, b"hello"));
    while pair.ends[0].receive(pair.now) != Worked::Nothing {}
    assert_eq!(pair.ends[0].station().node().unwrap().messages, ["hello"]);
}

//! Stories of media streams on a virtual clock: two sides with a network between them that delays, loses and reorders packets.

use super::*;
use crate::session::MediaPlay;
use crate::{Recording, RecordingError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sdp::{CryptoSuite, MasterKey, Protection};

const CALLER: ListenerId = ListenerId(0);
const CALLEE: ListenerId = ListenerId(1);
const MARK: u64 = 0x1234;

/// Streams of both sides, and the packets in transit with their arrival.
struct Network {
    now: Instant,
    streams: MediaStreams,
    transit: Vec<(Instant, Flow, Vec<u8>)>,
    delays: Vec<Duration>,
    sent: u64,
}

fn address(listener: ListenerId) -> SocketAddr {
    ([127, 0, 0, 1], 4000 + u16::from(listener.0)).into()
}

fn start(listener: ListenerId, call: u64, protection: Protection) -> MediaEvent {
    let other = ListenerId(1 - listener.0);
    let ssrc = |listener: ListenerId| 1000 * u32::from(listener.0) + call as u32;
    MediaEvent::Started(Box::new(MediaStart {
        call,
        ssrc: ssrc(listener),
        is_confirmed: true,
        remote: address(other),
        remote_ssrc: Some(ssrc(other)),
        payload_type: 0,
        protection,
    }))
}

fn key(number: u8) -> MasterKey {
    MasterKey { key: vec![number; 16], salt: vec![number; 14], lifetime_packets: None, mki: Vec::new() }
}

fn srtp(send: u8, receive: u8) -> Protection {
    Protection::Sdes { suite: CryptoSuite::AesCm128HmacSha1_80, send: key(send), receive: key(receive) }
}

impl Network {
    fn new() -> Self {
        let now = Instant::from_secs(100);
        let streams = MediaStreams::new(&Seed::from_number(1), MARK, now);
        Self { now, streams, transit: Vec::new(), delays: Vec::new(), sent: 0 }
    }

    fn event(&mut self, listener: ListenerId, event: &MediaEvent) {
        self.streams.on_event(self.now, listener, event);
    }

    /// Passes `millis` in steps of 1 ms. `delay` gives the delay of the packet `number` of a side, or `None` for a loss.
    fn pass(&mut self, millis: u64, delay: impl Fn(ListenerId, u64) -> Option<u64>) {
        for _ in 0..millis {
            self.now = self.now + Duration::from_millis(1);
            let mut out = Outbox::new();
            while self.streams.send_due(self.now, 3, &mut out) {}
            for (packet, bytes) in out.packets() {
                let from = packet.flow.listener;
                let other = ListenerId(1 - from.0);
                assert_eq!(packet.flow.remote, address(other));
                let sequence = u64::from(u16::from_be_bytes([bytes[2], bytes[3]]));
                if let Some(delay) = delay(from, sequence) {
                    let arrived = self.now + Duration::from_millis(delay);
                    self.transit.push((arrived, Flow::udp(other, address(from)), bytes.to_vec()));
                }
                self.sent += 1;
            }
            self.transit.sort_by_key(|(arrived, _, _)| *arrived);
            let due = self.transit.partition_point(|(arrived, _, _)| *arrived <= self.now);
            for (arrived, flow, mut bytes) in self.transit.drain(..due) {
                self.delays.extend(self.streams.on_datagram(arrived, flow, &mut bytes));
            }
            self.streams.on_timeout(self.now);
        }
    }

    /// Ends a call on both sides and returns the reports of caller and callee.
    fn end(&mut self, call: u64) -> [StreamReport; 2] {
        self.event(CALLER, &MediaEvent::Ended(call));
        self.event(CALLEE, &MediaEvent::Ended(call));
        self.pass(300, |_, _| Some(10));
        core::array::from_fn(|_| self.streams.take_ended().unwrap())
    }
}

/// A call of two seconds.
fn call(
    caller: Protection,
    callee: Protection,
    delay: impl Fn(ListenerId, u64) -> Option<u64>,
) -> (Network, [StreamReport; 2]) {
    let mut network = Network::new();
    network.event(CALLER, &start(CALLER, 1, caller));
    network.event(CALLEE, &start(CALLEE, 1, callee));
    network.pass(2000, delay);
    let reports = network.end(1);
    assert!(network.streams.is_empty() && network.streams.next_deadline().is_none());
    (network, reports)
}

#[test]
fn loss_is_counted_in_its_direction_and_delay_in_both() {
    let (network, [caller, callee]) = call(Protection::None, Protection::None, |from, sequence| {
        (from == CALLEE || !sequence.is_multiple_of(10)).then_some(10)
    });
    assert_eq!((caller.sent, callee.sent, network.streams.counters().sent), (100, 100, 200));
    assert_eq!((caller.received.received, caller.received.lost()), (100, 0));
    // The sequence numbers begin anywhere, and a loss at either end shows in no number between two received ones.
    assert_eq!(callee.received.received, 90);
    assert!((9..=10).contains(&callee.received.lost()), "{callee:?}");
    assert_eq!((callee.jitter_max_ms, callee.received.reordered), (0.0, 0));
    assert!(network.delays.len() == 190 && network.delays.iter().all(|d| *d == Duration::from_millis(10)));
    assert_eq!((network.streams.counters().late, network.streams.counters().stray), (0, 0));
}

#[test]
fn jitter_is_that_of_rfc_3550() {
    // Each packet arrives 5 ms earlier or later than by its timestamp: |D| is always 5 ms.
    let (_, [_, callee]) =
        call(Protection::None, Protection::None, |_, sequence| Some(10 + 5 * (sequence % 2)));
    let expected = (0..99).fold(0.0, |jitter: f64, _| jitter + (5.0 - jitter) / 16.0);
    assert!((callee.jitter_max_ms - expected).abs() < 1e-6, "{callee:?} {expected}");
    assert!(callee.jitter_mean_ms > 3.0 && callee.jitter_mean_ms < expected);
}

#[test]
fn an_overtaken_packet_is_reordered_and_not_lost() {
    let (_, [_, callee]) = call(Protection::None, Protection::None, |_, sequence| {
        Some(if sequence % 50 == 7 { 35 } else { 10 })
    });
    assert_eq!((callee.received.reordered, callee.received.lost()), (2, 0));
}

#[test]
fn srtp_passes_with_the_key_of_the_peer_only() {
    let (network, [caller, callee]) = call(srtp(1, 2), srtp(2, 1), |_, _| Some(1));
    assert_eq!((caller.received.received, callee.received.received), (100, 100));
    assert_eq!((callee.authentication_failed, network.delays.len()), (0, 200));
    // The callee has another key than the one that the caller sends with.
    let (network, [caller, callee]) = call(srtp(1, 2), srtp(2, 3), |_, _| Some(1));
    assert_eq!((caller.received.received, caller.authentication_failed), (100, 0));
    assert_eq!((callee.received.received, callee.authentication_failed), (0, 100));
    assert_eq!(network.delays.len(), 100);
}

#[test]
fn a_callee_sends_when_the_caller_has_its_answer() {
    let mut network = Network::new();
    let MediaEvent::Started(started) = start(CALLEE, 1, Protection::None) else { panic!("no start") };
    network.event(CALLEE, &MediaEvent::Started(MediaStart { is_confirmed: false, ..*started }.into()));
    network.event(CALLER, &start(CALLER, 1, Protection::None));
    network.pass(100, |_, _| Some(1));
    assert_eq!(network.sent, 5);
    network.event(CALLEE, &MediaEvent::Confirmed(1));
    network.pass(100, |_, _| Some(1));
    assert_eq!(network.sent, 15);
    let [caller, callee] = network.end(1);
    assert_eq!((caller.received.received, callee.received.received), (5, 10));
}

#[test]
fn late_packets_are_sent_and_counted_and_very_late_ones_skipped() {
    let mut network = Network::new();
    network.event(CALLER, &start(CALLER, 1, Protection::None));
    network.event(CALLEE, &start(CALLEE, 1, Protection::None));
    network.pass(100, |_, _| Some(1));
    let before = network.sent;
    // 50 ms without a turn: the two or three packets that fall due follow at once.
    network.now = network.now + Duration::from_millis(49);
    network.pass(1, |_, _| Some(1));
    assert!((4..=6).contains(&(network.sent - before)), "{}", network.sent - before);
    let late = network.streams.counters().late;
    assert!((3..=6).contains(&late), "{late}");
    // A second: 40 packets in the plan, those of the last 200 ms at most are sent.
    network.now = network.now + Duration::from_secs(1);
    let before = network.sent;
    network.pass(1, |_, _| Some(1));
    let (sent, skipped) = (network.sent - before, network.streams.counters().skipped);
    assert!(sent <= 22 && (98..=104).contains(&(sent + skipped)), "{sent} sent, {skipped} skipped");
    assert!(network.streams.counters().late_max <= Duration::from_millis(200));
    // The timestamps follow the plan, so that the pause of the sender is seen as jitter and not as loss.
    let [_, callee] = network.end(1);
    assert_eq!(callee.received.lost(), 0);
}

#[test]
fn the_streams_are_spread_over_the_packet_interval() {
    let mut network = Network::new();
    for call in 0..30 {
        network.event(CALLER, &start(CALLER, call, Protection::None));
        network.event(CALLEE, &start(CALLEE, call, Protection::None));
    }
    network.pass(20, |_, _| None);
    for _ in 0..40 {
        let before = network.sent;
        network.pass(1, |_, _| None);
        assert_eq!(network.sent - before, 3);
    }
}

#[test]
fn strangers_limits_and_equal_addresses_are_counted() {
    let mut network = Network::new();
    network.streams.set_streams_max(2);
    network.event(CALLER, &start(CALLER, 1, Protection::None));
    network.event(CALLER, &start(CALLER, 1, Protection::None));
    network.event(CALLEE, &start(CALLEE, 1, Protection::None));
    network.event(CALLEE, &start(CALLEE, 2, Protection::None));
    network.event(CALLEE, &MediaEvent::Refused(MediaRefusal::Codec));
    let streams = &mut network.streams;
    let refused: Vec<_> =
        streams.counters().refused.iter().map(|(reason, count)| (*reason, *count)).collect();
    assert_eq!(refused, [(MediaRefusal::Codec, 1), (MediaRefusal::Full, 1), (MediaRefusal::Ambiguous, 1)]);
    let from = Flow::udp(CALLER, address(CALLEE));
    let mut packet = [0; 172];
    packet[0] = 0x80;
    // An SSRC that no SDP has, and a datagram that is not RTP.
    assert_eq!(streams.on_datagram(network.now, from, &mut packet), None);
    assert_eq!(streams.on_datagram(network.now, from, &mut [0; 40]), None);
    assert_eq!(streams.on_datagram(network.now, from, &mut []), None);
    let counters = streams.counters();
    assert_eq!((counters.received, counters.stray, counters.not_rtp), (3, 1, 2));
}

#[test]
fn a_peer_without_ssrc_is_recognized_by_its_address() {
    let mut network = Network::new();
    let MediaEvent::Started(started) = start(CALLER, 1, Protection::None) else { panic!("no start") };
    network.event(CALLER, &MediaEvent::Started(MediaStart { remote_ssrc: None, ..*started.clone() }.into()));
    network.event(CALLEE, &start(CALLEE, 1, Protection::None));
    network.pass(200, |_, _| Some(1));
    let [caller, _] = network.end(1);
    assert_eq!(caller.received.received, 10);
    // The port of an ended call can be used again at once.
    let again = MediaStart { remote_ssrc: None, call: 2, ..*started };
    network.event(CALLER, &MediaEvent::Started(again.clone().into()));
    network.event(CALLER, &MediaEvent::Ended(2));
    network.event(CALLER, &MediaEvent::Started(MediaStart { call: 3, ..again }.into()));
    assert_eq!(network.streams.len(), 1);
    assert!(network.streams.counters().refused.is_empty());
}

/// Recording of packets with their numbers as payload: milliseconds after the first packet, and offset of the port.
fn recording(packets: &[(u64, u16)]) -> Arc<Recording> {
    let mut recording = Recording::default();
    for (number, (millis, offset)) in (0_u8..).zip(packets) {
        recording.push(Duration::from_millis(*millis), *offset, &[number]).unwrap();
    }
    Arc::new(recording)
}

fn play(call: u64, port: u16, recording: &Arc<Recording>) -> MediaEvent {
    let remote = ([127, 0, 0, 9], port).into();
    MediaEvent::Play(Box::new(MediaPlay { call, remote, recording: Arc::clone(recording) }))
}

/// Packets of the next `millis`: their millisecond, port and number.
fn sent_in(network: &mut Network, millis: u64) -> Vec<(u64, u16, u8)> {
    let mut sent = Vec::new();
    for millisecond in 0..millis {
        let mut out = Outbox::new();
        while network.streams.send_due(network.now, 2, &mut out) {}
        let of = |flow: Flow, bytes: &[u8]| (millisecond, flow.remote.port(), bytes[0]);
        sent.extend(out.packets().map(|(packet, bytes)| of(packet.flow, bytes)));
        network.now = network.now + Duration::from_millis(1);
        network.streams.on_timeout(network.now);
    }
    sent
}

#[test]
fn a_recording_is_played_at_its_times() {
    let mut network = Network::new();
    // A packet that the file has too late is sent with the one before.
    let recording = recording(&[(0, 0), (20, 0), (20, 1), (10, 0), (300, 0)]);
    let last = recording.packet(4).map(|(at, ..)| at);
    assert_eq!((recording.len(), last), (5, Some(Duration::from_millis(300))));
    network.event(CALLER, &play(1, 4000, &recording));
    assert_eq!(network.streams.next_deadline().unwrap().at, network.now);
    let sent = sent_in(&mut network, 290);
    assert_eq!(sent, [(0, 4000, 0), (20, 4000, 1), (20, 4001, 2), (20, 4000, 3)]);
    assert!(!network.streams.is_empty());
    assert_eq!(sent_in(&mut network, 100), [(10, 4000, 4)]);
    assert!(network.streams.is_empty() && network.streams.next_deadline().is_none());
    let counters = network.streams.counters();
    assert_eq!((counters.played, counters.sent, counters.late, counters.skipped), (1, 5, 0, 0));
}

#[test]
fn the_end_of_a_call_and_another_recording_end_one_and_late_packets_are_skipped() {
    let mut network = Network::new();
    let long = recording(&[(0, 0), (20, 0), (40, 0), (60, 0)]);
    let other = recording(&[(0, 0), (5, 0)]);
    network.event(CALLER, &play(1, 4000, &long));
    network.event(CALLEE, &play(1, 5000, &long));
    assert_eq!(sent_in(&mut network, 10), [(0, 4000, 0), (0, 5000, 0)]);
    network.event(CALLER, &MediaEvent::Ended(1));
    network.event(CALLEE, &play(1, 6000, &other));
    assert_eq!(sent_in(&mut network, 100), [(0, 6000, 0), (5, 6000, 1)]);
    // The thread slept.
    network.event(CALLER, &play(2, 4000, &long));
    network.now = network.now + Duration::from_millis(250);
    assert_eq!(sent_in(&mut network, 1), [(0, 4000, 3)]);
    // There is no port 65,536.
    network.event(CALLER, &play(3, u16::MAX, &recording(&[(0, 0), (0, 1)])));
    assert_eq!(sent_in(&mut network, 1), [(0, u16::MAX, 0)]);
    let counters = network.streams.counters();
    assert_eq!((counters.played, counters.skipped, counters.late), (5, 4, 1));
    assert!(counters.late_max == Duration::from_millis(190) && network.streams.is_empty());
    // All of them end together.
    network.event(CALLER, &play(4, 4000, &long));
    network.streams.end_all(network.now);
    assert!(network.streams.is_empty());
}

#[test]
fn recordings_have_limits() {
    let mut recording = Recording::default();
    let long = [0; Recording::PAYLOAD_BYTES_MAX + 1];
    for wrong in [&long[..], b""] {
        assert_eq!(recording.push(Duration::ZERO, 0, wrong), Err(RecordingError::Length));
    }
    for _ in 0..Recording::PACKETS_MAX {
        recording.push(Duration::ZERO, 0, b"x").unwrap();
    }
    assert_eq!(recording.push(Duration::ZERO, 0, b"x"), Err(RecordingError::Full));
    let (mut network, recording) = (Network::new(), Arc::new(recording));
    network.streams.set_streams_max(1);
    network.event(CALLER, &play(1, 4000, &recording));
    network.event(CALLER, &play(2, 4000, &recording));
    assert_eq!(network.streams.counters().refused, [(MediaRefusal::Full, 1)].into());
}

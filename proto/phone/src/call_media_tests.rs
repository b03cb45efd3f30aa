//! A source is heard only by a peer of an answered call.

use super::*;
use alloc::vec::Vec;
use ringway_media::session::SessionConfig;
use ringway_sansio::Seed;
use ringway_sdp::{Codec, Direction, Protection};

const START: Instant = Instant::from_secs(1);

/// A file whose blocks are numbered, block n with samples of 100 n; as a microphone, one that never pauses.
#[derive(Default)]
struct Numbered {
    next: i16,
    is_microphone: bool,
    has_ringback: bool,
}

impl Sound for Numbered {
    fn capture(&mut self, block: &mut [i16]) {
        self.next += 1;
        block.fill(self.next * 100);
    }

    fn play(&mut self, _: &[i16]) {
        self.has_ringback = false;
    }

    fn play_ringback(&mut self, _: &mut [i16]) {
        self.has_ringback = true;
    }

    fn is_microphone(&self) -> bool {
        self.is_microphone
    }
}

struct Sender {
    media: CallMedia<Numbered>,
    now: Instant,
}

impl Sender {
    fn new(is_microphone: bool) -> Self {
        let session = MediaSession::new(SessionConfig::default(), Seed::from_number(1), START);
        let sound = Numbered { is_microphone, ..Numbered::default() };
        Self { media: CallMedia::new(session, sound, START), now: START }
    }

    fn command(&mut self, command: MediaCommand) {
        self.media.on_command(self.now, command, &mut Outbox::new());
    }

    fn negotiate(&mut self, direction: Direction) {
        self.negotiate_with(direction, Protection::None);
    }

    fn negotiate_with(&mut self, direction: Direction, protection: Protection) {
        self.command(MediaCommand::Params(Box::new(MediaParams {
            remote: "127.0.0.1:4000".parse().unwrap(),
            remote_rtcp: "127.0.0.1:4001".parse().unwrap(),
            codec: Codec::Pcmu,
            payload_type: 0,
            receive: [(0, Codec::Pcmu)].into(),
            telephone_event: None,
            receive_telephone_event: None,
            ptime_ms: 20,
            direction,
            protection,
            rtcp_mux: false,
            ice: None,
        })));
    }

    /// Peaks of the next blocks.
    fn blocks(&mut self, count: usize) -> Vec<u16> {
        let peaks = (0..count).map(|_| {
            self.now = self.now + Duration::from_millis(20);
            self.media.prepare(self.now, self.now, &mut Outbox::new());
            self.media.levels.0.peak
        });
        peaks.collect()
    }
}

#[test]
fn a_file_pauses_while_nobody_hears_it() {
    let mut sender = Sender::new(false);
    assert_eq!(sender.blocks(2), [0, 0], "nothing is negotiated");
    sender.negotiate(Direction::SendRecv);
    assert_eq!(sender.blocks(2), [0, 0], "not answered");
    sender.command(MediaCommand::Answered);
    assert_eq!(sender.blocks(2), [100, 200]);
    sender.negotiate(Direction::SendOnly);
    assert_eq!(sender.blocks(3), [0, 0, 0], "we hold");
    sender.negotiate(Direction::SendRecv);
    assert_eq!(sender.blocks(2), [300, 400]);
    for direction in [Direction::RecvOnly, Direction::Inactive] {
        sender.negotiate(direction);
        assert_eq!(sender.blocks(2), [0, 0], "the peer holds");
    }
    sender.negotiate(Direction::SendRecv);
    assert_eq!(sender.blocks(1), [500]);
    sender.command(MediaCommand::Mute);
    assert_eq!(sender.blocks(1), [0]);
    sender.command(MediaCommand::Unmute);
    assert_eq!(sender.blocks(1), [700], "muted it continues");
    sender.command(MediaCommand::Close);
    assert_eq!(sender.blocks(1), [0], "the call is over");
}

#[test]
fn a_microphone_is_opened_by_the_answer_and_silent_from_the_hold_command_on() {
    let mut sender = Sender::new(true);
    sender.negotiate(Direction::SendRecv);
    assert_eq!((sender.blocks(2), sender.media.sound().next), ([0, 0].into(), 0), "early media");
    sender.command(MediaCommand::Answered);
    assert_eq!(sender.blocks(1), [100]);
    sender.command(MediaCommand::Hold);
    assert_eq!((sender.blocks(2), sender.media.sound().next), ([0, 0].into(), 3), "it continues unheard");
    sender.command(MediaCommand::Resume);
    assert_eq!(sender.blocks(1), [400]);
}

#[test]
fn the_ringback_tone_ends_with_the_answer() {
    let mut sender = Sender::new(false);
    sender.command(MediaCommand::Ringback);
    sender.blocks(1);
    assert!(sender.media.sound().has_ringback);
    sender.command(MediaCommand::Answered);
    sender.blocks(1);
    assert!(!sender.media.sound().has_ringback);
}

#[test]
fn levels_come_ten_times_a_second_and_figures_once_after_the_negotiation() {
    let mut sender = Sender::new(false);
    let count = |sender: &mut Sender| {
        let (mut levels, mut reports) = (0, 0);
        for _ in 0..50 {
            sender.blocks(1);
            while let Some(event) = sender.media.poll_report(sender.now) {
                match event {
                    CallMediaEvent::Levels(_) => levels += 1,
                    CallMediaEvent::Report(_) => reports += 1,
                    CallMediaEvent::Session(_)
                    | CallMediaEvent::DigitNotSent(_)
                    | CallMediaEvent::Silent(_) => {}
                }
            }
        }
        (levels, reports)
    };
    assert_eq!(count(&mut sender), (0, 0));
    sender.negotiate(Direction::SendRecv);
    assert_eq!(count(&mut sender), (10, 1));
}

/// Lets `blocks` blocks pass; returns the reports of silence.
fn silences(sender: &mut Sender, blocks: usize) -> Vec<bool> {
    let mut reports = Vec::new();
    for _ in 0..blocks {
        sender.blocks(1);
        while let Some(event) = sender.media.poll_report(sender.now) {
            if let CallMediaEvent::Silent(is_silent) = event {
                reports.push(is_silent);
            }
        }
    }
    reports
}

#[test]
fn silence_is_reported_where_both_may_send_and_nobody_holds() {
    for direction in [Direction::SendRecv, Direction::RecvOnly, Direction::SendOnly, Direction::Inactive] {
        let mut sender = Sender::new(false);
        sender.negotiate(direction);
        assert_eq!(silences(&mut sender, 200), [], "not answered");
        sender.command(MediaCommand::Answered);
        let expected: &[bool] = if direction == Direction::SendRecv { &[true] } else { &[] };
        assert_eq!(silences(&mut sender, 200), expected, "{direction:?}");
    }
    let mut sender = Sender::new(false);
    sender.negotiate(Direction::SendRecv);
    sender.command(MediaCommand::Answered);
    sender.command(MediaCommand::Hold);
    assert_eq!(silences(&mut sender, 200), [], "the peer is to be silent");
    sender.command(MediaCommand::Resume);
    assert_eq!(silences(&mut sender, 200), [true]);
    let mut packet = [[0x80, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7].as_slice(), &[0xFF; 160]].concat();
    let flow = Flow::udp(RTP_PORT, "127.0.0.1:4000".parse().unwrap());
    sender.media.on_datagram(sender.now, sender.now, flow, &mut packet, &mut Outbox::new());
    assert_eq!(silences(&mut sender, 100), [false], "one packet is enough");
}

#[test]
fn silence_is_not_reported_while_keys_are_agreed_on() {
    let mut sender = Sender::new(false);
    let zrtp = Protection::Zrtp { peer_hello_hash: None };
    sender.negotiate_with(Direction::SendRecv, zrtp);
    sender.command(MediaCommand::Answered);
    assert_eq!(silences(&mut sender, 200), []);
}

/// Runs a watch with a tick every 20 ms; `due` has the ticks from and to which the peer may send. Returns the reports with
/// their ticks.
fn run(due: &[(u64, u64)], packets: &[u64], ticks: u64) -> alloc::vec::Vec<(u64, bool)> {
    let (mut watch, mut last) = (SilenceWatch::default(), None);
    let at = |tick: u64| Instant::from_secs(1) + Duration::from_millis(20) * tick as u32;
    let mut reports = alloc::vec::Vec::new();
    for tick in 0..ticks {
        if packets.contains(&tick) {
            last = Some(at(tick));
        }
        let is_due = due.iter().any(|&(from, to)| (from..to).contains(&tick));
        reports.extend(watch.check(at(tick), is_due, last).map(|report| (tick, report)));
    }
    reports
}

#[test]
fn three_seconds_without_a_packet_are_reported_once_and_the_first_packet_after_them() {
    assert_eq!(run(&[(0, 1000)], &[], 1000), [(150, true)]);
    assert_eq!(run(&[(0, 1000)], &[400, 401], 1000), [(150, true), (400, false)]);
    assert_eq!(run(&[(0, 149)], &[], 149), [], "a shorter call is not judged");
    assert_eq!(run(&[(0, 1000)], &[100], 1000), [], "one packet of comfort noise");
}

#[test]
fn a_held_call_and_one_without_keys_are_not_due() {
    assert_eq!(run(&[], &[], 1000), []);
    assert_eq!(run(&[(0, 140), (200, 340)], &[], 1000), [], "each time it begins anew");
    assert_eq!(run(&[(0, 140), (200, 1000)], &[], 1000), [(350, true)]);
    assert_eq!(run(&[(100, 1000)], &[50], 1000), [(250, true)], "sound before the answer does not count");
}

use super::*;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed};

/// Header and payload of all event packets of a call with `digits`.
fn packets(digits: &str, duration: u16) -> Vec<(RtpHeader, [u8; 4])> {
    let mut sender = DigitSender::new(32);
    for digit in digits.chars() {
        assert!(sender.push(Digit::from_char(digit).unwrap(), duration));
    }
    let mut packets = Vec::new();
    let (mut timestamp, mut sequence) = (u32::MAX - 800, 65_530_u16);
    while sender.is_busy() {
        if let Some(event) = sender.next(timestamp, 160) {
            let header = RtpHeader {
                marker: event.marker,
                payload_type: 101,
                sequence,
                timestamp: event.timestamp,
                ssrc: 1,
            };
            packets.push((header, event.payload));
        }
        timestamp = timestamp.wrapping_add(160);
        sequence = sequence.wrapping_add(1);
    }
    packets
}

fn digits(packets: &[(RtpHeader, [u8; 4])]) -> String {
    let mut receiver = DigitReceiver::default();
    let mut digits = String::new();
    for (header, payload) in packets {
        receiver.on_packet(*header, payload, |digit| digits.push(digit.as_char()));
    }
    digits
}

#[test]
fn a_key_of_100_ms_is_four_packets_and_three_ends() {
    let sent = packets("5", 800);
    let durations: Vec<_> = sent.iter().map(|(_, p)| (u16::from_be_bytes([p[2], p[3]]), p[1] >> 7)).collect();
    assert_eq!(durations, [(160, 0), (320, 0), (480, 0), (640, 0), (800, 1), (800, 1), (800, 1)]);
    let markers: Vec<_> = sent.iter().map(|(header, _)| header.marker).collect();
    assert_eq!(markers, [true, false, false, false, false, false, false]);
    assert!(sent.iter().all(|(header, payload)| header.timestamp == sent[0].0.timestamp && payload[0] == 5));
}

#[test]
fn all_digits_arrive_in_order_and_a_repeated_digit_twice() {
    assert_eq!(digits(&packets("0123456789*#ABCDd55", 400)), "0123456789*#ABCDD55");
}

#[test]
fn a_digit_shorter_than_a_packet_starts_and_ends_in_it() {
    let sent = packets("1", 40);
    assert_eq!(sent.len(), 3);
    assert!(sent[0].0.marker && sent[0].1[1] & 0x80 != 0 && sent[0].1[3] == 40);
    assert_eq!(digits(&sent), "1");
}

#[test]
fn duplicated_lost_and_reordered_packets_change_nothing_if_one_of_each_digit_arrives() {
    for seed in 0..300 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let sent = packets("159#*0", 800);
        let mut wire = Vec::new();
        for key in sent.chunk_by(|one, two| one.0.timestamp == two.0.timestamp) {
            let kept = rng.below(key.len() as u64) as usize;
            for (at, packet) in key.iter().enumerate() {
                if at == kept || rng.random_bool(500) {
                    wire.push(*packet);
                }
                if rng.random_bool(300) {
                    wire.push(*packet);
                }
            }
        }
        // A packet overtakes another of the same digit; a last one arrives after the next digit has started.
        for at in 1..wire.len() {
            let same_key = wire[at].0.timestamp == wire[at - 1].0.timestamp;
            let stays_known = at >= 2 && wire[at - 2].0.timestamp == wire[at - 1].0.timestamp;
            if rng.random_bool(300) && (same_key || stays_known) {
                wire.swap(at, at - 1);
            }
        }
        assert_eq!(digits(&wire), "159#*0", "seed {seed}");
    }
}

#[test]
fn a_very_long_digit_is_one_digit() {
    let at = |timestamp, marker, duration: u16, end: u8| {
        let [high, low] = duration.to_be_bytes();
        let header = RtpHeader { marker, payload_type: 101, sequence: 0, timestamp, ssrc: 1 };
        (header, [7, end << 7, high, low])
    };
    let segments =
        [at(0, true, 160, 0), at(0, false, 65_535, 0), at(65_535, false, 160, 0), at(65_535, false, 400, 1)];
    assert_eq!(digits(&segments), "7");
    assert_eq!(digits(&[at(0, true, 800, 1), at(65_535, true, 160, 0)]), "77");
}

#[test]
fn several_digits_may_share_a_packet() {
    let header = RtpHeader { marker: true, payload_type: 101, sequence: 0, timestamp: 9, ssrc: 1 };
    let payload = [1, 0x80, 1, 0, 2, 0x80, 1, 0, 3, 0, 0, 9];
    let mut receiver = DigitReceiver::default();
    let mut digits = String::new();
    for _ in 0..3 {
        receiver.on_packet(header, &payload, |digit| digits.push(digit.as_char()));
    }
    assert_eq!((digits.as_str(), receiver.repeated()), ("123", 6));
}

#[test]
fn other_events_and_short_payloads_are_ignored() {
    let header = RtpHeader { marker: true, payload_type: 101, sequence: 0, timestamp: 9, ssrc: 1 };
    let mut receiver = DigitReceiver::default();
    for len in 0..4 {
        receiver.on_packet(header, &[1, 0, 0, 160][..len], |_| panic!("a digit of {len} bytes"));
    }
    receiver.on_packet(header, &[32, 0, 0, 160], |digit| panic!("{digit:?}"));
    assert_eq!(receiver.malformed(), 4);
    assert_eq!((Digit::from_char('x'), Digit::from_event(16)), (None, None));
}

#[test]
fn the_queue_is_bounded() {
    let mut sender = DigitSender::new(2);
    let digit = Digit::from_char('1').unwrap();
    assert_eq!(
        [sender.push(digit, 800), sender.push(digit, 800), sender.push(digit, 800)],
        [true, true, false]
    );
}

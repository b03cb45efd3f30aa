use super::*;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Rng, Seed};

const START: Instant = Instant::from_secs(1_000_000);

/// A packet in transit.
#[derive(Clone)]
struct Flight {
    arrives_ms: f64,
    number: u64,
    timestamp: u32,
    coded: Vec<u8>,
}

/// A speech-like sound: syllables of a buzzing voice, with pauses too short to count as silence.
fn speech(len: usize) -> Vec<i16> {
    (0..len)
        .map(|at| {
            let pulse = (at % 71) as f64 / 71.0;
            let syllable = 0.4 + 0.6 * ((at / 800) % 3) as f64 / 2.0;
            (12_000.0 * syllable * (0.5 - pulse)) as i16
        })
        .collect()
}

/// Packets of 20 ms on a link without loss or jitter.
fn flights(packets: u64, first_timestamp: u32) -> Vec<Flight> {
    let sound = speech(160 * packets as usize);
    (0..packets)
        .zip(sound.chunks(160))
        .map(|(number, block)| {
            let mut coded = alloc::vec![0; 160];
            g711::encode(Codec::Pcma, block, &mut coded);
            let timestamp = first_timestamp.wrapping_add(160 * number as u32);
            Flight { arrives_ms: 3.0 + 20.0 * number as f64, number: 65_536 + number, timestamp, coded }
        })
        .collect()
}

/// Delivers the packets and plays a block every 20 ms, until half a second after the last packet.
fn play(buffer: &mut JitterBuffer, mut flights: Vec<Flight>) -> Vec<i16> {
    flights.sort_by(|one, two| one.arrives_ms.total_cmp(&two.arrives_ms));
    let until_ms = flights.last().map_or(0.0, |flight| flight.arrives_ms) + 500.0;
    let mut played = Vec::new();
    play_from(buffer, flights, 0.0, until_ms, |_, _, block| played.extend_from_slice(block));
    played
}

/// Delivers the packets, which are in the order of their arrival, and plays a block every 20 ms. Calls `each` with the time, the counters
/// before the block, and the block.
fn play_from(
    buffer: &mut JitterBuffer,
    flights: Vec<Flight>,
    from_ms: f64,
    until_ms: f64,
    mut each: impl FnMut(f64, BufferCounts, &[i16; 160]),
) {
    let mut waiting = flights.into_iter().peekable();
    let mut now_ms = from_ms;
    while now_ms < until_ms {
        while let Some(flight) = waiting.next_if(|flight| flight.arrives_ms <= now_ms) {
            let at = START + Duration::from_secs_f64(flight.arrives_ms / 1000.0);
            let Flight { number, timestamp, coded, .. } = flight;
            buffer.insert(at, &SoundPacket { number, timestamp, codec: Codec::Pcma, payload: &coded });
        }
        let (before, mut block) = (buffer.counts(), [0; 160]);
        buffer.playout(START + Duration::from_secs_f64(now_ms / 1000.0), &mut block);
        each(now_ms, before, &block);
        now_ms += 20.0;
    }
}

fn buffer() -> JitterBuffer {
    JitterBuffer::new(BufferLimits::default())
}

fn loudness(sound: &[i16]) -> f64 {
    (sound.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / sound.len() as f64).sqrt()
}

#[test]
fn sound_over_a_perfect_link_is_unchanged() {
    let mut buffer = buffer();
    let sent = flights(200, u32::MAX - 3000);
    let mut expected = Vec::new();
    for flight in &sent {
        let mut block = [0; 160];
        g711::decode(Codec::Pcma, &flight.coded, &mut block);
        expected.extend_from_slice(&block);
    }
    let played = play(&mut buffer, sent);
    let start = played.iter().position(|sample| *sample != 0).unwrap();
    // The first 4 ms are a cross-fade from silence.
    assert!(played[start + 200..].windows(2000).any(|window| window == &expected[200..2200]));
    let counts = buffer.counts();
    assert_eq!((counts.played_samples, counts.concealed_samples, counts.late), (32_000, 0, 0));
    assert_eq!((counts.shortened_samples, counts.lengthened_samples), (0, 0));
    assert!((20..=43).contains(&(start / 8)), "{} ms", start / 8);
}

#[test]
fn packets_of_other_lengths_are_played() {
    for len in [80, 240, 480, 1600] {
        let sound = speech(48_000);
        let sent: Vec<Flight> = (0_u64..)
            .zip(sound.chunks(len))
            .map(|(number, block)| {
                let mut coded = alloc::vec![0; block.len()];
                g711::encode(Codec::Pcma, block, &mut coded);
                let timestamp = (len as u64 * number) as u32;
                Flight { arrives_ms: 3.0 + (len as u64 * number) as f64 / 8.0, number, timestamp, coded }
            })
            .collect();
        let mut buffer = buffer();
        play(&mut buffer, sent);
        let counts = buffer.counts();
        assert_eq!((counts.played_samples, counts.concealed_samples), (48_000, 0), "packets of {len}");
    }
}

#[test]
fn order_is_restored_and_duplicates_are_played_once() {
    let mut sent = flights(300, 0);
    for at in (0..298).step_by(3) {
        sent[at].arrives_ms += 30.0;
    }
    let duplicates: Vec<Flight> = sent.iter().step_by(5).cloned().collect();
    sent.extend(duplicates);
    let mut buffer = buffer();
    play(&mut buffer, sent);
    let counts = buffer.counts();
    // A few packets are too late until the buffer has adapted.
    assert!(counts.late + counts.concealed_samples / 160 <= 12, "{counts:?}");
    assert!(counts.played_samples + counts.concealed_samples >= 48_000 - 160, "{counts:?}");
    assert!(counts.duplicates >= 58, "{counts:?}");
}

#[test]
fn speech_continues_through_loss_reordering_and_jitter() {
    for seed in 0..40 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut sent = flights(1500, rng.next_u64() as u32);
        let before = sent.len() as u64;
        sent.retain(|_| !rng.random_bool(300));
        let lost = before - sent.len() as u64;
        for flight in &mut sent {
            flight.arrives_ms += rng.below(50_000) as f64 / 1000.0;
            if rng.random_bool(300) {
                flight.arrives_ms += 25.0;
            }
        }
        let mut buffer = buffer();
        let played = play(&mut buffer, sent);
        let counts = buffer.counts();
        let concealed = counts.concealed_samples / 160;
        assert!(concealed >= lost * 9 / 10, "seed {seed}: {lost} lost, {counts:?}");
        assert!(concealed <= lost + 1500 / 20, "seed {seed}: {lost} lost, {counts:?}");
        assert!(counts.played_samples >= (1500 - lost) * 160 * 95 / 100, "seed {seed}: {counts:?}");
        assert_eq!(counts.restarts, 0, "seed {seed}: {counts:?}");
        assert!((60..=110).contains(&buffer.delay_ms()), "seed {seed}: {} ms", buffer.delay_ms());
        // No quarter of a second in the call is silent, and the loudness is nearly unchanged.
        let inner = &played[8000..played.len() - 8000];
        assert!(inner.chunks_exact(2000).all(|part| loudness(part) > 300.0), "seed {seed}");
        assert!(loudness(inner) > 0.6 * loudness(&speech(48_000)), "seed {seed}: {}", loudness(inner));
    }
}

#[test]
fn the_delay_follows_the_jitter_up_and_down() {
    let mut rng = Rng::new(&Seed::from_number(11));
    let mut sent = flights(3000, 0);
    for flight in sent.iter_mut().take(1000) {
        flight.arrives_ms += rng.below(80_000) as f64 / 1000.0;
    }
    let calm = sent.split_off(1000);
    let mut buffer = buffer();
    play(&mut buffer, sent);
    let grown = buffer.delay_ms();
    assert!((90..=110).contains(&grown), "{grown} ms");
    play(&mut buffer, calm);
    assert_eq!(buffer.delay_ms(), 25);
    let counts = buffer.counts();
    assert!(counts.lengthened_samples > 0 && counts.shortened_samples > 0, "{counts:?}");
}

#[test]
fn suppressed_silence_is_not_loss() {
    let mut sent = flights(400, 0);
    let tail = sent.split_off(200);
    // A second of silence: sequence numbers continue, timestamps and time jump.
    sent.extend(tail.into_iter().map(|flight| Flight {
        arrives_ms: flight.arrives_ms + 1000.0,
        timestamp: flight.timestamp + 8000,
        ..flight
    }));
    let mut buffer = buffer();
    let played = play(&mut buffer, sent);
    let counts = buffer.counts();
    assert_eq!((counts.played_samples, counts.concealed_samples), (64_000, 0));
    assert!(played.windows(7000).any(|window| window.iter().all(|sample| *sample == 0)));
}

#[test]
fn digits_instead_of_sound_are_not_loss() {
    let mut buffer = buffer();
    let mut sent = flights(200, 0);
    for flight in sent.drain(100..107) {
        buffer.on_event(flight.number);
    }
    play(&mut buffer, sent);
    assert_eq!(buffer.counts().concealed_samples, 0);
}

#[test]
fn a_permanently_longer_transit_time_is_followed() {
    let mut sent = flights(600, 0);
    for flight in sent.iter_mut().skip(200) {
        flight.arrives_ms += 450.0;
    }
    let mut buffer = buffer();
    play(&mut buffer, sent);
    let counts = buffer.counts();
    assert!(counts.late < 20, "{counts:?}");
    assert!(counts.played_samples > 570 * 160, "{counts:?}");
}

#[test]
fn restarted_timestamps_and_a_new_source_are_followed() {
    let mut buffer = buffer();
    let mut sent = flights(300, 0);
    for flight in sent.iter_mut().skip(150) {
        flight.timestamp = flight.timestamp.wrapping_add(0x9000_0000);
    }
    play(&mut buffer, sent);
    assert!(buffer.counts().played_samples > 290 * 160, "{:?}", buffer.counts());
    buffer.on_new_source();
    play(&mut buffer, flights(300, 77));
    assert!(buffer.counts().played_samples > 585 * 160, "{:?}", buffer.counts());
}

#[test]
fn a_flood_is_bounded_and_counted() {
    let mut buffer = JitterBuffer::new(BufferLimits { packets_max: 10, ..BufferLimits::default() });
    for number in 0..100_u32 {
        let packet = SoundPacket {
            number: number.into(),
            timestamp: 160 * number,
            codec: Codec::Pcmu,
            payload: &[0; 160],
        };
        buffer.insert(START, &packet);
    }
    assert_eq!(buffer.counts().dropped, 90);
    let long = SoundPacket { number: 200, timestamp: 0, codec: Codec::Pcmu, payload: &[0; 1601] };
    assert_eq!(buffer.insert(START, &long), Inserted::TooLong);
    assert_eq!(buffer.insert(START, &SoundPacket { payload: &[], ..long }), Inserted::TooLong);
}

#[test]
fn random_sequence_numbers_and_timestamps_break_nothing() {
    for seed in 0..50 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut buffer = buffer();
        let mut now = START;
        for _ in 0..1000 {
            let coded = [7; 1600];
            let packet = SoundPacket {
                number: rng.below(1 << 20),
                timestamp: rng.next_u64() as u32 >> rng.below(32),
                codec: Codec::Pcmu,
                payload: &coded[..rng.below(1601) as usize],
            };
            buffer.insert(now, &packet);
            let mut block = [0; 480];
            buffer.playout(now, &mut block[..rng.below(481) as usize]);
            now = now + Duration::from_millis(rng.below(200));
        }
    }
}

/// Arrival times in milliseconds and lengths of the packets of 5 s, without loss and in order.
fn stream(pattern: &str, rng: &mut Rng) -> Vec<(f64, usize)> {
    let number = |name: &str| pattern.strip_prefix(name).and_then(|text| text.parse::<u64>().ok());
    let packet_ms = number("packets of ").unwrap_or(20);
    let mut last = 0.0_f64;
    (0..5000 / packet_ms)
        .map(|at| {
            let even = (packet_ms * at) as f64;
            let arrives = if let Some(together) = number("bursts of ") {
                (20 * together * (at / together)) as f64
            } else if let Some(jitter_ms) = number("jitter ") {
                even + rng.below(jitter_ms * 1000) as f64 / 1000.0
            } else if let Some(stall_ms) = number("stalls of ") {
                let begun_ms = (at / 100 * 2000) as f64;
                even.max(begun_ms + stall_ms as f64)
            } else {
                even
            };
            last = last.max(arrives);
            (last, packet_ms as usize * 8)
        })
        .collect()
}

/// Plays streams one after the other, and then until the buffer is empty. Returns the counters one second after the
/// beginning of the last one, and those at the end.
fn play_streams(
    buffer: &mut JitterBuffer,
    streams: &[Vec<(f64, usize)>],
    phase_ms: f64,
) -> [BufferCounts; 2] {
    let voice = speech(2000 * 8);
    let (mut flights, mut stamp, mut measured_ms) = (Vec::new(), 0, 0.0);
    for stream in streams {
        let begun_ms = stamp as f64 / 8.0;
        measured_ms = begun_ms + 1000.0;
        for (arrives_ms, len) in stream {
            let mut coded = alloc::vec![0; *len];
            let block: Vec<i16> =
                voice.iter().cycle().skip(stamp % voice.len()).take(*len).copied().collect();
            g711::encode(Codec::Pcma, &block, &mut coded);
            let number = flights.len() as u64;
            flights.push(Flight {
                arrives_ms: begun_ms + arrives_ms,
                number,
                timestamp: stamp as u32,
                coded,
            });
            stamp += len;
        }
    }
    let (mut measured, until_ms) = (None, stamp as f64 / 8.0 + 1000.0);
    play_from(buffer, flights, phase_ms, until_ms, |now_ms, before, _| {
        if now_ms >= measured_ms {
            measured.get_or_insert(before);
        }
    });
    [measured.unwrap_or_default(), buffer.counts()]
}

/// Each pattern with the longest delay that its jitter explains: that of its latest packets and one block.
const PATTERNS: [(&str, u32); 16] = [
    ("even", 25),
    ("bursts of 2", 45),
    ("bursts of 3", 65),
    ("bursts of 4", 85),
    ("jitter 5", 30),
    ("jitter 10", 35),
    ("jitter 20", 45),
    ("jitter 40", 65),
    ("jitter 60", 85),
    ("stalls of 60", 85),
    ("stalls of 100", 125),
    ("stalls of 200", 225),
    ("packets of 10", 25),
    ("packets of 30", 25),
    ("packets of 60", 25),
    ("packets of 200", 25),
];

#[test]
fn sound_that_arrives_is_played_for_any_pattern_phase_and_start() {
    for (pattern, delay_ms_max) in PATTERNS {
        for (phase, start) in (0..9).flat_map(|phase| {
            [None, Some("even"), Some("jitter 60"), Some("stalls of 200")].map(|start| (phase, start))
        }) {
            let mut rng = Rng::new(&Seed::from_number(7));
            let streams: Vec<_> =
                start.into_iter().chain([pattern]).map(|pattern| stream(pattern, &mut rng)).collect();
            let mut buffer = buffer();
            let phase_ms = 0.05 + 2.45 * f64::from(phase);
            let [before, counts] = play_streams(&mut buffer, &streams, phase_ms);
            let case = format!("{pattern} after {start:?} at phase {phase}: {before:?} {counts:?}");
            assert!(counts.concealed_samples - before.concealed_samples <= 4 * 8000 / 200, "{case}");
            assert!(counts.late == before.late && counts.restarts == 0, "{case}");
            if !pattern.starts_with("stalls") {
                let stretched = counts.lengthened_samples - before.lengthened_samples;
                assert!(stretched <= 4 * 8000 / 20, "{case}");
            }
            if start.is_none() {
                assert!(buffer.delay_ms() <= delay_ms_max, "{case}: {} ms", buffer.delay_ms());
            }
        }
    }
}

#[test]
fn packets_that_come_together_at_the_beginning_are_all_played() {
    for together in [2, 5, 10, 18] {
        let mut sent = flights(200, 0);
        for flight in sent.iter_mut().take(together) {
            flight.arrives_ms = 20.0 * together as f64;
        }
        let mut buffer = buffer();
        play(&mut buffer, sent);
        let counts = buffer.counts();
        assert_eq!((counts.played_samples, counts.concealed_samples), (32_000, 0), "{together}: {counts:?}");
    }
}

#[test]
fn sound_that_a_long_stall_destroys_is_counted() {
    let mut sent = flights(400, 0);
    for flight in &mut sent[200..] {
        flight.arrives_ms = flight.arrives_ms.max(20.0 * 200.0 + 1000.0);
    }
    let mut buffer = buffer();
    play(&mut buffer, sent);
    let counts = buffer.counts();
    let lost = 64_000 - counts.played_samples;
    assert!(lost > 0 && counts.concealed_samples + 4 * 160 >= lost / 2, "{lost} lost: {counts:?}");
}

use super::*;
use core::time::Duration;

fn arrival(at_ms: f64, sequence: u16, timestamp: u32) -> Arrival {
    Arrival {
        at: Instant::from_nanos(1_000_000_000 + (at_ms * 1e6) as u64),
        ssrc: 1,
        sequence,
        timestamp,
        marker: false,
        clock: Clock::Hz(8000),
        ip_bytes: 200,
    }
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value}, expected {expected}");
}

#[test]
fn a_hold_is_no_delta() {
    let mut reception = Reception::new();
    let receive = |reception: &mut Reception, packets: &[(f64, u16)]| {
        for (at_ms, number) in packets {
            reception.on_packet(&arrival(*at_ms, *number, 160 * u32::from(*number)));
        }
    };
    receive(&mut reception, &[(0.0, 0), (20.0, 1), (40.0, 2)]);
    reception.set_paused(true);
    // One on its way, and one that comes before our answer to the end of the hold.
    receive(&mut reception, &[(60.0, 3), (5060.0, 4)]);
    reception.set_paused(false);
    receive(&mut reception, &[(5080.0, 5), (5105.0, 6)]);
    let report = reception.report();
    near(report.delta_max_ms, 25.0);
    near(report.delta_mean_ms, (20.0 + 20.0 + 25.0) / 3.0);
    assert_eq!(report.deltas, 3);
}

/// Computed by hand with Wireshark's formulas: arrivals 0, 20, 45, 60, 80 for timestamps every 20 ms.
/// D: 0, 5, -5, 0. J: 0, 5/16 = 0.3125, 0.3125 + 4.6875/16 = 0.60546875, 0.60546875 · 15/16 = 0.567626953125.
#[test]
fn delta_and_jitter_are_wiresharks() {
    let mut reception = Reception::new();
    for (number, at_ms) in (0_u16..).zip([0.0, 20.0, 45.0, 60.0, 80.0]) {
        reception.on_packet(&arrival(at_ms, number, 160 * u32::from(number)));
    }
    let report = reception.report();
    near(report.delta_max_ms, 25.0);
    near(report.delta_mean_ms, 20.0);
    near(report.jitter_max_ms, 0.605_468_75);
    near(report.jitter_last_ms, 0.567_626_953_125);
    near(report.jitter_mean_ms, (0.0 + 0.3125 + 0.605_468_75 + 0.567_626_953_125) / 4.0);
    near(report.difference_mean_ms, 2.5);
    near(report.skew_max_ms, -5.0);
    // 200 bytes in 20 ms.
    near(report.kbit_s, 80.0);
    assert_eq!(reception.receiver_report().map(|source| source.jitter), Some(4));
}

#[test]
fn a_talk_spurts_first_packet_has_no_delta_but_moves_the_clock() {
    let mut reception = Reception::new();
    reception.on_packet(&arrival(0.0, 0, 0));
    reception.on_packet(&arrival(20.0, 1, 160));
    reception.on_packet(&Arrival { marker: true, ..arrival(1020.0, 2, 8160) });
    reception.on_packet(&arrival(1040.0, 3, 8320));
    let report = reception.report();
    near(report.delta_max_ms, 20.0);
    near(report.jitter_max_ms, 0.0);
}

#[test]
fn telephone_events_have_a_delta_and_no_jitter() {
    let mut reception = Reception::new();
    for number in 0..10_u16 {
        let mut packet = arrival(20.0 * f64::from(number), number, 160 * u32::from(number));
        if (4..8).contains(&number) {
            packet = Arrival { clock: Clock::Still, timestamp: 640, ..packet };
        }
        reception.on_packet(&packet);
    }
    let report = reception.report();
    near(report.delta_max_ms, 20.0);
    near(report.jitter_max_ms, 0.0);
}

#[test]
fn both_counters_may_wrap() {
    let mut reception = Reception::new();
    for number in 0..1000_u16 {
        let timestamp = (160 * u32::from(number)).wrapping_sub(5000);
        reception.on_packet(&arrival(20.0 * f64::from(number), number.wrapping_sub(300), timestamp));
    }
    let report = reception.report();
    near(report.jitter_max_ms, 0.0);
    assert_eq!((report.counts.received, report.counts.lost()), (1000, 0));
    assert_eq!(reception.receiver_report().map(|source| source.highest_sequence), Some(65_536 + 699));
}

#[test]
fn a_clock_that_runs_too_fast_is_measured() {
    let mut reception = Reception::new();
    for number in 0..5000_u16 {
        // 100 ppm: every packet arrives 2 µs before its timestamp.
        let at_ms = 20.0 * f64::from(number) * (1.0 - 100e-6);
        reception.on_packet(&arrival(at_ms, number, 160 * u32::from(number)));
    }
    let report = reception.report();
    assert!((report.drift_ppm - 100.0).abs() < 1.0, "{}", report.drift_ppm);
    near(report.skew_max_ms, 4999.0 * 0.002);
}

#[test]
fn loss_is_reported_since_the_last_report() {
    let mut reception = Reception::new();
    let send = |reception: &mut Reception, number: u16| {
        reception.on_packet(&arrival(20.0 * f64::from(number), number, 160 * u32::from(number)))
    };
    (0..100).filter(|number| number % 4 != 1).for_each(|number| _ = send(&mut reception, number));
    let source = reception.receiver_report().unwrap();
    assert_eq!((source.fraction_lost, source.cumulative_lost), (64, 25));
    (100..200).for_each(|number| _ = send(&mut reception, number));
    let source = reception.receiver_report().unwrap();
    assert_eq!((source.fraction_lost, source.cumulative_lost), (0, 25));
}

#[test]
fn a_new_source_restarts_the_counters_and_keeps_the_old_ones() {
    let mut reception = Reception::new();
    for number in (0..10_u16).filter(|number| *number != 5) {
        reception.on_packet(&arrival(20.0 * f64::from(number), number, 160 * u32::from(number)));
    }
    for number in 0..10_u16 {
        let mut packet = arrival(200.0 + 20.0 * f64::from(number), 40_000 + number, 77);
        packet.timestamp = 3_000_000_000 + 160 * u32::from(number);
        packet.ssrc = 2;
        reception.on_packet(&packet);
    }
    let report = reception.report();
    assert_eq!((report.counts.received, report.counts.lost(), report.source_changes), (19, 1, 1));
    near(report.jitter_max_ms, 0.0);
    near(report.delta_max_ms, 40.0);
}

#[test]
fn setting_the_clock_is_not_jitter() {
    let mut reception = Reception::new();
    reception.on_packet(&arrival(0.0, 0, 0));
    reception.on_packet(&arrival(20.0, 1, 160));
    reception.on_packet(&arrival(40.0, 2, 4_000_000));
    reception.on_packet(&arrival(60.0, 3, 4_000_160));
    near(reception.report().jitter_max_ms, 0.0);
    near(reception.report().skew_max_ms, 0.0);
}

#[test]
fn no_packet_gives_no_report() {
    let mut reception = Reception::new();
    assert_eq!(reception.report(), ReceptionReport::default());
    assert_eq!(reception.receiver_report(), None);
    let lone = arrival(0.0, 9, 9);
    reception.on_packet(&lone);
    assert_eq!(reception.report().kbit_s, 0.0);
    assert_eq!(reception.last_at().map(|at| at.since(Instant::from_secs(1))), Some(Duration::ZERO));
}

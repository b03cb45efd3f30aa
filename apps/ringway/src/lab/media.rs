//! Results of media streams as text and as JSON.

use ringway_lab::load::{MediaStatistics, MediaUse};
use ringway_lab::times::milliseconds;
use serde_json::{Value, json};
use std::time::Duration;

/// Record of the media. Delays and jitter are in milliseconds, CPU time in microseconds.
pub(super) fn json(media_use: MediaUse, media: &MediaStatistics) -> Value {
    let percentiles = |value: &dyn Fn(f64) -> Option<Duration>| {
        let value = |percentile| value(percentile).map(milliseconds);
        json!({ "p50": value(50.0), "p99": value(99.0), "max": value(100.0) })
    };
    json!({
        "profile": name(media_use),
        "streams": media.streams(),
        "silent_streams": media.silent_streams(),
        "refused_streams": media.refused(),
        "packets_sent": media.sent(),
        "packets_received": media.received(),
        "packets_lost": media.lost(),
        "loss_share": media.loss_share(),
        "packets_reordered": media.reordered(),
        "packets_duplicated": media.duplicates(),
        "authentication_failed": media.authentication_failed(),
        "replayed": media.replayed(),
        "malformed": media.malformed(),
        "stray": media.stray(),
        "jitter_ms": percentiles(&|percentile| media.jitter(percentile)),
        "delay_ms": percentiles(&|percentile| media.delay(percentile)),
        "late_packets": media.late(),
        "late_max_ms": milliseconds(media.late_max()),
        "unsent_packets": media.not_sent(),
        "cpu_us_per_stream_s": media.cpu_per_stream_second().map(|cpu| cpu.as_secs_f64() * 1e6),
    })
}

/// Lines for people.
pub(super) fn lines(media_use: MediaUse, media: &MediaStatistics) -> Vec<String> {
    let ms =
        |value: Option<Duration>| value.map_or_else(|| "-".to_owned(), |v| format!("{:.3}", milliseconds(v)));
    let mut lines = vec![
        format!(
            "  media  {}: {} streams, {} without a packet; {} packets sent, {} received, {} lost ({:.3} %), {} reordered",
            name(media_use),
            media.streams(),
            media.silent_streams(),
            media.sent(),
            media.received(),
            media.lost(),
            media.loss_share() * 100.0,
            media.reordered()
        ),
        format!(
            "  media quality  jitter median {} ms, 99th percentile {}; delay median {} ms, 99th percentile {}; {} failed authentications, {} strays",
            ms(media.jitter(50.0)),
            ms(media.jitter(99.0)),
            ms(media.delay(50.0)),
            ms(media.delay(99.0)),
            media.authentication_failed(),
            media.stray()
        ),
        format!(
            "  media generator  {} packets sent more than 5 ms late, at most {:.1} ms; {:.0} µs of CPU for each second of a stream",
            media.late(),
            milliseconds(media.late_max()),
            media.cpu_per_stream_second().unwrap_or_default().as_secs_f64() * 1e6
        ),
    ];
    let refused: Vec<String> =
        media.refused().iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
    if !refused.is_empty() {
        lines.push(format!("  calls without a stream  {}", refused.join(", ")));
    }
    lines
}

const fn name(media_use: MediaUse) -> &'static str {
    match media_use {
        MediaUse::None => "none",
        MediaUse::Rtp => "rtp",
        MediaUse::Srtp(suite) => suite.name(),
    }
}

//! Media streams of the calls, as a table.

use super::data::{Entry, Point as Rate, Results};
use super::figure::Figure;
use super::html::{Table, amount_or_none, count};
use super::rates::rows;
use crate::record::{Measurement, Media};

/// Media streams of each point. `None` without any.
pub(super) fn streams(results: &Results<'_>, entry: &Entry<'_>) -> Option<Figure> {
    let row = |point: &Rate<'_>| {
        let sum = |value: fn(&Media) -> u64| -> String {
            let values = point.valid().filter_map(|trial| trial.media.as_ref()).map(value);
            count(values.fold(0, u64::saturating_add))
        };
        let median = |value: fn(&Measurement) -> Option<f64>| {
            amount_or_none(point.spread(value).map(|spread| spread.median))
        };
        point.valid().any(|trial| trial.media.is_some()).then(|| {
            vec![
                sum(|media| media.streams),
                sum(|media| media.silent_streams),
                sum(|media| media.packets_sent),
                sum(|media| media.packets_received),
                sum(|media| media.packets_lost),
                sum(|media| media.late_packets),
                median(|trial| trial.media?.jitter_p99_ms),
                median(|trial| trial.media?.delay_p99_ms),
            ]
        })
    };
    let rows = rows(results, entry, row);
    (!rows.is_empty()).then(|| Figure {
        title: "Media streams",
        note: "Sums of all valid trials of a point; of jitter and delay the median of the trials\u{2019} 99th percentiles."
            .to_owned(),
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Offered, attempts/s",
                "Streams",
                "Without a packet",
                "Packets sent",
                "Received",
                "Lost",
                "Sent late",
                "Jitter, 99th percentile, ms",
                "Delay, 99th percentile, ms",
            ],
            text_columns: 2,
            rows,
        },
        ..Figure::default()
    })
}

//! Processor of the servers against the load, and the share of resumed TLS handshakes beside each point.

use super::data::{Entry, Point as Rate, Results};
use super::figure::Figure;
use super::html::{Table, amount, count, percent};
use super::plot::Axis;
use super::rates::{Value, X, invalid_key, panels, rows};
use crate::record::{Measurement, Tls};
use crate::statistics::mean_interval;

/// Share of a processor against the offered rate.
pub(super) fn share(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let of = |trial: &Measurement| trial.server_cpu_share.map(|share| share * 100.0);
    let value = Value { of, text: |share| format!("{} % of a processor", amount(share)) };
    let y = Axis { title: "server, % of a processor", ..Axis::default() };
    let row = |point: &Rate<'_>| {
        let values: Vec<f64> = point.valid().filter_map(of).collect();
        let spread = point.spread(of)?;
        let mean = match mean_interval(&values) {
            Some((mean, half)) => format!("{} ± {}", amount(mean), amount(half)),
            None => "–".to_owned(),
        };
        Some(vec![spread.n.to_string(), amount(spread.median), mean])
    };
    Figure {
        title: "Processor used by the server",
        note: "CPU time of all processes of the server while attempts were planned, as a share of one processor; with what it writes later. The mean of n trials has the 95 % confidence interval of Student's t."
            .to_owned(),
        keys: invalid_key(entry).into_iter().collect(),
        panels: panels(results, entry, X::of(entry).axis(entry), y, value, None),
        table: Table {
            head: &["Variant", "Target", "Offered, attempts/s", "Valid trials", "Median, %", "Mean, 95 % confidence, %"],
            text_columns: 2,
            rows: rows(results, entry, row),
        },
        ..Figure::default()
    }
}

/// TLS handshakes of each point. `None` without any.
pub(super) fn handshakes(results: &Results<'_>, entry: &Entry<'_>) -> Option<Figure> {
    let row = |point: &Rate<'_>| {
        let of = |value: fn(&Tls) -> u64| -> u64 {
            point.valid().filter_map(|trial| trial.tls.as_ref()).map(value).sum()
        };
        let share = |full: u64, resumed: u64| match full + resumed {
            0 => "–".to_owned(),
            all => percent(resumed as f64 / all as f64),
        };
        let [full, resumed] = [of(|tls| tls.full), of(|tls| tls.resumed)];
        let [accepted, accepted_resumed] = [of(|tls| tls.accepted_full), of(|tls| tls.accepted_resumed)];
        let failed = of(|tls| tls.failed);
        (full + resumed + accepted + accepted_resumed + failed > 0).then(|| {
            vec![
                count(full),
                count(resumed),
                share(full, resumed),
                count(accepted),
                count(accepted_resumed),
                share(accepted, accepted_resumed),
                count(failed),
            ]
        })
    };
    let rows = rows(results, entry, row);
    (!rows.is_empty()).then(|| Figure {
        title: "TLS handshakes",
        note: "Of all valid trials of a point. A connection is resumed only if both sides agreed: this is the share that was achieved, also where resumption was wanted. In connections from the server it is the client of TLS.".to_owned(),
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Offered, attempts/s",
                "Full",
                "Resumed",
                "Share of resumed",
                "From the server: full",
                "Resumed",
                "Share of resumed",
                "Failed",
            ],
            text_columns: 2,
            rows,
        },
        ..Figure::default()
    })
}

//! Latency as the documents judge it: average, sum of a call, weighted coefficient.

use super::data::{Entry, Point as Rate, Results};
use super::figure::Figure;
use super::html::{Table, amount, amount_or_none};
use super::rates::rows;
use crate::record::{Measurement, Percentiles};
use crate::statistics::{latency_coefficient, mean_interval, median};

/// Table of averages, sums and coefficients.
pub(super) fn averages(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let row = |point: &Rate<'_>| {
        let mean = |trial: &Measurement| trial.response_ms.and_then(measured);
        let values: Vec<f64> = point.valid().filter_map(mean).collect();
        let first = point.spread(mean)?;
        let average = match mean_interval(&values) {
            Some((mean, half)) => format!("{} ± {}", amount(mean), amount(half)),
            None => amount(first.median),
        };
        let coefficient = median(point.valid().map(|trial| latency_coefficient(&trial.buckets30)));
        Some(vec![
            values.len().to_string(),
            average,
            amount_or_none(point.spread(summed).map(|spread| spread.median)),
            format!("{coefficient:.4}"),
        ])
    };
    Figure {
        title: "Average and summed latency, coefficient",
        note: "Average of the response time, with the 95 % confidence interval of Student's t over the trials. Summed latency of a call: from the first INVITE to its 200, with the challenge if there is one, and from BYE to its 200 (dissertation). Coefficient: shares of the response times up to 30, 60, 90, 120 and 150 ms with the weights 0.55, 0.445, 0.004, 0.0007 and 0.0003, less the share above 150 ms; 0.55 is the best value."
            .to_owned(),
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Offered, attempts/s",
                "Valid trials",
                "Average response time, ms",
                "Summed latency of a call, ms",
                "Coefficient",
            ],
            text_columns: 2,
            rows: rows(results, entry, row),
        },
        ..Figure::default()
    }
}

/// Averages of INVITE to 200, with the challenge, and of BYE to 200; `None` without a BYE.
fn summed(trial: &Measurement) -> Option<f64> {
    Some(measured(trial.service_ms?)? + measured(trial.disconnect_ms?)?)
}

/// Mean of a delay; `None` in records of an earlier lab, which have none.
fn measured(delay: Percentiles) -> Option<f64> {
    (delay.mean > 0.0).then_some(delay.mean)
}

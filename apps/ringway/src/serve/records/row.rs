//! Conversion of a record for the API and the database.

use super::Numbered;
use jiff::Timestamp;
use ringway_admin::CallRecord as Row;
use ringway_sansio::Instant;
use ringway_server::CallSender;
use ringway_store::{RecordOrigin, RecordRow};

/// A record as text. Bytes that are not UTF-8 are replaced.
pub(super) fn row_of(ended: &Numbered) -> Row {
    let (n, record) = (ended.n, &ended.record);
    let texts = &record.texts;
    let duration = record.answered.map(|answered| record.ended.since(answered));
    Row {
        n,
        call_id: text(texts.call_id()),
        from: text(texts.from()),
        to: text(texts.to()),
        caller: texts.caller().map(text),
        callee: texts.callee().map(text),
        source: record.source.to_string(),
        begun: written(record.begun),
        ringing: record.ringing.map(written),
        answered: record.answered.map(written),
        ended: written(record.ended),
        duration_s: duration.map(|duration| duration.as_millis() as f64 / 1000.0),
        status: record.status,
        reason: record.end.name().to_owned(),
        diverted: record.diverted.map(|reason| reason.name().to_owned()),
        target: record.target.as_deref().map(text),
    }
}

/// The same for the database.
pub(super) fn stored(row: &Row, sender: CallSender) -> RecordRow<'_> {
    RecordRow {
        call_id: &row.call_id,
        from: &row.from,
        to: &row.to,
        caller: row.caller.as_deref(),
        callee: row.callee.as_deref(),
        source: &row.source,
        begun: &row.begun,
        ringing: row.ringing.as_deref(),
        answered: row.answered.as_deref(),
        ended: &row.ended,
        duration_s: row.duration_s,
        status: row.status,
        reason: &row.reason,
        diverted: row.diverted.as_deref(),
        target: row.target.as_deref(),
        origin: match sender {
            CallSender::Proven | CallSender::Believed => RecordOrigin::User,
            CallSender::Stranger => RecordOrigin::Stranger,
        },
    }
}

/// Time in RFC 3339 with milliseconds, UTC.
pub(super) fn written(time: Instant) -> String {
    let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    format!("{:.3}", Timestamp::from_millisecond(ms).unwrap_or_default())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

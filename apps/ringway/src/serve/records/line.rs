//! Lines of the file of records, as JSON, and conversion of a record for the API and the database.

use super::Numbered;
use jiff::Timestamp;
use ringway_admin::CallRecord as Row;
use ringway_sansio::Instant;
use ringway_server::{CallRecord, CallSender};
use ringway_store::{RecordOrigin, RecordRow};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// Appends a record and a line end.
///
/// # Errors
/// The encoder of JSON failed.
pub(super) fn write_line(out: &mut Vec<u8>, ended: &Numbered) -> io::Result<()> {
    let record = &ended.record;
    out.extend_from_slice(b"{\"n\":");
    write_number(out, ended.n);
    write_texts(out, record)?;
    out.extend_from_slice(b",\"source\":\"");
    write_address(out, record.source)?;
    out.extend_from_slice(b"\",\"begun\":");
    let mut date = Date::default();
    write_time(out, record.begun, &mut date);
    for (key, time) in [
        (&b",\"ringing\":"[..], record.ringing),
        (b",\"answered\":", record.answered),
        (b",\"ended\":", Some(record.ended)),
    ] {
        if let Some(time) = time {
            out.extend_from_slice(key);
            write_time(out, time, &mut date);
        }
    }
    if let Some(answered) = record.answered {
        out.extend_from_slice(b",\"duration_s\":");
        write_seconds(out, record.ended.since(answered).as_millis() as u64);
    }
    out.extend_from_slice(b",\"status\":");
    write_number(out, record.status.into());
    // These words have nothing to escape.
    let words = [
        (",\"reason\":\"", Some(record.end.name())),
        (",\"diverted\":\"", record.diverted.map(|why| why.name())),
    ];
    for (key, word) in words {
        if let Some(word) = word {
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(word.as_bytes());
            out.push(b'"');
        }
    }
    if let Some(target) = &record.target {
        out.extend_from_slice(b",\"target\":");
        write_text(out, target)?;
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

fn write_texts(out: &mut Vec<u8>, record: &CallRecord) -> io::Result<()> {
    let texts = &record.texts;
    for (key, text) in
        [(&b",\"call_id\":"[..], texts.call_id()), (b",\"from\":", texts.from()), (b",\"to\":", texts.to())]
    {
        out.extend_from_slice(key);
        write_text(out, text)?;
    }
    if let Some(caller) = texts.caller() {
        out.extend_from_slice(b",\"caller\":");
        write_text(out, caller)?;
    }
    if let Some(callee) = texts.callee() {
        out.extend_from_slice(b",\"callee\":");
        write_text(out, callee)?;
    }
    Ok(())
}

/// Writes a string; bytes that are not UTF-8 are replaced.
fn write_text(out: &mut Vec<u8>, text: &[u8]) -> io::Result<()> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    // Without an early end, so that the compiler can take many bytes at once.
    if !text.iter().fold(true, |plain, &byte| plain & is_plain(byte)) {
        return Ok(serde_json::to_writer(out, &*String::from_utf8_lossy(text))?);
    }
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
    Ok(())
}

fn write_address(out: &mut Vec<u8>, address: SocketAddr) -> io::Result<()> {
    let IpAddr::V4(ip) = address.ip() else { return write!(out, "{address}") };
    for (at, octet) in ip.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        write_number(out, octet.into());
    }
    out.push(b':');
    write_number(out, address.port().into());
    Ok(())
}

/// Date of a number of days since 1970-01-01: the times of a record are of one day, most of the time.
#[derive(Default)]
struct Date {
    days: u64,
    /// Year, month and day; zeros before the first one.
    parts: (u64, u64, u64),
}

impl Date {
    fn at(&mut self, days: u64) -> (u64, u64, u64) {
        if self.days != days || self.parts.2 == 0 {
            *self = Self { days, parts: date_of(days) };
        }
        self.parts
    }
}

/// Writes a time in RFC 3339 with milliseconds, UTC, in quotes.
fn write_time(out: &mut Vec<u8>, time: Instant, date: &mut Date) {
    let (ms, seconds) = (time.as_millis() % 1000, time.as_secs());
    let (year, month, day) = date.at(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let digit = |number: u64, power: u64| b'0' + (number as u32 / power as u32 % 10) as u8;
    let two = |number: u64| [digit(number, 10), digit(number, 1)];
    let ([y1, y2], [y3, y4]) = (two(year / 100), two(year % 100));
    let ([o1, o2], [d1, d2], [h1, h2]) = (two(month), two(day), two(hour));
    let ([m1, m2], [s1, s2]) = (two(minute), two(second));
    out.extend_from_slice(&[
        b'"',
        y1,
        y2,
        y3,
        y4,
        b'-',
        o1,
        o2,
        b'-',
        d1,
        d2,
        b'T',
        h1,
        h2,
        b':',
        m1,
        m2,
        b':',
        s1,
        s2,
        b'.',
        digit(ms, 100),
        digit(ms, 10),
        digit(ms, 1),
        b'Z',
        b'"',
    ]);
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar. Years begin in March here, so that the
/// leap day is the last; an era has 400 years.
const fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + (month <= 2) as u64, month, day)
}

/// Writes milliseconds as seconds, as `serde_json` writes a floating-point number: `0.0`, `61.001`, `2.5`.
fn write_seconds(out: &mut Vec<u8>, ms: u64) {
    write_number(out, ms / 1000);
    let ms = ms % 1000;
    let digits = [ms / 100, ms / 10 % 10, ms % 10].map(|digit| b'0' + digit as u8);
    let len = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    out.push(b'.');
    out.extend_from_slice(digits.get(..len).unwrap_or(&digits));
}

fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start = at;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_calendar() {
        // Each day from 1970 to 2554, at two times of it.
        let mut date = Date::default();
        for day in 0..213_500 {
            for at in [0, day * 7919 % 86_400_000] {
                let time = Instant::from_secs(day * 86_400) + Duration::from_millis(at);
                let mut out = Vec::new();
                write_time(&mut out, time, &mut date);
                assert_eq!(String::from_utf8(out).unwrap(), format!("\"{}\"", written(time)));
            }
        }
    }

    #[test]
    fn numbers_are_those_of_serde_json() {
        for ms in (0..5000).chain([61_001, 60_000, 999_999_999, 86_400_000_100]) {
            let mut out = Vec::new();
            write_seconds(&mut out, ms);
            assert_eq!(
                String::from_utf8(out).unwrap(),
                serde_json::to_string(&(ms as f64 / 1000.0)).unwrap()
            );
        }
        for number in [0, 9, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }

    #[test]
    fn each_byte_of_a_text_is_escaped_as_serde_json_does() {
        for byte in 0..=u8::MAX {
            let (mut out, text) = (Vec::new(), [b'a', byte, b'z']);
            write_text(&mut out, &text).unwrap();
            let expected = serde_json::to_string(&String::from_utf8_lossy(&text)).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_line_is_the_row_as_json_for_any_bytes() {
        let records = super::super::samples::records();
        assert!(records.len() >= 36);
        for (number, record) in records.into_iter().enumerate() {
            let mut line = Vec::new();
            let ended = Numbered { n: number as u64, record };
            write_line(&mut line, &ended).unwrap();
            let row = serde_json::to_string(&row_of(&ended)).unwrap();
            assert_eq!(String::from_utf8(line).unwrap(), row + "\n");
        }
    }
}

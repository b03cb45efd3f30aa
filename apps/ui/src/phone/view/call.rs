//! The call page: the peer, the protection, the sound.

use super::Canvas;
use crate::phone::Now;
use crate::phone::clock;
use crate::phone::model::{Asked, Call, Model, Phase, Series, lock_name};
use crate::style::Style;
use crate::text::{pad, split, width};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use ringway_phone::{Hold, MediaReport, Protection, SasStatus, Side, Signalling};

/// Column of values, after their labels.
const VALUE_X: usize = 10;
/// Lowest level with a bar.
const QUIETEST_DB: f32 = -60.0;
/// State of a ringing call in front of another page, whose letters are not keys of the call.
const IN_FRONT: &str = "rings here: Enter answers, Ctrl-R rejects";
/// Columns behind a sparkline for its figures.
const FIGURES_COLUMNS: usize = 32;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, now: Now) {
    let Some(call) = model.shown_call() else {
        canvas.put_cut(0, 1, "No call. F2 makes one; F9 answers who calls.", Style::Quiet);
        return;
    };
    let count = match model.calls.iter().position(|other| other.number == call.number) {
        Some(at) if model.calls.len() > 1 => {
            format!("  call {} of {}, n shows the next", at + 1, model.calls.len())
        }
        Some(_) | None => String::new(),
    };
    let room = canvas.columns().saturating_sub(width(&count));
    canvas.put(0, 0, &pad(&call.party.whole(), room), Style::Strong);
    canvas.put(room, 0, &count, Style::Quiet);
    let codec = if call.codec.is_empty() { String::new() } else { format!(", {}", call.codec) };
    let talked = call.talked(now).map(|talked| format!("{}, ", clock(talked))).unwrap_or_default();
    let state = match model.front {
        Some(_) if call.asked.is_none() => IN_FRONT.to_owned(),
        Some(_) | None => state(call, now),
    };
    canvas.put_cut(0, 1, &format!("{talked}{state}{codec}"), Style::Plain);
    if call.party.is_direct() {
        canvas.put_cut(0, 2, "direct: not through your server, nobody verified the address", Style::Warning);
    }
    lock(canvas, call, 3);
    sound(canvas, call, 6);
    let keys = match (call.digits_sent.is_empty(), call.digits_received.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!("sent {}", call.digits_sent),
        (true, false) => format!("received {}", call.digits_received),
        (false, false) => format!("sent {}, received {}", call.digits_sent, call.digits_received),
    };
    for (row, label, text) in [(14, "Keys", keys), (15, "Transfer", call.transfer.to_string())] {
        if !text.is_empty() {
            canvas.put(0, row, label, Style::Quiet);
            canvas.put_cut(VALUE_X, row, &text, Style::Plain);
        }
    }
    if let Some(failure) = &model.sound_failure {
        let row = canvas.rows().saturating_sub(2);
        canvas.put(0, row, "Sound", Style::Quiet);
        let (first, rest) = split(failure.as_str(), canvas.columns() - VALUE_X);
        canvas.put(VALUE_X, row, first, Style::Warning);
        canvas.put_cut(VALUE_X, row + 1, rest, Style::Warning);
    }
}

/// State of a call, in words.
pub(super) fn state(call: &Call, now: Now) -> String {
    let mut words = vec![match &call.phase {
        Phase::RingsHere => "rings here: Enter answers, r rejects".to_owned(),
        Phase::Calling => format!("calling, {} s", now.elapsed.saturating_sub(call.began.elapsed).as_secs()),
        Phase::RingsThere => "rings there".to_owned(),
        Phase::Early => "rings there, with sound".to_owned(),
        Phase::Talking { .. } => "talking".to_owned(),
        Phase::Over { .. } if call.is_transferred => format!("over: transferred to {}", call.transfer_to),
        Phase::Over { after, by, status, reason } => match (after, by) {
            (Some(_), Side::Us) => "over: you hung up".to_owned(),
            (Some(_), Side::Peer) => "over: they hung up".to_owned(),
            (None, Side::Us) => "over: not answered".to_owned(),
            (_, Side::Failure) => format!("broken off: {reason}"),
            (None, Side::Peer) if *status == 0 => format!("over: {reason}"),
            (None, Side::Peer) => format!("over: {status} {reason}"),
        },
    }];
    match call.hold {
        Hold::None => {}
        Hold::Ours => words.push("ON HOLD by you".to_owned()),
        Hold::Theirs => words.push("ON HOLD by them".to_owned()),
        Hold::Both => words.push("ON HOLD by both".to_owned()),
    }
    if call.is_muted {
        words.push("MUTED".to_owned());
    }
    if call.is_silent {
        words.push("NO SOUND from them".to_owned());
    }
    match call.asked {
        None => {}
        Some(Asked::Hold) => words.push("asking to hold…".to_owned()),
        Some(Asked::Resume) => words.push("asking to resume…".to_owned()),
        Some(Asked::Answer) => words.push("answering…".to_owned()),
        Some(Asked::HangUp) => words.push("hanging up…".to_owned()),
    }
    words.join(", ")
}

fn lock(canvas: &mut Canvas<'_>, call: &Call, row: usize) {
    canvas.put(0, row, "Lock", Style::Quiet);
    let (style, suite, meaning) = match &call.lock {
        Protection::None if call.is_securing => {
            (Style::Bad, "", "the phones agree on keys; nothing is protected yet".to_owned())
        }
        Protection::None => (Style::Bad, "", "not encrypted: anybody on the way can listen".to_owned()),
        Protection::Sdes { suite, signalling: Signalling::Open } => (
            Style::Warning,
            suite.name(),
            "encrypted, but the key travelled readable: who saw it can listen".to_owned(),
        ),
        Protection::Sdes { suite, signalling: Signalling::TlsToServer } => (
            Style::Warning,
            suite.name(),
            "encrypted; the servers, and who sees SIP behind yours, can listen".to_owned(),
        ),
        Protection::Dtls { suite, signalling: Signalling::Open } => (
            Style::Warning,
            suite.name(),
            "encrypted, but who can change SIP on its way can sit between you".to_owned(),
        ),
        Protection::Dtls { suite, signalling: Signalling::TlsToServer } => (
            Style::Good,
            suite.name(),
            "encrypted; only the servers of the call could sit between you".to_owned(),
        ),
        Protection::Zrtp { suite, sas, status: SasStatus::FirstCall | SasStatus::Continued } => (
            Style::Warning,
            suite.name(),
            format!("SAS {sas}  read it to each other; v: it is equal, V: it is not"),
        ),
        Protection::Zrtp { suite, sas, status: SasStatus::Broken } => (
            Style::Bad,
            suite.name(),
            format!("SAS {sas}  UNKNOWN PHONE: compare; v: it is equal, V: it is not"),
        ),
        Protection::Zrtp { suite, sas, status: SasStatus::Different } => (
            Style::Bad,
            suite.name(),
            format!("SAS {sas}  DIFFERS: somebody sits between you; v: it is equal"),
        ),
        Protection::Zrtp { suite, sas, status: SasStatus::Compared } => (
            Style::Good,
            suite.name(),
            format!("SAS {sas}  compared: nobody sits between you; V: it is not equal"),
        ),
    };
    let end = canvas.put(VALUE_X, row, lock_name(&call.lock), style);
    canvas.put_cut(end + 2, row, suite, Style::Quiet);
    canvas.put_cut(VALUE_X, row + 1, &meaning, Style::Plain);
}

fn sound(canvas: &mut Canvas<'_>, call: &Call, row: usize) {
    let (Some(report), Some(levels)) = (&call.report, &call.levels) else {
        canvas.put_cut(0, row, "No sound yet.", Style::Quiet);
        return;
    };
    let MediaReport { sent_packets, received_packets, lost_packets, .. } = report;
    let expected = received_packets.saturating_add(*lost_packets);
    let lost = format!("{lost_packets} lost of {expected}");
    meter(canvas, row, "You send", levels.sent_db, &format!("{sent_packets} packets"));
    meter(canvas, row + 1, "You hear", levels.received_db, &format!("{received_packets} packets"));
    let delta = format!("{:.2} ms, most {:.2}", report.delta_ms, report.delta_ms_max);
    spark(canvas, row + 3, "Delta", &call.delta, 60.0, &delta);
    let jitter = format!("{:.2} ms, most {:.2}", report.jitter_ms, report.jitter_ms_max);
    spark(canvas, row + 4, "Jitter", &call.jitter, 1.0, &jitter);
    spark(canvas, row + 5, "Loss", &call.loss, 10.0, &format!("{:.1} %, {lost}", report.loss_percent));
    canvas.put(0, row + 6, "MOS", Style::Quiet);
    let (text, style) = match report.mos {
        Some(mos) => {
            (format!("{mos:.2}  {}", judgement(mos)), if mos < 3.1 { Style::Warning } else { Style::Plain })
        }
        None => ("not known yet".to_owned(), Style::Quiet),
    };
    canvas.put(VALUE_X, row + 6, &text, style);
    if report.auth_failures > 0 || report.replays > 0 {
        let text = format!(
            "refused: {} packets with a wrong tag, {} that came again",
            report.auth_failures, report.replays
        );
        canvas.put_cut(VALUE_X, row + 7, &text, Style::Warning);
    }
}

/// A bar for a level of 0 to -60 dB, with its figure.
fn meter(canvas: &mut Canvas<'_>, row: usize, label: &str, level_db: f32, figures: &str) {
    canvas.put(0, row, label, Style::Quiet);
    let room = canvas.columns().saturating_sub(VALUE_X + FIGURES_COLUMNS);
    let share = 1.0 - level_db.clamp(QUIETEST_DB, 0.0) / QUIETEST_DB;
    let filled = rounded(share * room as f32).min(room);
    let bar = format!("{}{}", "█".repeat(filled), "·".repeat(room - filled));
    let end = canvas.put(VALUE_X, row, &bar, Style::Plain);
    canvas.put_cut(end + 2, row, &format!("{level_db:5.0} dB, {figures}"), Style::Plain);
}

/// One column for each second, the newest on the right; full height is `high` or the highest seen.
fn spark(canvas: &mut Canvas<'_>, row: usize, label: &str, series: &Series, high: f32, figures: &str) {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    canvas.put(0, row, label, Style::Quiet);
    let room = canvas.columns().saturating_sub(VALUE_X + FIGURES_COLUMNS);
    let high = series.newest(room).fold(high, f32::max);
    let line: String = series
        .newest(room)
        .map(|value| {
            let step = rounded(value / high * (STEPS.len() - 1) as f32);
            STEPS.get(step).copied().unwrap_or('█')
        })
        .collect();
    let blank = "·".repeat(room.saturating_sub(width(&line)));
    let end = canvas.put(VALUE_X, row, &format!("{blank}{line}"), Style::Plain);
    canvas.put_cut(end + 2, row, figures, Style::Plain);
}

/// The nearest integer; 0 for a negative value.
fn rounded(value: f32) -> usize {
    (value + 0.5) as usize
}

/// Satisfaction of listeners at this score (ITU-T G.107 Annex B).
fn judgement(mos: f32) -> &'static str {
    match mos {
        mos if mos >= 4.34 => "very satisfied",
        mos if mos >= 4.03 => "satisfied",
        mos if mos >= 3.6 => "some are dissatisfied",
        mos if mos >= 3.1 => "many are dissatisfied",
        mos if mos >= 2.58 => "nearly all are dissatisfied",
        _ => "not to be used",
    }
}

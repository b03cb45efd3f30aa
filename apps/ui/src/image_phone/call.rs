//! The call: remote party, security, sound quality.

use super::facts::{Call, Hold, Phase, Security, Sound};
use crate::cells::Cells;
use crate::figures::{Clock, Grouped, Span};
use crate::style::Style;
use crate::window::{LABEL_X, VALUE_X, value};

/// Rows that [`draw`] fills.
pub(super) const ROWS: usize = 9;

pub(super) fn draw(cells: &mut Cells, y: usize, call: &Call<'_>) {
    let rings_here = call.phase == Phase::RingsHere;
    let style = if rings_here { Style::Alarm } else { Style::Strong };
    let mut who = value(cells, y, if rings_here { "CALLS YOU" } else { "Call" }, style);
    if !call.name.is_empty() {
        who.text(call.name).text("  ");
    }
    who.text(call.uri);
    state(cells, y + 1, call);
    security(cells, y + 2, call.security);
    match &call.sound {
        Some(sound) => figures(cells, y + 5, sound),
        None => {
            value(cells, y + 5, "", Style::Quiet).text("No sound yet.");
        }
    }
}

fn state(cells: &mut Cells, y: usize, call: &Call<'_>) {
    let mut field = value(cells, y, "", Style::Strong);
    match call.phase {
        Phase::Calling(since) => field.value(format_args!("calling, {}", Span(since))),
        Phase::RingsThere => field.text("rings there"),
        Phase::EarlySound => field.text("rings there, with sound"),
        Phase::RingsHere => field.text("rings here: Enter answers"),
        Phase::Answering => field.text("answered, not connected yet"),
        Phase::Talking(since) => field.value(format_args!("talking, {}", Clock(since))),
        Phase::Ending => field.text("hanging up ..."),
    };
    field.style(Style::Warning).text(match call.hold {
        Hold::None => "",
        Hold::Ours => ", ON HOLD by you",
        Hold::Theirs => ", ON HOLD by them",
        Hold::Both => ", ON HOLD by both",
    });
    field.style(Style::Plain);
    if !call.codec.is_empty() {
        field.text(", ").text(call.codec);
    }
    if !call.digits.is_empty() {
        field.text(", keys sent: ").text(call.digits);
    }
}

/// Security of the call, in fixed wording.
fn security(cells: &mut Cells, y: usize, security: Security<'_>) {
    let (name, style, suite) = match security {
        Security::None | Security::Agreeing => ("none", Style::Bad, ""),
        Security::SdesPlain { suite } => ("SDES over plain SIP (weak)", Style::Warning, suite),
        Security::Zrtp { suite, is_compared: true, .. } => ("ZRTP", Style::Good, suite),
        Security::Zrtp { suite, is_compared: false, .. } => ("ZRTP", Style::Warning, suite),
    };
    value(cells, y, "Lock", style).text(name).style(Style::Plain).text("  ").text(suite);
    let mut field = value(cells, y + 1, "", Style::Plain);
    match security {
        Security::None => field.text("not encrypted: anybody on the way can listen"),
        Security::Agreeing => field.text("ZRTP is under way; nothing is protected yet"),
        Security::SdesPlain { .. } => {
            field.text("encrypted, but the key travelled readable: who saw it can listen")
        }
        Security::Zrtp { sas, is_compared, .. } => {
            field.text("SAS ").style(Style::Strong).text(sas).style(Style::Plain);
            field.text(match is_compared {
                true => "  compared: nobody sits between you",
                false => "  read it to each other; v: it is equal",
            })
        }
    };
}

fn figures(cells: &mut Cells, y: usize, sound: &Sound) {
    let Sound { sent_packets, received_packets, lost_packets, .. } = *sound;
    level(cells, y, "You send", sound.sent_db, sent_packets);
    level(cells, y + 1, "You hear", sound.received_db, received_packets);
    let pairs = [
        (LABEL_X, VALUE_X, "Delta", sound.delta_ms, sound.delta_ms_max),
        (SECOND_X, SECOND_X + 7, "Jitter", sound.jitter_ms, sound.jitter_ms_max),
    ];
    for (label_x, x, label, now, most) in pairs {
        cells.text(label_x, y + 2, 7, Style::Plain, label);
        cells.value(x, y + 2, 31, Style::Strong, format_args!("{now:.2} ms, most {most:.2} ms"));
    }
    let expected = received_packets.saturating_add(lost_packets);
    let percent = 100.0 * lost_packets as f64 / expected.max(1) as f64;
    let style = if percent >= LOSS_HEARD { Style::Warning } else { Style::Strong };
    let mut loss = value(cells, y + 3, "Loss", style);
    loss.value(format_args!("{percent:.1} %, {} of {}", Grouped(lost_packets), Grouped(expected)));
    cells.text(SECOND_X, y + 3, 6, Style::Plain, "MOS");
    let mut field = cells.field(SECOND_X + 7, y + 3, 20, Style::Strong);
    match sound.mos {
        Some(mos) => {
            field.style(if mos < MOS_BAD { Style::Warning } else { Style::Strong });
            field.value(format_args!("{mos:.2}")).style(Style::Plain).text(" of 4.41")
        }
        None => field.style(Style::Quiet).text("not known yet"),
    };
}

/// A bar for a level of 0 to -60 dB, with its figure.
fn level(cells: &mut Cells, y: usize, label: &str, level_db: f64, packets: u64) {
    let heard = (level_db.clamp(QUIETEST_DB, 0.0) - QUIETEST_DB) * 10.0;
    value(cells, y, label, Style::Strong);
    cells.bar(VALUE_X, y, BAR_COLUMNS, Style::Heading, heard as u64, (-QUIETEST_DB * 10.0) as u64);
    let x = VALUE_X + BAR_COLUMNS + 1;
    cells.right(x, y, 7, Style::Strong, format_args!("{level_db:.0} dB"));
    cells.right(x + 8, y, 19, Style::Plain, format_args!("{} packets", Grouped(packets)));
}

/// Lowest level that has a bar.
const QUIETEST_DB: f64 = -60.0;
const BAR_COLUMNS: usize = 37;
/// Column of the label of a row's second figure.
const SECOND_X: usize = 47;
/// Percent of loss from which on it is audible in G.711.
const LOSS_HEARD: f64 = 1.0;
/// Below it, many are dissatisfied (ITU-T G.107 Annex B).
const MOS_BAD: f64 = 3.6;

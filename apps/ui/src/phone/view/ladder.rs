//! The messages between us and the others, one rung each.

use super::Canvas;
use super::lists::rows;
use crate::phone::Now;
use crate::phone::model::{Ladder, Model, Rung};
use crate::style::Style;
use crate::text::{cut, pad, width};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ringway_phone::MessageDirection;

/// The clock, two blanks, the time since the rung before, two blanks.
const TIMES_COLUMNS: usize = 24;
/// `192.0.2.10:5060 udp` and a blank; a longer address is cut, the open message has it whole.
const PEER_COLUMNS: usize = 20;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model) {
    let ladder = &model.ladder;
    if let (Some(top), Some(rung)) = (ladder.open, ladder.selected()) {
        message(canvas, ladder, rung, top);
        return;
    }
    if ladder.len() == 0 {
        canvas.put_cut(0, 1, "No messages yet.", Style::Quiet);
        return;
    }
    let lane = lane_columns(canvas);
    let which = match (ladder.is_filtered(), ladder.dropped) {
        (true, _) => "  only one Call-ID; f shows all".to_owned(),
        (false, 0) => String::new(),
        (false, dropped) => format!("  {dropped} older ones are forgotten"),
    };
    let head = format!(
        "  {} us{} them{which}",
        pad(&format!("{:<12}  {:>9}", "Time", "since"), TIMES_COLUMNS),
        " ".repeat(lane.saturating_sub(2))
    );
    canvas.put_cut(0, 0, &head, Style::Strong);
    let rungs: Vec<_> = ladder.visible().collect();
    rows(canvas, 1, rungs.len(), ladder.selected, |index| {
        let before = index.checked_sub(1).and_then(|before| rungs.get(before)).map(|rung| rung.at);
        rungs.get(index).map(|rung| line(rung, before, lane)).unwrap_or_default()
    });
}

/// Columns for the arrow.
fn lane_columns(canvas: &Canvas<'_>) -> usize {
    canvas.columns().saturating_sub(2 + TIMES_COLUMNS + 2 + PEER_COLUMNS)
}

fn line(rung: &Rung, before: Option<Now>, lane: usize) -> String {
    let since = before.map_or(String::new(), |before| {
        format!("+{:.3}", rung.at.elapsed.saturating_sub(before.elapsed).as_secs_f64())
    });
    let title = cut(rung.title.as_str(), lane.saturating_sub(5));
    let rest = "─".repeat(lane.saturating_sub(width(&title) + 5));
    let arrow = match rung.direction {
        MessageDirection::Sent => format!("├─ {title} {rest}─►"),
        MessageDirection::Received => format!("◄─ {title} {rest}─┤"),
    };
    format!("{}  {since:>9} {} {} {}", rung.at.precise(), pad(&arrow, lane + 1), rung.peer, rung.transport)
}

fn message(canvas: &mut Canvas<'_>, ladder: &Ladder, rung: &Rung, top: usize) {
    let way = match rung.direction {
        MessageDirection::Sent => "sent to",
        MessageDirection::Received => "received from",
    };
    let head = format!("{} {way} {} by {}", rung.at.precise(), rung.peer, rung.transport);
    canvas.put_cut(0, 0, &head, Style::Strong);
    let columns = canvas.columns().max(1);
    let lines = rung.lines(ladder.keys);
    // A long line goes on in the next row: the whole message is shown.
    let rows = lines.iter().skip(top).flat_map(|line| wrap(line.as_str(), columns));
    for (row, text) in (1..canvas.rows()).zip(rows) {
        canvas.put(0, row, &text, Style::Plain);
    }
}

/// `text` in pieces of at most `columns`.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for c in text.chars() {
        let needed = width(c.encode_utf8(&mut [0; 4]));
        if used + needed > columns {
            rows.push("  ".to_owned());
            used = 2;
        }
        if let Some(row) = rows.last_mut() {
            row.push(c);
            used += needed;
        }
    }
    rows
}

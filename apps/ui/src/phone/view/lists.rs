//! Lists with a chosen line: contacts, calls.

use super::{Canvas, call};
use crate::phone::Now;
use crate::phone::clock;
use crate::phone::model::{Call, Model, Origin, Outcome, PastCall, lock_name};
use crate::style::Style;
use crate::text::{Shown, pad};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

pub(super) fn contacts(canvas: &mut Canvas<'_>, model: &Model) {
    let contacts = &model.settings.contacts;
    canvas.put(0, 0, "  Key  Name                      Address", Style::Strong);
    if contacts.is_empty() {
        canvas.put_cut(2, 2, "Nobody yet. n makes a contact; it is written to phone.toml.", Style::Quiet);
    }
    rows(canvas, 1, contacts.len(), model.contact, |index| {
        let Some(contact) = contacts.get(index) else { return String::new() };
        let quick = contact.quick.map_or("-".to_owned(), |quick| quick.to_string());
        let (name, uri) = (Shown::new(&contact.name, 128), Shown::new(&contact.uri, 256));
        format!("{quick}    {} {uri}", pad(name.as_str(), 25))
    });
}

pub(super) fn calls(canvas: &mut Canvas<'_>, model: &Model, now: Now) {
    let live = model.calls.len();
    canvas.put(0, 0, "  When         Way  Who                  How", Style::Strong);
    if live + model.history.len() == 0 {
        canvas.put_cut(2, 2, "No calls yet.", Style::Quiet);
    }
    rows(canvas, 1, live + model.history.len(), model.chosen, |index| {
        match (model.calls.get(index), index.checked_sub(live).and_then(|at| model.history.get(at))) {
            (Some(call), _) => live_line(call, now),
            (None, Some(past)) => past_line(past),
            (None, None) => String::new(),
        }
    });
}

fn live_line(call: &Call, now: Now) -> String {
    let when = format!("NOW {}", call.talked(now).map(clock).unwrap_or_default());
    let how = format!("{}; {}", call::state(call, now), lock_name(&call.lock));
    line(&when, call.origin, call.party.short(), &how)
}

fn past_line(past: &PastCall) -> String {
    let how = match (&past.outcome, past.talked) {
        (Outcome::Talked, Some(talked)) => format!("{}; {}", clock(talked), past.lock),
        (Outcome::Transferred { to }, _) => format!("transferred to {to}"),
        (Outcome::Talked, None) => "talked".to_owned(),
        (Outcome::Missed, _) => "MISSED".to_owned(),
        (Outcome::Rejected, _) => "rejected by you".to_owned(),
        (Outcome::Cancelled, _) => "given up by you".to_owned(),
        (Outcome::Failed { status, reason }, _) => format!("{status} {reason}"),
    };
    line(&past.at.day_and_minute(), past.origin, past.party.short(), &how)
}

fn line(when: &str, origin: Origin, who: &str, how: &str) -> String {
    let way = match origin {
        Origin::Ours => "out",
        Origin::Theirs => "in ",
    };
    format!("{} {way}  {} {how}", pad(when, 12), pad(who, 20))
}

/// Draws lines of which one is chosen; the chosen one is always seen.
pub(super) fn rows(
    canvas: &mut Canvas<'_>,
    first: usize,
    count: usize,
    chosen: usize,
    line: impl Fn(usize) -> String,
) {
    let room = canvas.rows().saturating_sub(first).max(1);
    let top = (chosen + 1).saturating_sub(room).min(count.saturating_sub(room));
    for (row, index) in (first..canvas.rows()).zip(top..count) {
        let (mark, style) = if index == chosen { ('>', Style::Bar) } else { (' ', Style::Plain) };
        let columns = canvas.columns();
        canvas.put(0, row, &pad(&format!("{mark} {}", line(index)), columns), style);
    }
}

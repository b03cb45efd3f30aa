//! Windows over a page: help, questions, small forms.

use super::{Canvas, form};
use crate::phone::model::{Model, Overlay};
use crate::style::Style;
use crate::text::{Shown, pad};
use alloc::borrow::ToOwned;
use alloc::format;

/// Columns of the help; they fit the smallest window.
pub(super) const HELP_COLUMNS: usize = super::COLUMNS_MIN - 4;

pub(super) const HELP: [&str; 41] = [
    "Everywhere",
    "  F1            this help (? where nothing is typed)",
    "  F2 … F8       the pages; Tab: the next one",
    "  F9, Ctrl-A    answer; another call is held first",
    "  Enter         answer the call in front; else where it",
    "                has no other function",
    "  Ctrl-R        reject a call, or a requested transfer",
    "  Ctrl-X        hang up",
    "  Alt-1 … 9     quick dial, as F2, the digit, Enter",
    "  Ctrl-Q        leave (q where nothing is typed)",
    "",
    "Keypad",
    "  Enter         call; a lone digit is a quick dial key",
    "  Up, Down      what was dialled before",
    "  Ctrl-U, Esc   empty the line",
    "",
    "Contacts",
    "  Enter call, n new, e edit, d delete",
    "  1 … 9         give this quick dial key, 0 removes it",
    "",
    "Calls",
    "  Enter         show a live call, or call again",
    "  x hang up, s save as contact, a answer, r reject",
    "",
    "Call",
    "  h             hold, and take back",
    "  m             mute, and unmute",
    "  t             transfer to somebody else",
    "  v, V          you compared the SAS: equal, not equal;",
    "                the last one counts",
    "  0-9 * # A-D   press a key of the telephone",
    "  n             next call; h there swaps the two",
    "  x             hang up",
    "",
    "Ladder",
    "  Enter         the whole message, f only this call",
    "  k             show or hide SRTP keys in a message",
    "",
    "The lock says what protects the sound now: none;",
    "SDES over plain SIP (weak); ZRTP",
    "with the SAS that you read to each other.",
];

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, overlay: &Overlay) {
    canvas.hide_cursor();
    match overlay {
        Overlay::Help { top } => {
            let rows = canvas.rows().saturating_sub(4);
            let mut inside = canvas.window(HELP_COLUMNS + 4, rows, "Help: Up and Down scroll, Esc closes");
            let last = HELP.len().saturating_sub(inside.rows());
            for (row, line) in (0..inside.rows()).zip(HELP.iter().skip((*top).min(last))) {
                let style = if line.starts_with(' ') { Style::Plain } else { Style::Strong };
                inside.put(0, row, line, style);
            }
        }
        Overlay::Leave => {
            let live = model.calls.len();
            let text = match live {
                0 => "The call has ended.".to_owned(),
                1 => "A call is live.".to_owned(),
                _ => format!("{live} calls are live."),
            };
            let keys = if live == 0 { "y leave" } else { "y hang up and leave" };
            question(canvas, "Leave?", &text, &format!("{keys}, any other key stay"))
        }
        Overlay::Forget { at } => {
            let name = model.settings.contacts.get(*at).map(|contact| Shown::new(&contact.name, 128));
            question(canvas, "Delete?", name.unwrap_or_default().as_str(), "y delete, any other key keep")
        }
        Overlay::Transfer { call, to, error } => {
            let who = model.call(*call).map(|call| call.party.whole()).unwrap_or_default();
            let mut inside = canvas.window(64, 7, "Transfer");
            inside.put_cut(0, 0, &format!("Send {who}"), Style::Plain);
            inside.put(0, 2, "to", Style::Strong);
            let room = inside.columns().saturating_sub(4);
            let (text, column) = to.window(room);
            inside.put(4, 2, &pad(&text, room), Style::Field);
            match error {
                Some(error) => inside.put_cut(0, 4, &format!("! {error}"), Style::Warning),
                None => inside.put(0, 4, "Enter transfers, Esc goes back", Style::Quiet),
            };
            inside.set_cursor(4 + column, 2);
        }
        Overlay::Contact { at, form: entries } => {
            let title = if at.is_some() { "Contact" } else { "New contact" };
            let mut inside = canvas.window(64, 8, title);
            form(&mut inside, entries, 1);
            match &entries.error {
                Some(error) => inside.put_cut(0, 5, &format!("! {error}"), Style::Warning),
                None => inside.put(0, 5, "Enter saves, Esc goes back, Left and Right choose", Style::Quiet),
            };
        }
    }
}

fn question(canvas: &mut Canvas<'_>, title: &str, text: &str, keys: &str) {
    let mut inside = canvas.window(50, 6, title);
    inside.put_cut(0, 1, text, Style::Strong);
    inside.put_cut(0, 3, keys, Style::Quiet);
}

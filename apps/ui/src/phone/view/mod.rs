//! The pages, drawn into cells, all of them each time.
//!
//! Does: fills any screen from 60 by 16 on, made for 80 by 24; says in words or signs whatever colour says.
//!
//! Start reading at [`draw`]; each page has a file.

mod call;
mod keypad;
mod ladder;
mod lists;
#[cfg(test)]
mod narrow_tests;
mod network;
mod overlay;
#[cfg(test)]
mod tests;

use super::Now;
use super::form::{Entry, Form};
use super::model::{Host, Model, Registered, Screen, Weight};
use crate::cells::Cells;
use crate::network::Network;
use crate::style::Style;
use crate::text;
use crate::text::{cut, pad, split, width};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use ringway_phone::Protection;

const COLUMNS_MIN: usize = 60;
const ROWS_MIN: usize = 16;
/// Columns for the reason of a failed registration.
const REASON_COLUMNS: usize = 32;
/// Column of the sound's source and sink, behind their label.
const SOUND_X: usize = 10;

/// A machine without an operating system, borrowed for one drawing.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Its network.
    pub network: Network<'a>,
    /// Source and sink of the sound: `microphone sent, sound played (AC97)`.
    pub sound: &'a str,
    /// Reason why the phone cannot be used.
    pub halted: Option<&'a str>,
}

/// Draws the page.
pub fn draw(model: &Model, now: Now, machine: Option<&Machine<'_>>, cells: &mut Cells) {
    cells.clear();
    let mut whole = Canvas::new(cells);
    let (columns, rows) = (whole.columns(), whole.rows());
    if columns < COLUMNS_MIN || rows < ROWS_MIN {
        whole.put(0, 0, "make this window larger:", Style::Plain);
        whole.put(0, 1, &format!("60 x 16 at least, it is {columns} x {rows}"), Style::Plain);
        return;
    }
    title(&mut whole, model, now, machine);
    tabs(&mut whole, model);
    whole.rule(2);
    whole.rule(rows - 3);
    notice(&mut whole, model);
    whole.put_cut(0, rows - 1, &help_line(model), Style::Quiet);
    let mut body = whole.part(1, 3, columns - 2, rows - 6);
    match model.screen {
        Screen::Keypad => keypad::draw(&mut body, model),
        Screen::Contacts => lists::contacts(&mut body, model),
        Screen::Calls => lists::calls(&mut body, model, now),
        Screen::Call => call::draw(&mut body, model, now),
        Screen::Network => network::draw(&mut body, model, now, machine),
        Screen::Ladder => ladder::draw(&mut body, model),
        Screen::Account => account(&mut body, model),
        Screen::Log => {
            let rows = body.rows();
            let (cells, y) = body.whole_rows();
            model.log.draw(cells, y, rows);
        }
    }
    if let (Some(machine), Screen::Keypad | Screen::Call) = (machine, model.screen) {
        let row = body.rows() - 1;
        body.put(0, row, "Sound", Style::Quiet);
        body.put_cut(SOUND_X, row, machine.sound, Style::Plain);
    }
    if let Some(overlay) = &model.overlay {
        overlay::draw(&mut whole, model, overlay);
    }
}

/// The row that a terminal with a row too few does without.
pub const SPARE_ROW: usize = Cells::ROWS - 3;

fn title(canvas: &mut Canvas<'_>, model: &Model, now: Now, machine: Option<&Machine<'_>>) {
    let clock = now.clock();
    let who = model.own_uri().unwrap_or("no account");
    let state = match machine.and_then(|machine| machine.halted) {
        Some(why) => format!("NOT REGISTERED: {why}"),
        None => registered(model, now, REASON_COLUMNS),
    };
    let text = format!(" Ringway  {who}  {state}");
    let room = canvas.columns().saturating_sub(width(&clock) + 2);
    canvas.put(0, 0, &format!("{} {clock} ", pad(&text, room)), Style::Title);
}

/// The state of the registration in a few words.
pub(super) fn registered(model: &Model, now: Now, reason_columns: usize) -> String {
    let left = |until: Duration| until.saturating_sub(now.elapsed).as_secs();
    match &model.registered {
        Registered::No => "not registered".to_owned(),
        Registered::Trying => "registering…".to_owned(),
        Registered::Yes { until } => format!("registered, {} left", duration(left(*until))),
        Registered::Failed { reason, retry_at: None } => format!("NOT REGISTERED: {reason}"),
        // The text of a stranger leaves room for the rest.
        Registered::Failed { reason, retry_at: Some(at) } => {
            let reason = cut(reason.as_str(), reason_columns);
            format!("NOT REGISTERED: {reason}; again in {} s", left(*at))
        }
    }
}

fn tabs(canvas: &mut Canvas<'_>, model: &Model) {
    let mut x = 0;
    let screens = model.host.screens();
    let is_narrow = screens.iter().map(|screen| screen.name().len() + 5).sum::<usize>() > canvas.columns();
    for (number, screen) in (2..).zip(screens) {
        let (text, style) = match screen == model.screen {
            true => (format!("[F{number} {}]", screen.name()), Style::Strong),
            false if is_narrow => (format!(" F{number} "), Style::Quiet),
            false => (format!(" F{number} {} ", screen.name()), Style::Quiet),
        };
        x = canvas.put(x, 1, &text, style);
    }
}

/// An incoming call, or a notice.
fn notice(canvas: &mut Canvas<'_>, model: &Model) {
    let row = canvas.rows() - 2;
    let alarm = |canvas: &mut Canvas<'_>, text: &str, keys: &str| {
        let room = canvas.columns().saturating_sub(width(keys));
        canvas.put(0, row, &format!("{}{keys}", pad(text, room)), Style::Alarm);
    };
    if let Some(call) = model.ringing() {
        let more = match model.calls.iter().filter(|call| call.rings_here()).count() {
            0 | 1 => String::new(),
            count => format!(" (+{})", count - 1),
        };
        let key = if model.overlay.is_none() && model.enter_answers() { "Enter" } else { "F9" };
        let effect = if call.is_replacing { ", ending a call" } else { "" };
        let keys = format!("{more}  {key} answer{effect}  Ctrl-R reject ");
        let room = canvas.columns().saturating_sub(width(&keys) + 4);
        // The address is more important than the verb.
        let verb = if width(call.party.uri.as_str()) + 6 > room { "" } else { " calls" };
        let who = call.party.within(room - width(verb));
        alarm(canvas, &format!(" >> {who}{verb}"), &keys);
    } else if let Some((call, target)) =
        model.transfer_asked().and_then(|call| Some((call, call.asks_for.as_ref()?)))
    {
        let text = format!(" >> {} sends you to {target}", call.party.short());
        alarm(canvas, &text, "  F9 call there  Ctrl-R no ");
    } else if let Some(notice) = &model.notice {
        let (word, style) = match notice.weight {
            Weight::Note => ("", Style::Plain),
            Weight::Careful => ("careful: ", Style::Warning),
            Weight::Failed => ("failed: ", Style::Warning),
        };
        let text = format!("{word}{}", notice.text);
        let columns = canvas.columns() - 2;
        // A terminal of the machine may have no spare row.
        let (first, rest) = match model.host {
            Host::System { .. } => split(&text, columns),
            Host::Machine => ("", text.as_str()),
        };
        match (first, rest) {
            (line, "") | ("", line) => canvas.put_cut(1, row, line, style),
            (first, rest) => {
                canvas.put(0, row - 1, &format!(" {} ", pad(first, columns)), style);
                canvas.put_cut(1, row, rest, style)
            }
        };
    }
}

/// The keys with a function in the present state.
fn help_line(model: &Model) -> String {
    let keys = match (model.screen, &model.overlay) {
        (_, Some(_)) => "Esc back",
        (Screen::Keypad, None) => {
            "Enter call  1..9 Enter quick dial  Up/Down dialled before  F1 help  Ctrl-Q quit"
        }
        (Screen::Contacts, None) if !model.host.can_save() => "Enter call  ? help",
        (Screen::Contacts, None) => {
            "Enter call  n new  e edit  d delete  1..9 quick dial  0 none  ? help  q quit"
        }
        (Screen::Calls, None) => "Enter open or call again  x hang up  s save as contact  ? help  q quit",
        (Screen::Call, None) if model.front.is_some() => {
            "Enter answer  Ctrl-R reject  Esc the page before  F1 help"
        }
        (Screen::Call, None) => match model.shown_call() {
            Some(call) if call.is_over() => "Enter call again  ? help  q quit",
            Some(call) if call.rings_here() => "Enter answer  r reject  n next call  ? help  q quit",
            Some(call) if !call.is_talking() => "x give up  n next call  ? help  q quit",
            Some(call) if matches!(call.lock, Protection::Zrtp { .. }) => {
                "h hold  m mute  t transfer  v SAS equal  0-9*# keys  n next  x hang up  ? help"
            }
            Some(_) => "h hold  m mute  t transfer  0-9*# keys  n next  x hang up  ? help",
            None => "? help  q quit",
        },
        (Screen::Network, None) => "? help  q quit",
        (Screen::Ladder, None) if model.ladder.open.is_some() => {
            "Up/Down scroll  k show or hide SRTP keys  Esc back"
        }
        (Screen::Ladder, None) => {
            "Up/Down choose  Enter whole message  f only this call or all  ? help  q quit"
        }
        (Screen::Log, None) => "Up/Down scroll  End newest  ? help",
        (Screen::Account, None) => {
            "Up/Down field  Left/Right choose  Enter save and sign in  Esc back  F1 help"
        }
    };
    // There is nothing to leave on a machine of its own.
    let keys = match model.host {
        Host::System { .. } => keys,
        Host::Machine => keys.trim_end_matches("  Ctrl-Q quit").trim_end_matches("  q quit"),
    };
    format!(" {keys}")
}

fn account(canvas: &mut Canvas<'_>, model: &Model) {
    let text = match model.settings.account {
        Some(_) => "Your account. Enter saves it and signs in.",
        None => "Welcome. Who are you? Enter saves this and signs in.",
    };
    canvas.put_cut(0, 0, text, Style::Strong);
    form(canvas, &model.login, 2);
    let hint = match model.login.entries.get(model.login.focus).map(|(label, _)| *label) {
        Some("Address") => "As alice@example.org.",
        Some("Password") => "Never shown, never written into phone.toml.",
        Some("Server") => "HOST or HOST:PORT that all goes through; empty: the host of each address.",
        Some("Transport") => "TLS is not there yet.",
        Some("Register") => "Without a registration others reach you only by your machine's address.",
        Some("STUN server") => "HOST or HOST:PORT that tells how others see your address; may be empty.",
        Some("Keep password") => "The keyring is in the kernel's memory, the file beside phone.toml.",
        Some(_) | None => "",
    };
    let row = 3 + model.login.entries.len();
    match &model.login.error {
        Some(error) => canvas.put_cut(0, row, &format!("! {error}"), Style::Warning),
        None => canvas.put_cut(0, row, hint, Style::Quiet),
    };
}

/// Draws a form from a row on.
fn form(canvas: &mut Canvas<'_>, form: &Form, first: usize) {
    let label_columns = form.entries.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
    let x = label_columns + 4;
    let room = canvas.columns().saturating_sub(x);
    for (index, (label, entry)) in form.entries.iter().enumerate() {
        let row = first + index;
        let is_chosen = index == form.focus;
        let (mark, style) = if is_chosen { (">", Style::Strong) } else { (" ", Style::Plain) };
        canvas.put(0, row, &format!("{mark} {label}"), style);
        let (text, column) = match entry {
            Entry::Text(field) => field.window(room),
            Entry::Hidden(field) => field.hidden_window(room),
            Entry::Choice { words, chosen } => {
                let word = words.get(*chosen).copied().unwrap_or_default();
                (cut(&format!("< {word} >"), room), 0)
            }
        };
        let is_text = !matches!(entry, Entry::Choice { .. });
        canvas.put(x, row, &pad(&text, room), if is_text { Style::Field } else { style });
        if is_chosen && is_text {
            canvas.set_cursor(x + column, row);
        }
    }
}

/// `59m 12s`; `1h 0m` from an hour on.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

/// A rectangle of the screen; positions in it count from its own corner.
struct Canvas<'c> {
    cells: &'c mut Cells,
    x: usize,
    y: usize,
    columns: usize,
    rows: usize,
}

impl<'c> Canvas<'c> {
    /// The whole screen.
    fn new(cells: &'c mut Cells) -> Self {
        let (columns, rows) = (cells.columns(), cells.rows());
        Self { cells, x: 0, y: 0, columns, rows }
    }

    /// A part of it.
    fn part(&mut self, x: usize, y: usize, columns: usize, rows: usize) -> Canvas<'_> {
        let (columns, rows) =
            (columns.min(self.columns.saturating_sub(x)), rows.min(self.rows.saturating_sub(y)));
        Canvas { cells: self.cells, x: self.x + x, y: self.y + y, columns, rows }
    }

    /// All cells, for pages that fill whole rows of the screen, and the row of this part's corner.
    fn whole_rows(&mut self) -> (&mut Cells, usize) {
        (self.cells, self.y)
    }

    /// Writes `text`; what does not fit is left out. Gives the column behind it.
    fn put(&mut self, x: usize, y: usize, text: &str, style: Style) -> usize {
        if y >= self.rows {
            return x;
        }
        let room = self.columns.saturating_sub(x);
        let end = self.cells.letters(self.x + x, self.y + y, room, style, text);
        end - self.x
    }

    /// The same with `…` for what does not fit.
    fn put_cut(&mut self, x: usize, y: usize, text: &str, style: Style) -> usize {
        let room = self.columns.saturating_sub(x);
        self.put(x, y, &text::cut(text, room), style)
    }

    /// A line across the screen.
    fn rule(&mut self, y: usize) {
        self.cells.rule(self.y + y, Style::Quiet);
    }

    /// An empty box with a border and a title in the middle; gives its inside.
    fn window(&mut self, columns: usize, rows: usize, title: &str) -> Canvas<'_> {
        let (columns, rows) = (columns.min(self.columns), rows.min(self.rows));
        let (x, y) = ((self.columns - columns) / 2, (self.rows - rows) / 2);
        self.cells.frame(self.x + x, self.y + y, columns, rows, Style::Strong, title);
        self.part(x + 2, y + 1, columns.saturating_sub(4), rows.saturating_sub(2))
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn rows(&self) -> usize {
        self.rows
    }

    /// Puts the cursor there, if it is inside.
    fn set_cursor(&mut self, x: usize, y: usize) {
        if x < self.columns && y < self.rows {
            self.cells.set_cursor(self.x + x, self.y + y);
        }
    }

    fn hide_cursor(&mut self) {
        self.cells.hide_cursor();
    }
}

//! What the model looks like: characters in a buffer, drawn anew each time.
//!
//! Does: fills any window from 60 by 16 on, made for 80 by 24; says in words or signs whatever colour says.
//!
//! Start reading at [`draw`]; each screen has a file.

mod call;
mod canvas;
mod keypad;
mod ladder;
mod lists;
mod network;
mod overlay;
#[cfg(test)]
mod tests;

use super::event::Now;
use super::form::{Entry, Form};
use super::model::{Model, Registered, Screen, Weight};
use super::text::{cut, pad, width};
use canvas::{Canvas, style};
use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use std::time::Duration;

const COLUMNS_MIN: u16 = 60;
const ROWS_MIN: u16 = 16;

/// Draws everything; gives where the cursor stands, if it is seen.
pub(crate) fn draw(model: &Model, now: Now, buffer: &mut Buffer) -> Option<Position> {
    let mut whole = Canvas::new(buffer);
    let (columns, rows) = (whole.columns(), whole.rows());
    if columns < COLUMNS_MIN || rows < ROWS_MIN {
        whole.put(0, 0, "make this window larger:", style::PLAIN);
        whole.put(0, 1, &format!("60 x 16 at least, it is {columns} x {rows}"), style::PLAIN);
        return None;
    }
    title(&mut whole, model, now);
    tabs(&mut whole, model.screen);
    whole.rule(2);
    whole.rule(rows - 3);
    notice(&mut whole, model);
    whole.put_cut(0, rows - 1, &help_line(model), style::QUIET);
    let cursor = {
        let mut body = whole.part(1, 3, columns - 2, rows - 6);
        match model.screen {
            Screen::Keypad => keypad::draw(&mut body, model),
            Screen::Contacts => lists::contacts(&mut body, model),
            Screen::Calls => lists::calls(&mut body, model, now),
            Screen::Call => call::draw(&mut body, model, now),
            Screen::Network => network::draw(&mut body, model, now),
            Screen::Ladder => ladder::draw(&mut body, model),
            Screen::Account => account(&mut body, model),
        }
    };
    match &model.overlay {
        Some(overlay) => overlay::draw(&mut whole, model, overlay),
        None => cursor,
    }
}

fn title(canvas: &mut Canvas<'_>, model: &Model, now: Now) {
    let clock = now.wall.clock();
    let who = model.own_uri().unwrap_or("no account");
    let text = format!(" Ringway  {who}  {}", registered(model, now));
    let room = usize::from(canvas.columns()).saturating_sub(width(&clock) + 2);
    canvas.put(0, 0, &format!("{} {clock} ", pad(&text, room)), style::BAR);
}

/// The state of the registration in a few words.
pub(super) fn registered(model: &Model, now: Now) -> String {
    let left = |until: Duration| until.saturating_sub(now.elapsed).as_secs();
    match &model.registered {
        Registered::No => "not registered".to_owned(),
        Registered::Trying => "registering…".to_owned(),
        Registered::Yes { until } => format!("registered, {} left", duration(left(*until))),
        Registered::Failed { reason, retry_at: None } => format!("NOT REGISTERED: {reason}"),
        Registered::Failed { reason, retry_at: Some(at) } => {
            format!("NOT REGISTERED: {reason}; again in {} s", left(*at))
        }
    }
}

fn tabs(canvas: &mut Canvas<'_>, chosen: Screen) {
    let mut x = 0;
    for (number, screen) in (2..).zip(Screen::ALL) {
        let (text, style) = match screen == chosen {
            true => (format!("[F{number} {}]", screen.name()), style::STRONG),
            false => (format!(" F{number} {} ", screen.name()), style::QUIET),
        };
        x = canvas.put(x, 1, &text, style);
    }
}

/// Somebody who calls is more important than any notice.
fn notice(canvas: &mut Canvas<'_>, model: &Model) {
    let row = canvas.rows() - 2;
    let mut alarm = |text: &str, keys: &str| {
        let room = usize::from(canvas.columns()).saturating_sub(width(keys));
        canvas.put(0, row, &format!("{}{keys}", pad(text, room)), style::ALARM);
    };
    if let Some(call) = model.ringing() {
        let more = match model.calls.iter().filter(|call| call.rings_here()).count() {
            0 | 1 => String::new(),
            count => format!(" (+{})", count - 1),
        };
        alarm(
            &format!(" >> {} calls", call.party.whole()),
            &format!("{more}  Ctrl-A answer  Ctrl-R reject "),
        );
    } else if let Some((call, target)) =
        model.transfer_asked().and_then(|call| Some((call, call.asks_for.as_ref()?)))
    {
        let text = format!(" >> {} sends you to {target}", call.party.short());
        alarm(&text, "  Ctrl-A call there  Ctrl-R no ");
    } else if let Some(notice) = &model.notice {
        let (word, style) = match notice.weight {
            Weight::Note => ("", style::PLAIN),
            Weight::Careful => ("careful: ", style::WARNING),
            Weight::Failed => ("failed: ", style::WARNING),
        };
        canvas.put_cut(1, row, &format!("{word}{}", notice.text), style);
    }
}

/// The keys that mean something here.
fn help_line(model: &Model) -> String {
    let keys = match (model.screen, &model.overlay) {
        (_, Some(_)) => "Esc back",
        (Screen::Keypad, None) => {
            "Enter call  Up/Down dialled before  Alt-1..9 quick dial  F1 help  Ctrl-Q quit"
        }
        (Screen::Contacts, None) => {
            "Enter call  n new  e edit  d delete  1..9 quick dial  0 none  ? help  q quit"
        }
        (Screen::Calls, None) => "Enter open or call again  x hang up  s save as contact  ? help  q quit",
        (Screen::Call, None) => match model.shown_call() {
            Some(call) if call.is_over() => "Enter call again  ? help  q quit",
            Some(call) if call.rings_here() => "a answer  r reject  n next call  ? help  q quit",
            Some(call) if !call.is_talking() => "x give up  n next call  ? help  q quit",
            Some(_) => "h hold  m mute  t transfer  v SAS equal  0-9*# keys  n next  x hang up  ? help",
            None => "? help  q quit",
        },
        (Screen::Network, None) => "? help  q quit",
        (Screen::Ladder, None) if model.ladder.open.is_some() => {
            "Up/Down scroll  k show or hide SRTP keys  Esc back"
        }
        (Screen::Ladder, None) => {
            "Up/Down choose  Enter whole message  f only this call or all  ? help  q quit"
        }
        (Screen::Account, None) => {
            "Up/Down field  Left/Right choose  Enter save and sign in  Esc back  F1 help"
        }
    };
    format!(" {keys}")
}

fn account(canvas: &mut Canvas<'_>, model: &Model) -> Option<Position> {
    let text = match model.settings.account {
        Some(_) => "Your account. Enter saves it and signs in.",
        None => "Welcome. Who are you? Enter saves this and signs in.",
    };
    canvas.put_cut(0, 0, text, style::STRONG);
    let cursor = form(canvas, &model.login, 2);
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
    let row = 3 + u16::try_from(model.login.entries.len()).unwrap_or(u16::MAX);
    match &model.login.error {
        Some(error) => canvas.put_cut(0, row, &format!("! {error}"), style::WARNING),
        None => canvas.put_cut(0, row, hint, style::QUIET),
    };
    cursor
}

/// Draws a form from a row on; gives where its cursor stands.
fn form(canvas: &mut Canvas<'_>, form: &Form, first: u16) -> Option<Position> {
    let label_columns = form.entries.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
    let x = u16::try_from(label_columns).unwrap_or(u16::MAX).saturating_add(4);
    let room = usize::from(canvas.columns().saturating_sub(x));
    let mut cursor = None;
    for (index, (label, entry)) in form.entries.iter().enumerate() {
        let row = first.saturating_add(u16::try_from(index).unwrap_or(u16::MAX));
        let is_chosen = index == form.focus;
        let (mark, style) = if is_chosen { (">", style::STRONG) } else { (" ", style::PLAIN) };
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
        canvas.put(x, row, &pad(&text, room), if is_text { style::FIELD } else { style });
        if is_chosen && is_text {
            cursor = canvas.position(x.saturating_add(u16::try_from(column).unwrap_or(u16::MAX)), row);
        }
    }
    cursor
}

/// `59m 12s`; `1h 0m` from an hour on.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

/// `00:02:13`
fn clock(talked: Duration) -> String {
    let seconds = talked.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

//! The screen of a phone without an operating system: few keys, one call.
//!
//! Does: shows registration, quick dial, the call, its security and its sound quality, from [`Facts`]; turns keys into
//! [`Command`]s.
//!
//! Start reading at [`Phone`].

mod call;
mod facts;

pub use facts::{Call, Facts, Hold, Phase, Quick, Registration, Security, Sound};

use crate::cells::Cells;
use crate::clip::Clip;
use crate::figures::Span;
use crate::keys::Key;
use crate::log::{Level, Log};
use crate::network;
use crate::style::Style;
use crate::window::{self, BODY_ROW, BODY_ROWS, LABEL_X, TABS_ROW, value};
use core::time::Duration;
use ringway_sansio::Instant;

/// The phone's screen.
#[derive(Debug)]
pub struct Phone {
    log: Log,
    shows_log: bool,
    started: Instant,
    /// Latest time of the next drawing.
    due_at: Instant,
}

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Call an entry of the quick dial, by index from 0.
    Dial(usize),
    /// Answer the call that rings here.
    Answer,
    /// End the call, or refuse or cancel it.
    HangUp,
    /// Put the call on hold.
    Hold,
    /// Resume the call.
    Resume,
    /// Press a key of the telephone: `0` to `9`, `*`, `#` (RFC 4733 §3.2).
    Dtmf(char),
    /// The SAS was compared and is equal (RFC 6189 §7.1).
    SasIsEqual,
}

impl Phone {
    /// Milliseconds between two drawings without a key.
    pub const REFRESH_MS: u64 = 250;

    /// The screen of a phone that starts now.
    pub fn new(now: Instant) -> Self {
        Self { log: Log::new(), shows_log: false, started: now, due_at: now }
    }

    /// Turns a key into the command that it has in the current state.
    pub fn on_key(&mut self, now: Instant, key: Key, facts: &Facts<'_>) -> Option<Command> {
        self.due_at = now;
        match key {
            Key::Tab => self.shows_log = !self.shows_log,
            Key::Escape => self.shows_log = false,
            _ if self.shows_log && self.log.key(key, BODY_ROWS) => {}
            _ => return command(key, facts),
        }
        None
    }

    /// A line for the log.
    pub fn on_log(&mut self, now: Instant, level: Level, text: impl AsRef<[u8]>) {
        self.log.push(now.since(self.started), level, text);
    }

    /// True when it is time for [`Phone::draw`]: after a key, and every [`Phone::REFRESH_MS`].
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due_at
    }

    /// Draws the page.
    pub fn draw(&mut self, now: Instant, facts: &Facts<'_>, cells: &mut Cells) {
        self.due_at = now + Duration::from_millis(Self::REFRESH_MS);
        cells.clear();
        window::title(cells, format_args!("Ringway phone {}", facts.version), facts.own, facts.uptime);
        registration(cells, facts);
        if self.shows_log {
            self.log.draw(cells, BODY_ROW, BODY_ROWS);
            window::keys(cells, &[("arrows PgUp PgDn End", "move"), ("Tab", "back to the phone")]);
            return;
        }
        match &facts.call {
            Some(call) => call::draw(cells, CALL_ROW, call),
            None => {
                let mut field = value(cells, CALL_ROW, "Call", Style::Plain);
                field.text("none");
                if let Some(last) = facts.last {
                    field.text("; the last one: ").text(last);
                }
            }
        }
        quick_dial(cells, facts.quick);
        value(cells, SOUND_ROW, "Sound", Style::Plain).text(facts.sound);
        network::draw(cells, NETWORK_ROW, &facts.network);
        window::keys(cells, keys(facts));
    }
}

fn command(key: Key, facts: &Facts<'_>) -> Option<Command> {
    let Some(call) = &facts.call else {
        let Key::Char(digit @ '1'..='9') = key else { return None };
        let place = usize::try_from(digit.to_digit(10)?).ok()?.checked_sub(1)?;
        return facts.quick.get(place).map(|_| Command::Dial(place));
    };
    match (key, call.phase) {
        (_, Phase::Ending) => None,
        (Key::Enter, Phase::RingsHere) => Some(Command::Answer),
        (Key::Char('h'), _) => Some(Command::HangUp),
        (Key::Char('o'), Phase::Talking(_)) => match call.hold {
            Hold::None | Hold::Theirs => Some(Command::Hold),
            Hold::Ours | Hold::Both => Some(Command::Resume),
        },
        (Key::Char('v'), Phase::Talking(_)) => match call.security {
            Security::Zrtp { is_compared: false, .. } => Some(Command::SasIsEqual),
            Security::Zrtp { .. } | Security::None | Security::Agreeing | Security::SdesPlain { .. } => None,
        },
        // An announcement may ask for keys before anybody answers.
        (Key::Char(digit @ ('0'..='9' | '*' | '#')), Phase::Talking(_) | Phase::EarlySound) => {
            Some(Command::Dtmf(digit))
        }
        _ => None,
    }
}

/// The keys that have a function in the current state.
fn keys(facts: &Facts<'_>) -> &'static [(&'static str, &'static str)] {
    let Some(call) = &facts.call else {
        return &[("1-9", "call"), ("Tab", "log"), ("Ctrl-L", "draw again")];
    };
    match (call.phase, call.hold) {
        (Phase::RingsHere, _) => &[("Enter", "ANSWER"), ("h", "refuse"), ("Tab", "log")],
        (Phase::Calling(_) | Phase::RingsThere, _) => &[("h", "give up"), ("Tab", "log")],
        (Phase::EarlySound, _) => &[("0-9 * #", "keys"), ("h", "give up"), ("Tab", "log")],
        (Phase::Answering, _) => &[("h", "hang up"), ("Tab", "log")],
        (Phase::Ending, _) => &[("Tab", "log")],
        (Phase::Talking(_), Hold::Ours | Hold::Both) => {
            &[("o", "take the call back"), ("h", "hang up"), ("0-9 * #", "keys"), ("Tab", "log")]
        }
        (Phase::Talking(_), Hold::None | Hold::Theirs) => {
            &[("h", "hang up"), ("o", "hold"), ("0-9 * #", "keys"), ("v", "SAS is equal"), ("Tab", "log")]
        }
    }
}

fn registration(cells: &mut Cells, facts: &Facts<'_>) {
    let mut field = cells.field(LABEL_X, TABS_ROW, Cells::COLUMNS - 2, Style::Plain);
    match facts.registration {
        Registration::Off => field.text("Not registered, and not asked to be: calls go out only"),
        Registration::Asking => field.style(Style::Warning).text("Registering ..."),
        Registration::Registered { left } => {
            field.style(Style::Good).text("Registered").style(Style::Plain);
            field.value(format_args!(", {} left", Span(left)))
        }
        Registration::Failed { reason, retry } => {
            field.style(Style::Bad).text("NOT REGISTERED: ");
            // What a stranger says must leave room for what we do about it.
            field.clip(&Clip::<40>::new(reason));
            match retry {
                Some(retry) => field.value(format_args!("; again in {}", Span(retry))),
                None => field.text("; not tried again"),
            }
        }
    };
}

fn quick_dial(cells: &mut Cells, quick: &[Quick<'_>]) {
    cells.text(LABEL_X, QUICK_ROW, 20, Style::Heading, "Quick dial");
    for (number, one) in quick.iter().take(QUICK_MAX).enumerate() {
        let (column, row) = (number / QUICK_ROWS, number % QUICK_ROWS);
        let (x, y) = (LABEL_X + column * QUICK_COLUMNS, QUICK_ROW + 1 + row);
        cells.value(x, y, 2, Style::Strong, number + 1);
        cells.text(x + 2, y, NAME_COLUMNS, Style::Strong, one.name);
        cells.text(x + 3 + NAME_COLUMNS, y, QUICK_COLUMNS - NAME_COLUMNS - 4, Style::Plain, one.uri);
    }
    if quick.is_empty() {
        cells.text(LABEL_X, QUICK_ROW + 1, 40, Style::Quiet, "Nobody is named.");
    }
}

const CALL_ROW: usize = BODY_ROW + 1;
const QUICK_ROW: usize = CALL_ROW + call::ROWS + 1;
const SOUND_ROW: usize = NETWORK_ROW - 1;
const NETWORK_ROW: usize = BODY_ROW + BODY_ROWS - network::ROWS;
const QUICK_MAX: usize = 9;
/// Two columns: five of them, and four.
const QUICK_ROWS: usize = 5;
const QUICK_COLUMNS: usize = 39;
const NAME_COLUMNS: usize = 11;

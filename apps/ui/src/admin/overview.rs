//! Page 1: state of the server; rates per second, from counters since the start.

use super::{Authentication, Facts, Memory, Mode, Totals, Users};
use crate::cells::Cells;
use crate::figures::{Delay, Grouped, History, MebiBytes};
use crate::network;
use crate::style::Style;
use crate::window::{BODY_ROW, BODY_ROWS, LABEL_X, value};
use core::fmt::Display;
use core::time::Duration;
use ringway_sansio::Instant;

pub(super) fn draw(cells: &mut Cells, facts: &Facts<'_>, rates: &Rates) {
    who(cells, BODY_ROW, facts);
    network::draw(cells, NETWORK_ROW, &facts.network);
    figures(cells, FIGURES_ROW, facts, rates);
    memory(cells, MEMORY_ROW, &facts.memory);
    trouble(cells, BODY_ROW + BODY_ROWS - 1, facts);
}

fn who(cells: &mut Cells, y: usize, facts: &Facts<'_>) {
    let mode = match facts.mode {
        Mode::Proxy { is_stateful: true, has_record_route: true } => "Proxy, stateful, stays in calls",
        Mode::Proxy { is_stateful: true, has_record_route: false } => "Proxy, stateful, leaves calls",
        Mode::Proxy { is_stateful: false, .. } => "Proxy, stateless",
        Mode::Redirect => "Redirect: callers get the users' contacts",
    };
    value(cells, y, "Mode", Style::Strong).text(mode);
    match facts.authentication {
        Authentication::Off => {
            let mut field = value(cells, y + 1, "Passwords", Style::Alarm);
            field.text(" OFF: anyone can register as any user, and call as any user ");
        }
        Authentication::On { realm, algorithms } => {
            let mut field = value(cells, y + 1, "Passwords", Style::Good);
            field.text("required, ");
            for (number, algorithm) in algorithms.iter().enumerate() {
                field.text(if number == 0 { "" } else { " or " }).text(algorithm);
            }
            field.style(Style::Plain).text("  realm ").style(Style::Strong).text(realm);
        }
    }
    let mut field = value(cells, y + 2, "Domains", Style::Strong);
    for (number, domain) in facts.domains.iter().enumerate() {
        field.text(if number == 0 { "" } else { ", " }).text(domain);
    }
    users(cells, y + 3, facts);
    let mut field = value(cells, y + 4, "Registered", Style::Strong);
    let (users, contacts) = (facts.users_registered, facts.contacts);
    let user = if users == 1 { " user with " } else { " users with " };
    let contact = if contacts == 1 { " contact" } else { " contacts" };
    field.value(Grouped(users)).style(Style::Plain).text(user);
    field.style(Style::Strong).value(Grouped(contacts)).style(Style::Plain).text(contact);
}

fn users(cells: &mut Cells, y: usize, facts: &Facts<'_>) {
    let mut field = value(cells, y, "Users", Style::Strong);
    match (facts.users, facts.authentication) {
        (Users::None, Authentication::Off) => {
            field.style(Style::Plain).text("no list: everyone may register");
        }
        (Users::None, Authentication::On { .. }) => {
            field.style(Style::Bad).text("NO LIST: nobody can register");
        }
        (Users::Loading { from, bytes }, _) => {
            field.style(Style::Warning).value(format_args!("loading, {} bytes so far", Grouped(bytes)));
            field.style(Style::Plain).text("  from ").text(from);
        }
        (Users::Loaded { from, count }, _) => {
            field.value(Grouped(count)).style(Style::Plain).text(" loaded from ").text(from);
        }
        (Users::Failed { from, why }, _) => {
            field.style(Style::Bad).text("NOT LOADED: ").text(why).text("  from ").text(from);
        }
    }
}

fn figures(cells: &mut Cells, y: usize, facts: &Facts<'_>, rates: &Rates) {
    cells.text(LABEL_X, y, 20, Style::Heading, "Each second");
    cells.right(NOW_X, y, FIGURE_COLUMNS, Style::Heading, "now");
    cells.right(MOST_X, y, FIGURE_COLUMNS, Style::Heading, "most");
    let heading = format_args!("the last {HISTORY_COLUMNS} s, now on the right");
    cells.right(HISTORY_X, y, HISTORY_COLUMNS, Style::Heading, heading);
    let rows = [
        ("Requests", &rates.requests, Style::Strong),
        ("REGISTER", &rates.registers, Style::Strong),
        ("2xx sent", &rates.successes, Style::Strong),
        ("3xx sent", &rates.redirections, Style::Strong),
        ("4xx sent", &rates.client_errors, Style::Strong),
        ("5xx, 6xx sent", &rates.server_errors, Style::Bad),
    ];
    for (number, (label, history, style)) in rows.into_iter().enumerate() {
        let style = if history.newest() == 0 { Style::Strong } else { style };
        row(cells, y + 1 + number, label, style, history, [history.newest(), history.most()].map(Grouped));
    }
    let calls = [facts.calls, rates.calls.most().max(facts.calls)].map(Grouped);
    row(cells, y + 7, "Calls in set-up", Style::Strong, &rates.calls, calls);
    let delay = [facts.queue_delay, Duration::from_micros(rates.queue_delay.most()).max(facts.queue_delay)];
    let style = match facts.queue_delay {
        delay if delay >= DELAY_BAD => Style::Bad,
        delay if delay >= DELAY_LONG => Style::Warning,
        _ => Style::Strong,
    };
    row(cells, y + 8, "Longest wait", style, &rates.queue_delay, delay.map(Delay));
}

fn row(
    cells: &mut Cells,
    y: usize,
    label: &str,
    style: Style,
    history: &History,
    figures: [impl Display; 2],
) {
    let [now, most] = figures;
    cells.text(LABEL_X, y, NOW_X - LABEL_X, Style::Plain, label);
    cells.right(NOW_X, y, FIGURE_COLUMNS, style, now);
    cells.right(MOST_X, y, FIGURE_COLUMNS, Style::Plain, most);
    cells.history(HISTORY_X, y, HISTORY_COLUMNS, Style::Heading, history);
}

fn memory(cells: &mut Cells, y: usize, memory: &Memory) {
    let Memory { used, peak, limit, is_short } = *memory;
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    let style = match percent {
        _ if is_short => Style::Bad,
        MEMORY_LONG.. => Style::Warning,
        _ => Style::Strong,
    };
    let bar_style = if style == Style::Strong { Style::Heading } else { style };
    cells.text(LABEL_X, y, NOW_X - LABEL_X, Style::Plain, "Memory");
    cells.right(NOW_X, y, FIGURE_COLUMNS, style, format_args!("{} MiB", MebiBytes(used)));
    cells.right(MOST_X, y, FIGURE_COLUMNS, Style::Plain, format_args!("{} MiB", MebiBytes(peak)));
    let bar_columns = HISTORY_COLUMNS - SHARE_COLUMNS - 1;
    cells.bar(HISTORY_X, y, bar_columns, bar_style, used, limit);
    let share = format_args!("{percent} % of {} MiB", MebiBytes(limit));
    cells.right(HISTORY_X + bar_columns + 1, y, SHARE_COLUMNS, Style::Plain, share);
}

/// One line; the log has the rest.
fn trouble(cells: &mut Cells, y: usize, facts: &Facts<'_>) {
    let own = facts.memory.is_short.then_some("Memory is short: new work is refused (503)");
    let mut all = own.iter().chain(facts.trouble);
    if let Some(first) = all.next() {
        let more = all.count();
        cells.fill(0, y, Cells::COLUMNS, Style::Alarm);
        cells.text(LABEL_X, y, Cells::COLUMNS - 2 - MORE_COLUMNS, Style::Alarm, first);
        if more > 0 {
            let more = format_args!("and {more} more");
            cells.right(Cells::COLUMNS - 1 - MORE_COLUMNS, y, MORE_COLUMNS, Style::Alarm, more);
        }
    }
}

const NETWORK_ROW: usize = BODY_ROW + 6;
const FIGURES_ROW: usize = NETWORK_ROW + network::ROWS + 1;
const MEMORY_ROW: usize = FIGURES_ROW + 9;
const NOW_X: usize = 17;
const MOST_X: usize = 28;
const FIGURE_COLUMNS: usize = 10;
const HISTORY_X: usize = 41;
const HISTORY_COLUMNS: usize = 38;
const SHARE_COLUMNS: usize = 19;
const MORE_COLUMNS: usize = 11;
/// A tenth of T1: no effect on callers yet.
const DELAY_LONG: Duration = Duration::from_millis(50);
/// Half of T1: soon phones retransmit (RFC 3261 §17.1.1.2), and the load grows.
const DELAY_BAD: Duration = Duration::from_millis(250);
/// Percent of the memory from which on the figure is marked.
const MEMORY_LONG: u128 = 80;

/// The last minute, second by second.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) requests: History,
    pub(super) registers: History,
    pub(super) successes: History,
    pub(super) redirections: History,
    pub(super) client_errors: History,
    pub(super) server_errors: History,
    pub(super) calls: History,
    /// In microseconds.
    pub(super) queue_delay: History,
    last: Option<(Instant, Totals)>,
}

impl Rates {
    pub(super) const fn new() -> Self {
        Self {
            requests: History::new(),
            registers: History::new(),
            successes: History::new(),
            redirections: History::new(),
            client_errors: History::new(),
            server_errors: History::new(),
            calls: History::new(),
            queue_delay: History::new(),
            last: None,
        }
    }

    /// Takes a second's figures, once that second has passed.
    pub(super) fn watch(&mut self, now: Instant, facts: &Facts<'_>) {
        let Some((then, before)) = self.last else {
            self.last = Some((now, facts.totals));
            return;
        };
        let passed = now.since(then);
        if passed < SECOND {
            return;
        }
        let (after, millis) = (facts.totals, passed.as_millis().max(1));
        let rate = |after: u64, before: u64| {
            u64::try_from(u128::from(after.saturating_sub(before)) * 1000 / millis).unwrap_or(u64::MAX)
        };
        self.requests.push(rate(after.requests, before.requests));
        self.registers.push(rate(after.registers, before.registers));
        self.successes.push(rate(after.successes, before.successes));
        self.redirections.push(rate(after.redirections, before.redirections));
        self.client_errors.push(rate(after.client_errors, before.client_errors));
        self.server_errors.push(rate(after.server_errors, before.server_errors));
        self.calls.push(facts.calls);
        self.queue_delay.push(u64::try_from(facts.queue_delay.as_micros()).unwrap_or(u64::MAX));
        self.last = Some((now, facts.totals));
    }
}

const SECOND: Duration = Duration::from_secs(1);

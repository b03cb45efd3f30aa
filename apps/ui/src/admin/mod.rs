//! The administrator's screen of a server. Help page: keys and terms.
//!
//! Does: draws five pages, from [`Facts`], a [`RegistrationSource`], and events as they happen: changes and lines of
//! the log. It only displays: no key changes the server.
//!
//! Start reading at [`Admin`]; each page has a file.

mod limits;
mod listing;
mod overview;
mod users;

use core::time::Duration;

use ringway_sansio::Instant;

use crate::cells::Cells;
use crate::keys::Key;
use crate::log::{Level, Log};
use crate::network::Network;
use crate::style::Style;
use crate::window::{self, BODY_ROW, BODY_ROWS, LABEL_X, TABS_ROW};
use alloc::string::String;
use limits::LimitsPage;
pub use listing::{Prefix, RegistrationSource, Row};
use overview::Rates;
use users::UsersPage;
pub use users::{Change, What};

/// The administrator's screen.
#[derive(Debug)]
pub struct Admin {
    page: Page,
    has_help: bool,
    users: UsersPage,
    limits: LimitsPage,
    log: Log,
    rates: Rates,
    started: Instant,
    /// Latest time of the next drawing.
    due_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Overview,
    Users,
    Limits,
    Log,
}

impl Page {
    const ALL: [(Self, char, &str); 4] = [
        (Self::Overview, '1', "Overview"),
        (Self::Users, '2', "Registered users"),
        (Self::Limits, '3', "Limits and drops"),
        (Self::Log, '4', "Log"),
    ];

    fn next(self) -> Self {
        match self {
            Self::Overview => Self::Users,
            Self::Users => Self::Limits,
            Self::Limits => Self::Log,
            Self::Log => Self::Overview,
        }
    }
}

impl Admin {
    /// Milliseconds between two drawings without a key.
    pub const REFRESH_MS: u64 = 500;

    /// The overview of a server that starts now.
    pub fn new(now: Instant) -> Self {
        Self {
            page: Page::Overview,
            has_help: false,
            users: UsersPage::new(),
            limits: LimitsPage::new(),
            log: Log::new(),
            rates: Rates::new(),
            started: now,
            due_at: now,
        }
    }

    /// Handles a key. [`Key::REDRAW`] must go to the [`Terminal`](crate::Terminal) too.
    pub fn on_key(&mut self, now: Instant, key: Key) {
        self.due_at = now;
        if core::mem::take(&mut self.has_help) {
            return;
        }
        let is_done = match self.page {
            Page::Overview => false,
            Page::Users => self.users.key(key),
            Page::Limits => self.limits.key(key),
            Page::Log => self.log.key(key, BODY_ROWS),
        };
        match key {
            _ if is_done => {}
            Key::Char('?' | 'h') | Key::Function(1) => self.has_help = true,
            Key::Tab => self.page = self.page.next(),
            Key::Char(c) => {
                let chosen = Page::ALL.into_iter().find(|(_, number, _)| *number == c);
                self.page = chosen.map_or(self.page, |(page, ..)| page);
            }
            _ => {}
        }
    }

    /// True while characters are text that is typed, and no commands.
    pub const fn takes_text(&self) -> bool {
        matches!(self.page, Page::Users) && self.users.is_searching()
    }

    /// A contact changed. Costs no memory; the last 200 are kept.
    pub fn on_change(&mut self, now: Instant, change: &Change<'_>) {
        self.users.changes.push(now, change);
    }

    /// A line for the log. Costs no memory; the last [`Log::LINES_MAX`] are kept.
    pub fn on_log(&mut self, now: Instant, level: Level, text: impl AsRef<[u8]>) {
        self.log.push(now.since(self.started), level, text);
    }

    /// True when it is time for [`Admin::draw`]: after a key, while a search goes on, and every
    /// [`Admin::REFRESH_MS`]. Otherwise drawing changes nothing but the load.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due_at
    }

    /// Draws the page. A search that has not ended reads 1,024 slots of the table and continues at the next call.
    pub fn draw(
        &mut self,
        now: Instant,
        facts: &Facts<'_>,
        source: &dyn RegistrationSource,
        cells: &mut Cells,
    ) {
        self.rates.watch(now, facts);
        self.limits.watch(now, facts.limits);
        cells.clear();
        let domain = facts.domains.first().map(|domain| domain.as_bytes()).unwrap_or_default();
        window::title(cells, format_args!("Ringway {}", facts.version), domain, facts.uptime);
        self.tabs(cells, facts);
        let keys: &[(&str, &str)] = match self.page {
            Page::Overview => {
                overview::draw(cells, facts, &self.rates);
                &[("1 2 3 4", "pages"), ("Tab", "next page"), ("?", "help")]
            }
            Page::Users => {
                self.users.draw(cells, now, facts, source);
                self.users.keys()
            }
            Page::Limits => {
                self.limits.draw(cells, now, facts.limits);
                &[("arrows PgUp PgDn Home End", "move"), ("1 2 3 4", "pages"), ("?", "help")]
            }
            Page::Log => {
                self.log.draw(cells, BODY_ROW, BODY_ROWS);
                match self.log.rows_below() {
                    0 => &[("arrows PgUp PgDn Home", "older"), ("1 2 3 4", "pages"), ("?", "help")],
                    _ => &[("arrows PgUp PgDn", "move"), ("End", "newest"), ("?", "help")],
                }
            }
        };
        window::keys(cells, if self.has_help { &[("any key", "back")] } else { keys });
        if self.has_help {
            draw(cells);
        }
        let is_busy = self.page == Page::Users && self.users.is_busy();
        self.due_at = if is_busy { now } else { now + Duration::from_millis(Self::REFRESH_MS) };
    }

    fn tabs(&self, cells: &mut Cells, facts: &Facts<'_>) {
        let mut field = cells.field(LABEL_X, TABS_ROW, TABS_COLUMNS, Style::Plain);
        for (page, number, name) in Page::ALL {
            field.style(if page == self.page { Style::Bar } else { Style::Plain });
            field.value(format_args!(" {number} {name} "));
        }
        match facts.authentication {
            Authentication::Off => {
                let x = Cells::COLUMNS - NO_PASSWORDS.len();
                cells.text(x, TABS_ROW, NO_PASSWORDS.len(), Style::Alarm, NO_PASSWORDS);
            }
            Authentication::On { .. } => {}
        }
    }
}

const TABS_COLUMNS: usize = 62;
/// Footer of every page.
const NO_PASSWORDS: &str = " NO PASSWORDS ";

fn draw(cells: &mut Cells) {
    cells.frame(0, BODY_ROW, Cells::COLUMNS, BODY_ROWS, Style::Plain, "Help");
    for (number, (key, does)) in KEYS.into_iter().enumerate() {
        let y = BODY_ROW + 2 + number;
        cells.text(KEY_X, y, TEXT_X - KEY_X, Style::Strong, key);
        cells.text(TEXT_X, y, TEXT_COLUMNS, Style::Plain, does);
    }
    for (number, (word, means)) in WORDS.into_iter().enumerate() {
        let y = BODY_ROW + 3 + KEYS.len() + number;
        cells.text(KEY_X, y, TEXT_X - KEY_X, Style::Heading, word);
        cells.text(TEXT_X, y, TEXT_COLUMNS, Style::Plain, means);
    }
}

/// Everything but the registered users (see [`RegistrationSource`]). Counts are since the
/// start.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The program's version.
    pub version: &'a str,
    /// Time since the start.
    pub uptime: Duration,
    /// Handling of requests for users.
    pub mode: Mode,
    /// Authentication of callers.
    pub authentication: Authentication<'a>,
    /// The domains that this server is responsible for.
    pub domains: &'a [String],
    /// The users that may register.
    pub users: Users<'a>,
    /// Users with a contact.
    pub users_registered: u64,
    /// Contacts registered.
    pub contacts: u64,
    /// The machine in its network.
    pub network: Network<'a>,
    /// Messages received and sent.
    pub totals: Totals,
    /// Calls that are being set up: forwarded, and not answered yet. A proxy has no state of others.
    pub calls: u64,
    /// The longest time that a frame waited for its turn, in the last second.
    pub queue_delay: Duration,
    /// The heap.
    pub memory: Memory,
    /// Every named limit and every reason to drop something, always in the same order.
    pub limits: &'a [Limit<'a>],
    /// Problems that the administrator must see at once, the worst first; one line each.
    pub trouble: &'a [&'a str],
}

/// Handling of requests for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are forwarded.
    Proxy {
        /// With transactions, or message by message (RFC 3261 §16.11).
        is_stateful: bool,
        /// True if calls stay on this server's path.
        has_record_route: bool,
    },
    /// The caller gets the contacts of the user (RFC 3261 §8.3).
    Redirect,
}

/// Authentication of callers.
#[derive(Clone, Copy, Debug)]
pub enum Authentication<'a> {
    /// None: every sender is accepted.
    Off,
    /// Digest authentication.
    On {
        /// Realm of the passwords.
        realm: &'a str,
        /// The hashes offered, the best first: `SHA-256`, `MD5`.
        algorithms: &'a [&'a str],
    },
}

/// The users that may register.
#[derive(Clone, Copy, Debug)]
pub enum Users<'a> {
    /// No list was configured.
    None,
    /// The list is being loaded.
    Loading {
        /// URL: `tftp://192.0.2.1/users.csv`.
        from: &'a str,
        /// Bytes received so far.
        bytes: u64,
    },
    /// The list is loaded.
    Loaded {
        /// URL of the list.
        from: &'a str,
        /// Number of users.
        count: u64,
    },
    /// The list could not be loaded.
    Failed {
        /// URL of the list.
        from: &'a str,
        /// The reason, in one line.
        why: &'a str,
    },
}

/// Messages received and sent since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests received.
    pub requests: u64,
    /// REGISTER requests among them.
    pub registers: u64,
    /// Responses sent, by the first digit of their status: 2xx.
    pub successes: u64,
    /// 3xx: redirected callers.
    pub redirections: u64,
    /// 4xx: challenges too.
    pub client_errors: u64,
    /// 5xx and 6xx.
    pub server_errors: u64,
}

/// The heap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In use now.
    pub used: u64,
    /// Maximum in use since the start.
    pub peak: u64,
    /// Size.
    pub limit: u64,
    /// True while new work is refused (503) because too little is left.
    pub is_short: bool,
}

/// A named limit, or a reason to drop something.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// Its name: `TCP connections`.
    pub name: &'a str,
    /// The limit; `None`: a counter only.
    pub most: Option<u64>,
    /// Current use, if it is known.
    pub used: Option<u64>,
    /// Number of times that the limit was reached, or something was dropped for this reason.
    pub hits: u64,
}

const KEYS: [(&str, &str); 9] = [
    ("1 2 3 4", "the pages; Tab is the next one"),
    ("arrows PgUp PgDn", "move in lists, Home and End to their ends"),
    ("/ or s", "users whose names begin so; Esc shows all again"),
    ("l", "on page 2: changes as they happen, and back"),
    ("p", "there: stop so that they can be read, and go on"),
    ("Ctrl-L", "draw everything again; query the terminal's size"),
    ("q", "on a serial line: the log, until any key"),
    ("? or F1", "this help; any key leaves it"),
    ("", "Nothing that a key does changes what the server does."),
];

const WORDS: [(&str, &str); 7] = [
    ("now, most", "the last second, and the highest of the last minute"),
    ("4xx sent", "errors of callers; asking for a password (401, 407)"),
    ("", "is one of them and is nothing bad"),
    ("Calls in set-up", "forwarded and not answered yet; a proxy does not"),
    ("", "know how long a call lasts"),
    ("Longest wait", "of a frame until its turn, in the last second"),
    ("reached", "how often the limit refused or dropped something"),
];

const KEY_X: usize = 5;
const TEXT_X: usize = 23;
const TEXT_COLUMNS: usize = Cells::COLUMNS - TEXT_X - 4;

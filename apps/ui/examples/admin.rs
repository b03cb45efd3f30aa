//! The administrator's screen in this terminal, with a made-up server that is never quiet.
//!
//! `cargo run -p ringway-ui --example admin`; `q` leaves. Bytes go out as slowly as over a serial line.

use ringway_sansio::{Instant, Transport};
use ringway_ui::admin::{
    Admin, Authentication, Change, Facts, Limit, Memory, Mode, Prefix, RegistrationSource, Row, Totals,
    Users, What,
};
use ringway_ui::{Address, Card, Cells, Key, Level, Network, SPARE_ROW, SerialKeys, Source, Terminal, Typed};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Bytes that a serial line at 115,200 bit/s carries in a millisecond.
const LINE_BYTES_PER_MS: usize = 11;

fn main() -> io::Result<()> {
    let before = stty(&["-g"])?;
    stty(&["raw", "-echo"])?;
    let shown = show();
    let left = io::stdout().write_all(Terminal::FAREWELL.as_bytes());
    stty(&[before.trim()])?;
    shown.and(left)
}

fn show() -> io::Result<()> {
    let (bytes, started) = (keyboard(), std::time::Instant::now());
    let mut server = Server { now: Instant::from_secs(1_000_000), ..Server::default() };
    let began = server.now;
    let mut admin = Admin::new(server.now);
    let (mut cells, mut terminal, mut keys) =
        (Cells::new(), Terminal::serial(SPARE_ROW), SerialKeys::default());
    loop {
        server.now = began + started.elapsed();
        server.happens(&mut admin);
        let typed: Vec<Typed> = bytes.try_iter().filter_map(|byte| keys.byte(server.now, byte)).collect();
        for typed in typed.into_iter().chain(keys.idle(server.now).map(Typed::Key)) {
            match typed {
                Typed::Key(Key::Char('q')) => return Ok(()),
                Typed::Key(key) => {
                    admin.on_key(server.now, key);
                    if key == Key::REDRAW {
                        terminal.redraw();
                    }
                }
                Typed::Size { rows, columns } => terminal.set_size(rows, columns),
            }
        }
        if admin.is_due(server.now) {
            server.draw(&mut admin, &mut cells, started.elapsed());
        }
        let mut out = [0; LINE_BYTES_PER_MS];
        let count = terminal.step(&cells, &mut out);
        io::stdout().write_all(out.get(..count).unwrap_or_default())?;
        io::stdout().flush()?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asks the terminal's driver for something.
fn stty(args: &[&str]) -> io::Result<String> {
    let done = Command::new("stty").args(args).stdin(Stdio::inherit()).output()?;
    if !done.status.success() {
        return Err(io::Error::other("stty does not work here: start this in a terminal"));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn keyboard() -> mpsc::Receiver<u8> {
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || {
        for byte in io::stdin().lock().bytes().map_while(Result::ok) {
            if to.send(byte).is_err() {
                return;
            }
        }
    });
    from
}

/// A server that is made up from the time.
#[derive(Default)]
struct Server {
    now: Instant,
    totals: Totals,
    events: u64,
}

impl Server {
    /// Events since the last call; each event's number decides its kind.
    fn happens(&mut self, admin: &mut Admin) {
        let due = self.now.as_millis() % 1_000_000_000 / 3;
        let first = if self.events == 0 { due } else { self.events };
        for event in first..due {
            let wave = 1 + event / 1000 % 9;
            self.totals.requests += wave;
            self.totals.successes += wave / 2 + 1;
            self.totals.client_errors += event % 3;
            self.totals.registers += u64::from(event % 4 == 0);
            self.totals.server_errors += u64::from(event % 4000 < 40);
            if event % 100 == 0 {
                let what = [What::Registered, What::Refreshed, What::Refreshed, What::Removed, What::Expired];
                let index = (event / 100 % u64::from(USERS)) as u32;
                let name = name(index);
                let change = Change {
                    what: what.into_iter().cycle().nth((event / 100 % 5) as usize).unwrap_or(What::Expired),
                    aor: name.as_bytes(),
                    address: Some(address(index)),
                    transport: Transport::Udp,
                };
                admin.on_change(self.now, &change);
            }
            if event % 1500 == 0 {
                let level = if event % 4 == 0 { Level::Warning } else { Level::Info };
                admin.on_log(self.now, level, format!("event {event} was as made up as all the others"));
            }
        }
        self.events = due.max(1);
    }

    fn draw(&self, admin: &mut Admin, cells: &mut Cells, uptime: Duration) {
        let limits: Vec<Limit<'_>> = (0..24)
            .map(|number| Limit {
                name: LIMITS.into_iter().cycle().nth(number).unwrap_or_default(),
                most: (number % 3 != 2).then_some(256 << number),
                used: (number % 3 == 0).then_some(number as u64 * 7),
                hits: if number % 5 == 0 { uptime.as_secs() / 7 } else { 0 },
            })
            .collect();
        let domains = ["example.org".to_owned()];
        let facts = Facts {
            version: env!("CARGO_PKG_VERSION"),
            uptime,
            mode: Mode::Proxy { is_stateful: true, has_record_route: true },
            authentication: Authentication::On { realm: "example.org", algorithms: &["MD5"] },
            domains: &domains,
            users: Users::Loaded { from: "tftp://192.0.2.1/users.csv", count: 120_000 },
            users_registered: u64::from(USERS),
            contacts: u64::from(USERS),
            network: Network {
                card: Some(Card { name: "made-up-net", hardware: [2, 0, 0, 0, 0, 1], is_up: true }),
                address: Address::Known {
                    ip: Ipv4Addr::new(192, 0, 2, 10),
                    prefix: 24,
                    gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
                    dns: &[Ipv4Addr::new(192, 0, 2, 1)],
                    source: Source::Dhcp { left: Duration::from_secs(43_200).saturating_sub(uptime) },
                },
            },
            totals: self.totals,
            calls: self.events / 500 % 40,
            queue_delay: Duration::from_micros(100 + self.events / 300 % 90 * 1000),
            memory: Memory {
                used: (40 << 20) + self.events % 5_000_000 * 8,
                peak: 90 << 20,
                limit: 128 << 20,
                is_short: false,
            },
            limits: &limits,
            trouble: &[],
        };
        admin.draw(self.now, &facts, self, cells);
    }
}

impl RegistrationSource for Server {
    fn rows(
        &self,
        from: u32,
        count: u32,
        wanted: &Prefix<'_>,
        each: &mut dyn FnMut(u32, Row<'_>),
    ) -> Option<u32> {
        for index in from..from.saturating_add(count) {
            if index >= USERS {
                return None;
            }
            let name = name(index);
            if wanted.fits(name.as_bytes()) {
                let row = Row {
                    aor: name.as_bytes(),
                    contact: b"",
                    transport: Transport::Udp,
                    address: Some(address(index)),
                    left_s: Some(3600 - (self.now.as_secs() + u64::from(index) * 7) % 3600),
                };
                each(index, row);
            }
        }
        Some(from.saturating_add(count))
    }
}

fn name(index: u32) -> String {
    let first = ["alice", "bob", "carol", "dave", "erin", "frank", "grace"];
    let first = first.into_iter().cycle().nth(index as usize % 7).unwrap_or_default();
    format!("{first}{index}@example.org")
}

fn address(index: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0xc633_6400 + index % 250), 5060))
}

const USERS: u32 = 100_000;
const LIMITS: [&str; 7] = [
    "TCP connections",
    "neighbours",
    "frames damaged",
    "packets waiting for ARP",
    "server transactions",
    "messages too large",
    "nonces remembered",
];

//! Rows of the table, with the servers that each needs and its target.

use super::report::{Row, TimeTarget, Times};
use super::{gateways, in_process};
use anyhow::{Context, Result, anyhow};
use ringway_lab::floor::Kind;
use ringway_lab::measure::{Contestant, Counting, Plan, Readings, measure};
use ringway_lab::operation::Operation;
use ringway_lab::server::Algorithm;
use ringway_lab::server::Carrier;
use ringway_lab::subject::{Environment, Extent, Routing, Settings, Store, Subject, Under};
use std::time::Duration;
use std::{fs, thread};

/// Row by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum RowName {
    /// Parsing one message
    Parse,
    /// Looking up the route of a number
    Route,
    /// REGISTER refresh over UDP, nothing stored on disk
    Register,
    /// Stateful call
    Call,
    /// INVITE for an unknown user
    NotFound,
    /// REGISTER over 200 TCP connections
    RegisterTcp,
    /// One million users against ten thousand
    Scale,
    /// REGISTER refresh with SQLite
    RegisterSqlite,
    /// REGISTER refresh with digest authentication
    RegisterDigest,
    /// Memory for a user
    Memory,
    /// Stateless call
    CallStateless,
    /// INVITE to a redirect server
    Redirect,
    /// The server without sockets, as it runs without an operating system
    WithoutSockets,
}

impl RowName {
    /// True for a row that is measured in this process, without a server.
    pub(super) const fn is_in_process(self) -> bool {
        matches!(self, Self::Parse | Self::Route)
    }

    /// Operation that the row measures; parsing is not an operation of a server.
    pub(super) fn operation(self) -> Option<Operation> {
        match self {
            Self::Parse | Self::Route | Self::WithoutSockets => None,
            Self::Register | Self::RegisterSqlite | Self::Scale | Self::RegisterTcp => {
                Some(Operation::Refresh)
            }
            Self::RegisterDigest | Self::Memory => Some(Operation::RefreshChallenged),
            Self::Call | Self::CallStateless => Some(Operation::Call),
            Self::NotFound => Some(Operation::NotFound),
            Self::Redirect => Some(Operation::Redirect),
        }
    }

    /// Transport of the row's phones.
    const fn carrier(self) -> Carrier {
        if matches!(self, Self::RegisterTcp) { Carrier::Tcp } else { Carrier::Udp }
    }

    /// Configuration of the row's Ringway.
    pub(super) fn settings(self, environment: &Environment, users: u32) -> Settings {
        match self {
            Self::Parse
            | Self::Route
            | Self::Register
            | Self::Call
            | Self::NotFound
            | Self::RegisterTcp
            | Self::Scale
            | Self::WithoutSockets => Settings::open(users, Routing::Stateful),
            Self::RegisterSqlite => Settings {
                store: Store::Sqlite(environment.folder.join("bindings.db")),
                ..Settings::open(users, Routing::Stateful)
            },
            Self::RegisterDigest | Self::Memory => Settings {
                store: Store::Sqlite(environment.folder.join("subscribers.db")),
                challenge: Some(Algorithm::Sha256),
                ..Settings::open(users, Routing::Stateful)
            },
            Self::CallStateless => Settings::open(users, Routing::Stateless),
            Self::Redirect => Settings::open(users, Routing::Redirect),
        }
    }
}

/// Parameters of all rows.
pub(super) struct Bench {
    pub(super) environment: Environment,
    pub(super) plan: Plan,
    /// Number of registered users in rows with "1 M".
    pub(super) users: u32,
    /// Number of registered users in rows with "10 k".
    pub(super) users_few: u32,
    /// Selected rows; empty for all.
    pub(super) wanted: Vec<RowName>,
}

const REGISTER: TimeTarget = TimeTarget { us_max: 5.0, floors_max: Some(1.9) };
const CALL_US_MAX: f64 = 40.0;

impl Bench {
    /// Measures all selected rows.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        if self.wants(RowName::Parse) {
            rows.push(in_process::row(self.plan.repeats));
        }
        if self.wants(RowName::Route) {
            rows.push(in_process::lookup_row(self.plan.repeats));
            rows.push(gateways::row(self.plan.repeats));
        }
        let first = [RowName::Register, RowName::Call, RowName::NotFound, RowName::Scale];
        if first.into_iter().any(|name| self.wants(name)) {
            self.open_server(&mut rows);
        }
        if self.wants(RowName::RegisterTcp) {
            rows.push(self.register_tcp());
        }
        if self.wants(RowName::RegisterSqlite) {
            self.sqlite(&mut rows);
        }
        if self.wants(RowName::RegisterDigest) || self.wants(RowName::Memory) {
            self.digest(&mut rows);
        }
        if self.wants(RowName::CallStateless) {
            self.stateless(&mut rows);
        }
        if self.wants(RowName::Redirect) {
            self.redirect(&mut rows);
        }
        // It has its own table.
        if self.wanted.contains(&RowName::WithoutSockets) {
            rows.extend(self.without_sockets());
        }
        rows
    }

    fn wants(&self, name: RowName) -> bool {
        self.wanted.is_empty() || self.wanted.contains(&name)
    }

    /// Rows of a server without store and authentication.
    fn open_server(&self, rows: &mut Vec<Row>) {
        let mut ringway = self.registered(RowName::Register, self.users);
        let mut few = self.wants(RowName::Scale).then(|| self.registered(RowName::Register, self.users_few));
        let compares = self.wants(RowName::Register) || self.wants(RowName::Call);
        let mut kamailio = if compares { self.kamailio() } else { None };
        let mut register_factor = Err(anyhow!("not measured"));
        if self.wants(RowName::Register) || self.wants(RowName::Scale) {
            let (row, factor) = self.register(&mut ringway, few.as_mut(), kamailio.as_mut());
            register_factor = factor;
            rows.extend(self.wants(RowName::Register).then_some(row));
        }
        let mut call_factor = Err(anyhow!("not measured"));
        if self.wants(RowName::Call) || self.wants(RowName::Scale) {
            let (row, factor) = self.call(&mut ringway, few.as_mut(), kamailio.as_mut());
            call_factor = factor;
            rows.extend(self.wants(RowName::Call).then_some(row));
        }
        drop((few, kamailio));
        if self.wants(RowName::NotFound) {
            rows.push(self.not_found(&mut ringway));
        }
        if self.wants(RowName::Scale) {
            rows.push(self.scale(register_factor, call_factor));
        }
    }

    fn register(
        &self,
        ringway: &mut Result<Subject>,
        few: Option<&mut Result<Subject>>,
        kamailio: Option<&mut Result<Subject>>,
    ) -> (Row, Result<f64>) {
        let what =
            format!("REGISTER refresh over UDP, {} bindings, no digest, `memory:`", self.users_words());
        eprintln!("{what}");
        let results = self.compare(Kind::Echo, Operation::Refresh, ringway, few, kamailio);
        (Row::times(&what, REGISTER, &results.times()), results.factor())
    }

    fn call(
        &self,
        ringway: &mut Result<Subject>,
        few: Option<&mut Result<Subject>>,
        kamailio: Option<&mut Result<Subject>>,
    ) -> (Row, Result<f64>) {
        let what =
            format!("stateful call INVITE/100/180/200/ACK/BYE/200 over UDP, {} bindings", self.users_words());
        eprintln!("{what}");
        let results = self.compare(Kind::Relay, Operation::Call, ringway, few, kamailio);
        let mut row = Row::times(&what, TimeTarget::us(CALL_US_MAX), &results.times());
        if self.wanted.is_empty() {
            let note = match self.call_with_its_timers() {
                Ok(us) => format!(
                    "stateful call, the end of all its timers included (20 000 calls and the 35 s after them): \
                     {us:.2} µs"
                ),
                Err(error) => format!("stateful call, the end of all its timers included: {error:#}"),
            };
            eprintln!("  {note}");
            row.add_note(&note);
        }
        (row, results.factor())
    }

    /// CPU time of a call, including the end of its transactions up to 32 s later.
    fn call_with_its_timers(&self) -> Result<f64> {
        const CALLS: u64 = 20_000;
        let mut ringway = self.registered(RowName::Call, self.users_few)?;
        let before = ringway.process.cpu_ns()?;
        ringway.run(Operation::Call, Extent::Operations(CALLS))?;
        thread::sleep(Duration::from_secs(35));
        let used = ringway.process.cpu_ns()?.saturating_sub(before);
        Ok(used as f64 / 1000.0 / CALLS as f64)
    }

    fn not_found(&self, ringway: &mut Result<Subject>) -> Row {
        let what = "not found: INVITE, 404 and its ACK, over UDP";
        self.refusal(what, ringway, Operation::NotFound)
    }

    fn register_tcp(&self) -> Row {
        let what = format!("REGISTER refresh over 200 TCP connections, {} bindings", self.users_words());
        eprintln!("{what}");
        let mut ringway = self.registered(RowName::RegisterTcp, self.users);
        let mut floor = self.floor(Kind::Stream, Carrier::Tcp);
        let results = measure(
            &mut [
                contestant("floor", &mut floor, Operation::Refresh),
                contestant("ringway", &mut ringway, Operation::Refresh),
            ],
            self.plan,
        );
        row_of_two(&what, 9.0, &results)
    }

    fn scale(&self, register: Result<f64>, call: Result<f64>) -> Row {
        const FACTOR_MAX: f64 = 1.25;
        let what = format!(
            "{} users against {}: cost of a REGISTER, of a call",
            self.users_words(),
            words(self.users_few)
        );
        let target = "within 25 %";
        match (register, call) {
            (Ok(register), Ok(call)) => Row::single(
                &what,
                target,
                format!("{register:.2} ×, {call:.2} ×"),
                register <= FACTOR_MAX && call <= FACTOR_MAX,
            ),
            (Err(error), _) | (_, Err(error)) => Row::failed(&what, target, &error),
        }
    }

    fn sqlite(&self, rows: &mut Vec<Row>) {
        let what = format!(
            "REGISTER refresh, {} bindings, SQLite relaxed, store thread included",
            self.users_words()
        );
        eprintln!("{what}");
        let plan = Plan { counting: Counting::UntilIdle, ..self.plan };
        let mut ringway = self.registered(RowName::RegisterSqlite, self.users);
        let results = measure(&mut [contestant("ringway", &mut ringway, Operation::Refresh)], plan);
        rows.extend(results.first().map(|ours| {
            let times = Times { floor: None, kamailio: None, ringway: ours };
            Row::times(&what, TimeTarget::us(8.0), &times)
        }));
        let what = format!("restart with {} bindings: from start to `ready`", self.users_words());
        let target = "≤ 3 s";
        let settings = RowName::RegisterSqlite.settings(&self.environment, self.users);
        let restarted = ringway.and_then(|mut ringway| {
            let took = self.environment.restart(&mut ringway, &settings)?;
            // A call proves that the bindings were restored.
            ringway.run(Operation::Call, Extent::Operations(1000)).map(|_| took)
        });
        rows.push(match restarted {
            Ok(took) => {
                let seconds = took.as_secs_f64();
                Row::single(&what, target, format!("{seconds:.2} s (wall)"), seconds <= 3.0)
            }
            Err(error) => Row::failed(&what, target, &error),
        });
        self.forget_database("bindings.db");
    }

    fn digest(&self, rows: &mut Vec<Row>) {
        let plan = Plan { counting: Counting::UntilIdle, ..self.plan };
        let mut ringway = self.subscribed(rows);
        for algorithm in [Algorithm::Sha256, Algorithm::Md5] {
            if !self.wants(RowName::RegisterDigest) {
                break;
            }
            let what = format!(
                "REGISTER refresh with digest {} (401 and retry), {} bindings, SQLite relaxed",
                algorithm.name(),
                self.users_words()
            );
            eprintln!("{what}");
            if algorithm != Algorithm::Sha256 {
                let settings = Settings {
                    challenge: Some(algorithm),
                    ..RowName::RegisterDigest.settings(&self.environment, self.users)
                };
                ringway = ringway.and_then(|mut subject| {
                    self.environment.restart(&mut subject, &settings)?;
                    Ok(subject)
                });
            }
            let operation = Operation::RefreshChallenged;
            let results = measure(&mut [contestant("ringway", &mut ringway, operation)], plan);
            rows.extend(results.first().map(|ours| {
                let times = Times { floor: None, kamailio: None, ringway: ours };
                Row::times(&what, TimeTarget::us(12.0), &times)
            }));
        }
        drop(ringway);
        self.forget_database("subscribers.db");
    }

    /// Starts a server with all users imported and registered by digest; adds the row on its memory.
    pub(super) fn subscribed(&self, rows: &mut Vec<Row>) -> Result<Subject> {
        const BYTES_MAX: f64 = 700.0;
        let what = format!("memory for a binding, its subscriber and indexes, at {}", self.users_words());
        let target = "≤ 700 bytes";
        eprintln!("{what}");
        let settings = RowName::Memory.settings(&self.environment, self.users);
        let made = || -> Result<(Subject, f64, String)> {
            let mut empty = self.environment.ringway(&settings, Under::Itself)?;
            let before = empty.process.resident_bytes()?;
            empty.stop()?;
            let import = self.environment.import_users(&settings)?;
            let mut full = self.environment.ringway(&settings, Under::Itself)?;
            full.register_all(Operation::RefreshChallenged)?;
            // Waits until pending writes have left the memory.
            thread::sleep(Duration::from_secs(2));
            let after = full.process.resident_bytes()?;
            let bytes = after.saturating_sub(before) as f64 / f64::from(self.users);
            let note = format!(
                "memory: resident {:.1} MB empty, {:.1} MB with {} users imported and registered; importing them took \
                 {:.1} s",
                before as f64 / 1e6,
                after as f64 / 1e6,
                self.users_words(),
                import.as_secs_f64()
            );
            Ok((full, bytes, note))
        };
        let (row, subject) = match made() {
            Ok((subject, bytes, note)) => {
                let mut row = Row::single(&what, target, format!("{bytes:.0} bytes"), bytes <= BYTES_MAX);
                eprintln!("  {}; {note}", row.ringway);
                row.add_note(&note);
                (row, Ok(subject))
            }
            Err(error) => (Row::failed(&what, target, &error), Err(error)),
        };
        rows.extend(self.wants(RowName::Memory).then_some(row));
        subject
    }

    fn stateless(&self, rows: &mut Vec<Row>) {
        let what = format!("stateless call, {} bindings", self.users_words());
        eprintln!("{what}");
        let mut ringway = self.registered(RowName::CallStateless, self.users);
        let mut floor = self.floor(Kind::RelayStateless, Carrier::Udp);
        let results = measure(
            &mut [
                contestant("floor", &mut floor, Operation::Call),
                contestant("ringway", &mut ringway, Operation::Call),
            ],
            self.plan,
        );
        rows.push(row_of_two(&what, 30.0, &results));
    }

    fn redirect(&self, rows: &mut Vec<Row>) {
        let what = format!("redirect: INVITE, 302 and its ACK, over UDP, {} bindings", self.users_words());
        let mut ringway = self.registered(RowName::Redirect, self.users);
        rows.push(self.refusal(&what, &mut ringway, Operation::Redirect));
    }

    fn refusal(&self, what: &str, ringway: &mut Result<Subject>, operation: Operation) -> Row {
        eprintln!("{what}");
        // The floor answers every INVITE with 404.
        let mut floor = self.floor(Kind::Echo, Carrier::Udp);
        let results = measure(
            &mut [
                contestant("floor", &mut floor, Operation::NotFound),
                contestant("ringway", ringway, operation),
            ],
            self.plan,
        );
        row_of_two(what, 6.0, &results)
    }

    /// Starts the row's Ringway and registers all users.
    pub(super) fn registered(&self, name: RowName, users: u32) -> Result<Subject> {
        let settings = name.settings(&self.environment, users);
        let mut subject = self.environment.ringway(&settings, Under::Itself)?.over(name.carrier());
        subject.register_all(Operation::Refresh)?;
        Ok(subject)
    }

    /// Starts a floor and registers its users.
    fn floor(&self, kind: Kind, carrier: Carrier) -> Result<Subject> {
        let mut subject = self.environment.floor(kind, self.users_few)?.over(carrier);
        subject.register_all(Operation::Refresh)?;
        Ok(subject)
    }

    /// Starts Kamailio, if installed, and registers all users.
    fn kamailio(&self) -> Option<Result<Subject>> {
        let program = self.environment.kamailio.as_ref()?;
        let settings = Settings::open(self.users, Routing::Stateful);
        Some(self.environment.kamailio(program, &settings, Carrier::Udp).and_then(|mut subject| {
            subject.register_all(Operation::Refresh)?;
            Ok(subject)
        }))
    }

    fn compare(
        &self,
        floor: Kind,
        operation: Operation,
        ringway: &mut Result<Subject>,
        few: Option<&mut Result<Subject>>,
        kamailio: Option<&mut Result<Subject>>,
    ) -> Comparison {
        let mut floor = self.floor(floor, Carrier::Udp);
        let (has_few, has_kamailio) = (few.is_some(), kamailio.is_some());
        let mut contestants =
            vec![contestant("floor", &mut floor, operation), contestant("ringway", ringway, operation)];
        contestants.extend(few.map(|subject| contestant("few users", subject, operation)));
        contestants.extend(kamailio.map(|subject| contestant("kamailio", subject, operation)));
        let mut results = measure(&mut contestants, self.plan).into_iter();
        let mut next = || results.next().unwrap_or_else(|| Err(anyhow!("not measured")));
        Comparison {
            floor: next(),
            ringway: next(),
            few: has_few.then(&mut next),
            kamailio: has_kamailio.then(&mut next),
        }
    }

    /// "1 M", "10 k" or the number.
    fn users_words(&self) -> String {
        words(self.users)
    }

    /// Deletes the database, to free disk space for the next row.
    pub(super) fn forget_database(&self, name: &str) {
        let Ok(entries) = fs::read_dir(&self.environment.folder) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(name) {
                // The folder is deleted at the end in any case.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Result of a comparison.
struct Comparison {
    floor: Result<Readings>,
    ringway: Result<Readings>,
    few: Option<Result<Readings>>,
    kamailio: Option<Result<Readings>>,
}

impl Comparison {
    fn times(&self) -> Times<'_> {
        Times { floor: Some(&self.floor), kamailio: self.kamailio.as_ref(), ringway: &self.ringway }
    }

    /// Ratio of the cost of an operation among many users to that among few.
    fn factor(&self) -> Result<f64> {
        let many = self.ringway.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        let few =
            self.few.as_ref().context("not measured")?.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        Ok(many.us() / few.us())
    }
}

fn contestant<'a>(
    name: &'static str,
    subject: &'a mut Result<Subject>,
    operation: Operation,
) -> Contestant<'a> {
    Contestant { name, subject, operation }
}

/// A row with floor and Ringway.
fn row_of_two(what: &str, us_max: f64, results: &[Result<Readings>]) -> Row {
    match results {
        [floor, ours] => {
            let times = Times { floor: Some(floor), kamailio: None, ringway: ours };
            Row::times(what, TimeTarget::us(us_max), &times)
        }
        _ => Row::failed(what, &TimeTarget::us(us_max).words(), &anyhow!("not measured")),
    }
}

/// Number of users as written in the table.
fn words(users: u32) -> String {
    match users {
        1_000_000.. if users.is_multiple_of(1_000_000) => format!("{} M", users / 1_000_000),
        1000.. if users.is_multiple_of(1000) => format!("{} k", users / 1000),
        _ => users.to_string(),
    }
}

//! `cargo xtask bench databases`: users of PostgreSQL and MariaDB in a running server.
//!
//! Does: adds a million users to a database while its server runs and users register; measures the time until the server has all
//! of them, and the delay of the REGISTERs meanwhile; counts the instructions of a REGISTER with digest beside a store of SQLite; compares the REGISTERs
//! a second with those of a server that reads each password from the database.
//!
//! Server, database and phones are in network namespaces of their own.
//!
//! Does not: measure a database on another machine.

use super::instructions::total_of;
use super::machines::Machines;
use super::report::{Row, Verdict, add_rows, add_spaced_notes, ensure_met};
use super::{environment, publish};
use crate::interop::Stage;
use crate::interop::database::{Database, Engine};
use anyhow::{Context, Result, bail, ensure};
use ringway_lab::load::{Delay, Flow, Plan, Session, Side, Statistics, Users, Window};
use ringway_lab::machine;
use ringway_lab::operation::Operation;
use ringway_lab::process::Process;
use ringway_lab::server::DOMAIN;
use ringway_lab::server::PASSWORD;
use ringway_lab::server::Under;
use ringway_lab::subject::Environment;
use ringway_test_support::eventually::retry_often;
use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Measures the users of a database in a running server: the time of a read of all, and REGISTERs meanwhile.
///
/// About five minutes. Needs root, for network namespaces.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Users of the database
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(30_000..=9_000_000))]
    users: u32,
    /// Write the table into BENCHMARKS.md
    #[arg(long)]
    write: bool,
}

/// Figures of one database.
struct Reading {
    /// Time from the end of the transaction that added the users until the server has them.
    seen_in: Duration,
    /// 99th percentile of the delay of a REGISTER before it, and meanwhile.
    idle: Duration,
    meanwhile: Duration,
}

/// Machines of the server and the database, and the programs on them.
struct Site<'e> {
    environment: &'e Environment,
    machines: Machines,
}

/// A server whose users are in a database.
struct Subject<'s> {
    process: Process,
    configuration: PathBuf,
    site: &'s Site<'s>,
}

/// Runs the command.
///
/// # Errors
/// A target was missed, or a measurement failed.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let load = machine::load_average();
    eprintln!("{}; load average {load}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path());
    let site = Site { environment: &environment, machines: Machines::make(2)? };
    let rows = site.machines.at_phones(|| Ok(all_rows(&site, args.users)))?;
    for row in &rows {
        eprintln!("{}: {} (must reach {}) {}", row.what, row.ringway, row.target, row.note);
    }
    publish(workspace, HEADING, &render(&rows, [&load, &machine::load_average()]), args.write)?;
    ensure_met(&rows)
}

fn all_rows(site: &Site<'_>, users: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    for (engine, name) in ENGINES {
        let of_engine = match read_all(site, engine, users) {
            Ok(reading) => rows_of(name, users, &reading),
            Err(error) => vec![Row::failed(name, "", &error)],
        };
        rows.extend(of_engine);
    }
    rows.push(digest_row(site));
    rows.extend(ENGINES.map(|(engine, name)| lookup_row(site, engine, name)));
    rows
}

/// Adds users to the database of a server that runs, while the first users register.
fn read_all(site: &Site<'_>, engine: Engine, users: u32) -> Result<Reading> {
    let database = start(site, engine)?;
    let subject = Subject::start(site, engine.name(), (&database.whole_url(), ""), Under::Itself)?;
    database.execute(&add(engine, 0, FIRST_USERS))?;
    subject.wait_for(FIRST_USERS)?;
    let session = subject.session()?;
    let (statistics, session) = session.start(RATE, IDLE)?.finish_session()?;
    let idle = p99(&statistics).context("no REGISTER before the read succeeded")?;
    database.execute(&add(engine, FIRST_USERS, users))?;
    let begun = Instant::now();
    let running = session.start(RATE, READ_MAX)?;
    let seen = subject.wait_for(users);
    let seen_in = begun.elapsed();
    running.stop();
    let statistics = running.finish()?;
    seen?;
    let (ended, done) = (statistics.ended(), statistics.successes());
    ensure!(done * 100 >= ended * 99, "{done} of {ended} REGISTERs succeeded during the read");
    let meanwhile = p99(&statistics).context("no REGISTER during the read succeeded")?;
    Ok(Reading { seen_in, idle, meanwhile })
}

fn start(site: &Site<'_>, engine: Engine) -> Result<Database> {
    let folder = site.environment.folder.join(format!("database-{}", engine.name()));
    fs::create_dir_all(&folder)?;
    let addresses = [DATABASE, SERVER].map(Machines::address);
    site.machines.at(DATABASE, || Database::start_at(&Stage::outside(folder), engine, addresses))
}

fn p99(statistics: &Statistics) -> Option<Duration> {
    statistics.percentile(Delay::Response, 99.0)
}

fn rows_of(name: &str, users: u32, reading: &Reading) -> Vec<Row> {
    let Reading { seen_in, idle, meanwhile } = reading;
    let times = meanwhile.as_secs_f64() / idle.as_secs_f64().max(f64::MIN_POSITIVE);
    vec![
        Row::single(
            &format!("{users} users added to {name}: in the running server after"),
            &format!("≤ {} s", SEEN_MAX.as_secs()),
            format!("{:.1} s", seen_in.as_secs_f64()),
            *seen_in <= SEEN_MAX,
        ),
        Row::single(
            &format!("REGISTER with digest meanwhile, 99th percentile, {name}"),
            &format!("< {TIMES_MAX} × idle"),
            format!(
                "{:.2} ms, {times:.2} × ({:.2} ms idle)",
                meanwhile.as_secs_f64() * 1e3,
                idle.as_secs_f64() * 1e3
            ),
            times < TIMES_MAX,
        ),
    ]
}

/// Instructions of a REGISTER with digest, from a store of SQLite and from PostgreSQL.
fn digest_row(site: &Site<'_>) -> Row {
    let what = "instructions of a REGISTER with digest: SQLite, PostgreSQL";
    let counted = digest_instructions(site);
    match counted {
        Ok([sqlite, postgres]) => {
            let percent = (postgres / sqlite - 1.0) * 100.0;
            let figure = format!("{sqlite:.0}, {postgres:.0}: {percent:+.1} %");
            Row::single(what, &format!("≤ {PERCENT_MAX} % apart"), figure, percent.abs() <= PERCENT_MAX)
        }
        Err(error) => Row::failed(what, "", &error),
    }
}

fn digest_instructions(site: &Site<'_>) -> Result<[f64; 2]> {
    let environment = site.environment;
    let list = environment.folder.join("users.csv");
    ringway_lab::server::write_users(&list, FIRST_USERS)?;
    let file = environment.folder.join("own.db");
    let own = format!("sqlite://{}", file.display());
    let configuration = Subject::configure(site, "import", (&own, ""))?;
    environment.command(&configuration, &["user", "import", &list.to_string_lossy()])?;
    let database = start(site, Engine::PostgreSql)?;
    // It makes the tables.
    let mut first = Subject::start(site, "first", (&database.whole_url(), ""), Under::Itself)?;
    database.execute(&add(Engine::PostgreSql, 0, FIRST_USERS))?;
    first.wait_for(FIRST_USERS)?;
    first.process.stop()?;
    Ok([slope(site, "sqlite", &own)?, slope(site, "first", &database.whole_url())?])
}

/// Difference of two runs, in which the start and the stop are the same.
fn slope(site: &Site<'_>, name: &str, url: &str) -> Result<f64> {
    let mut counts = [0; 2];
    for (seconds, count) in [COUNTED_S, 4 * COUNTED_S].into_iter().zip(&mut counts) {
        let file = site.environment.folder.join(format!("callgrind.{name}.{seconds}.out"));
        let mut subject = Subject::start(site, name, (url, ""), Under::Callgrind(&file))?;
        subject.wait_for(FIRST_USERS)?;
        let running = subject.session()?.start(COUNTED_RATE, Duration::from_secs(seconds.into()))?;
        let statistics = running.finish()?;
        let (offered, done) = (u64::from(seconds) * COUNTED_RATE as u64, statistics.successes());
        ensure!(done == offered, "{done} of {offered} REGISTERs succeeded");
        subject.process.stop()?;
        *count = total_of(&file)?;
    }
    Ok(counts[1].saturating_sub(counts[0]) as f64 / (f64::from(3 * COUNTED_S) * COUNTED_RATE))
}

/// REGISTERs a second of a saturated server with the users in memory, and with a lookup in the database for each.
fn lookup_row(site: &Site<'_>, engine: Engine, name: &str) -> Row {
    let what = format!("REGISTER with digest: users in memory, a lookup for each in {name}");
    let rates = || -> Result<[f64; 2]> {
        let database = start(site, engine)?;
        let url = database.whole_url();
        let mut rates = [0.0; 2];
        for ((kind, keys), rate) in [("memory", ""), ("lookup", LOOKUP)].into_iter().zip(&mut rates) {
            let name = format!("{}-{kind}", engine.name());
            let subject = Subject::start(site, &name, (&url, keys), Under::Itself)?;
            if kind == "memory" {
                // It made the tables.
                database.execute(&add(engine, 0, FIRST_USERS))?;
            }
            subject.wait_for(FIRST_USERS)?;
            let window = Window { size: OPEN_MAX, length: SATURATED, attempts: u64::MAX };
            let scenario = Operation::RefreshChallenged.scenario()?;
            let statistics = subject.session()?.start_window(Side::Callers, &scenario, window)?.finish()?;
            if let Some(loss) = statistics.target_loss() {
                bail!("{kind}: {loss}");
            }
            let (ended, done) = (statistics.ended(), statistics.successes());
            ensure!(done * 100 >= ended * 99, "{done} of {ended} REGISTERs succeeded, {kind}");
            *rate = done as f64 / SATURATED.as_secs_f64();
        }
        Ok(rates)
    };
    match rates() {
        Ok([memory, lookup]) => {
            let times = memory / lookup.max(f64::MIN_POSITIVE);
            let figure = format!("{memory:.0}/s, {lookup:.0}/s: {times:.1} ×");
            Row { verdict: Verdict::Compared, ..Row::single(&what, "", figure, true) }
        }
        Err(error) => Row::failed(&what, "", &error),
    }
}

/// Statement that adds the users from number `first` to the one before `end`, in one transaction.
fn add(engine: Engine, first: u32, end: u32) -> String {
    let columns = "INSERT INTO ringway_subscriber (domain, name, realm, ha1_md5, ha1_sha256)";
    let last = end - 1;
    match engine {
        Engine::MariaDb => format!(
            "{columns} SELECT '{DOMAIN}', n, '{DOMAIN}', md5(concat(n, ':{DOMAIN}:{PASSWORD}')), \
             sha2(concat(n, ':{DOMAIN}:{PASSWORD}'), 256) \
             FROM (SELECT concat('u', lpad(seq, 7, '0')) AS n FROM seq_{first}_to_{last}) s;"
        ),
        Engine::PostgreSql | Engine::Sqlite => format!(
            "{columns} SELECT '{DOMAIN}', n, '{DOMAIN}', md5(n || ':{DOMAIN}:{PASSWORD}'), \
             encode(sha256(convert_to(n || ':{DOMAIN}:{PASSWORD}', 'UTF8')), 'hex') \
             FROM (SELECT 'u' || lpad(i::text, 7, '0') AS n FROM generate_series({first}, {last}) i) s;"
        ),
    }
}

impl<'s> Subject<'s> {
    /// Starts a server of a store, its URL and further keys.
    fn start(site: &'s Site<'s>, name: &str, store: (&str, &str), under: Under<'_>) -> Result<Self> {
        let configuration = Self::configure(site, name, store)?;
        let process = site.machines.at(SERVER, || site.environment.serve(&configuration, under))?;
        Ok(Self { process, configuration, site })
    }

    fn configure(site: &Site<'_>, name: &str, (url, keys): (&str, &str)) -> Result<PathBuf> {
        let folder = &site.environment.folder;
        let configuration = folder.join(format!("{name}.toml"));
        let copy = match url.starts_with("sqlite:") {
            true => String::new(),
            false => format!("copy = \"{}\"\ntls = \"none\"\n", folder.join(format!("{name}.db")).display()),
        };
        let text = format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:{ADDRESS}\"]\nworkers = 1\n[store]\nurl = \"{url}\"\n{copy}{keys}\
             durability = \"relaxed\"\n[auth]\nalgorithms = [\"MD5\"]\n[limits]\nper_source_rate = 0\n[admin]\n\
             listen = \"127.0.0.1:8080\"\n[log]\nlevel = \"warn\"\n",
        );
        fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
        Ok(configuration)
    }

    /// Load of REGISTERs of the first users.
    fn session(&self) -> Result<Session> {
        let users = || Users::by_rule("u", 7, 0, FIRST_USERS, PASSWORD);
        let plan = Plan {
            domain: DOMAIN.to_owned(),
            register_window: Some(32),
            allowed_hosts: self.site.machines.addresses(),
            ..Plan::new(ADDRESS.into(), Flow::Update, users()?, users()?)
        };
        Session::open(&plan)
    }

    /// Waits until the server has this number of users.
    fn wait_for(&self, users: u32) -> Result<()> {
        let Self { configuration, site, .. } = self;
        let show = || site.environment.command(configuration, &["show", "stats", "--json"]);
        retry_often(READ_MAX, LOOK, || {
            let shown: serde_json::Value = serde_json::from_slice(&site.machines.at(SERVER, show)?)?;
            let found = shown["subscribers"].as_u64().context("`ringway show stats` has no subscribers")?;
            ensure!(found == u64::from(users), "{found} of {users} users after {} s", READ_MAX.as_secs());
            Ok(())
        })
    }
}

fn render(rows: &[Row], load: [&str; 2]) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\
         Written by `cargo xtask {}`: a transaction adds users to a database on this machine, while its server runs and {RATE} \
         REGISTERs a second with digest come from {FIRST_USERS} of its users. Server, database and phones are in network namespaces of \
         their own, joined by a bridge; no TLS.\n\n\
         - one worker; the server with all its threads on one processor, the database and the generator on the other.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | what | must reach | ringway | |\n|---|---|---|---|\n",
        command.join(" "),
        machine::description(),
        load[0],
        load[1],
    );
    add_rows(&mut text, rows, Verdict::word);
    add_spaced_notes(&mut text, rows);
    text
}

const HEADING: &str = "## Users of a database\n";
/// Machines.
const SERVER: usize = 0;
const DATABASE: usize = 1;
/// Address of the server, whose machine has no other one.
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Machines::address(SERVER), 5060);
const ENGINES: [(Engine, &str); 2] = [(Engine::PostgreSql, "PostgreSQL"), (Engine::MariaDb, "MariaDB")];
/// Users that the database has at first, who register.
const FIRST_USERS: u32 = 1000;
/// REGISTERs a second.
const RATE: f64 = 200.0;
/// Time for which they are measured before the read.
const IDLE: Duration = Duration::from_secs(10);
/// Time after which a read is given up.
const READ_MAX: Duration = Duration::from_secs(120);
/// Maximum time until the server has the users.
const SEEN_MAX: Duration = Duration::from_secs(15);
/// Maximum ratio of the delays of REGISTERs during and before the read.
const TIMES_MAX: f64 = 2.0;
/// Key of a server that reads each password from the database, and the time for which it is saturated.
const LOOKUP: &str = "danger_lookup = \"per-request\"\n";
const SATURATED: Duration = Duration::from_secs(5);
/// Its open REGISTERs: enough for one worker, and few enough that none waits until it is sent again.
const OPEN_MAX: u32 = 8;
/// Interval at which the number of users is read.
const LOOK: Duration = Duration::from_millis(200);
/// REGISTERs a second while instructions are counted, and the seconds of the shorter run.
const COUNTED_RATE: f64 = 100.0;
const COUNTED_S: u32 = 5;
/// Difference that counts as none: the follower's own looks at the database are counted too.
const PERCENT_MAX: f64 = 3.0;

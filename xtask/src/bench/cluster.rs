//! `cargo xtask bench cluster`: servers that share their registrations in Redis.
//!
//! Does: starts Debian's redis-server and nodes of Ringway on this machine; measures the CPU time of a REGISTER beside a server alone,
//! the time until another node sees it, a start with many registrations, an outage of the store under load, the loss of a node, and
//! the cost of a REGISTER in three nodes beside one.
//!
//! Does not: measure a store on another machine, whose network would add to each time.

use super::report::{Row, Verdict};
use super::{environment, publish};
use crate::interop::Stage;
use crate::interop::cluster::{Redis, Shared};
use anyhow::{Context, Result, bail, ensure};
use ringway_lab::digest::PASSWORD;
use ringway_lab::load::{ConnectionUse, Flow, Plan, Run, Session, Statistics, Transport, Users};
use ringway_lab::machine;
use ringway_lab::process::Process;
use ringway_lab::server::{Under, free_port};
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use ringway_lab::template::DOMAIN;

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Measures servers that share their registrations in Redis.
///
/// About ten minutes.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Registrations in the store when a node starts
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=9_000_000))]
    bindings: u32,
    /// Seconds without the store under load
    #[arg(long, default_value_t = 60)]
    outage_s: u64,
    /// Only measurements whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// A running server.
struct Node {
    process: Process,
    configuration: PathBuf,
    address: SocketAddr,
}

/// CPU time of REGISTERs, in nanoseconds for each.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Of the workers.
    packets: f64,
    /// Of the threads that write to the store and read from it.
    store: f64,
    /// Of all threads.
    all: f64,
}

/// Runs the command.
///
/// # Errors
/// A target was missed, or a measurement failed.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let load = machine::load_average();
    eprintln!("{}; load average {load}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path())?;
    let mut rows = Vec::new();
    let mut add = |what: &str, measure: &dyn Fn() -> Result<Vec<Row>>| {
        if args.only.as_ref().is_some_and(|only| !what.contains(only.as_str())) {
            return;
        }
        let measured = measure().unwrap_or_else(|error| vec![Row::failed(what, "", &error)]);
        for row in &measured {
            eprintln!("{}: {} (must reach {}) {}", row.what, row.ringway, row.target, row.note);
        }
        rows.extend(measured);
    };
    for rate in RATES {
        add("CPU of a REGISTER", &|| costs(&environment, rate));
    }
    add("REGISTER at A seen at B", &|| visible(&environment));
    add("call over a link", &|| call_over_link(&environment));
    add("store away", &|| outage(&environment, Duration::from_secs(args.outage_s)));
    add("node lost", &|| node_lost(&environment));
    add("start", &|| start(&environment, args.bindings));
    publish(workspace, HEADING, &render(&rows, [&load, &machine::load_average()]), args.write)?;
    match rows.iter().filter(|row| !matches!(row.verdict, Verdict::Met | Verdict::Compared)).count() {
        0 => Ok(()),
        missed => bail!("{missed} of {} rows were missed or could not be measured", rows.len()),
    }
}

/// A redis-server with an append-only file.
fn redis(environment: &Environment, name: &str) -> Result<Redis> {
    Redis::single(&stage(environment, name)?)
}

fn stage(environment: &Environment, name: &str) -> Result<Stage> {
    Stage::outside(environment.folder.clone()).within(name)
}

/// CPU time of a REGISTER: alone, as one node, as one of three nodes that all have the same load.
fn costs(environment: &Environment, rate: f64) -> Result<Vec<Row>> {
    let mut rounds = [const { Vec::new() }; 3];
    for round in 0..ROUNDS {
        let store = redis(environment, &format!("cost-{rate}-{round}"))?;
        let alone = Node::start(environment, "alone", None)?;
        rounds[0].push(cost(&[&alone], rate)?);
        drop(alone);
        let one = Node::start(environment, "a", Some(&store))?;
        rounds[1].push(cost(&[&one], rate)?);
        let others = ["b", "c"].map(|name| Node::start(environment, name, Some(&store)));
        let [second, third] = others;
        let (second, third) = (second?, third?);
        for node in [&one, &second, &third] {
            node.wait_for("location_nodes_up", 2.0)?;
        }
        rounds[2].push(cost(&[&one, &second, &third], rate)?);
    }
    let [alone, one, three] = rounds.map(|costs| Cost {
        packets: median(costs.iter().map(|cost| cost.packets)),
        store: median(costs.iter().map(|cost| cost.store)),
        all: median(costs.iter().map(|cost| cost.all)),
    });
    eprintln!("alone {alone:.0?}, one {one:.0?}, three {three:.0?}");
    let us = |ns: f64| ns / 1e3;
    let row = |what: &str, target: f64, with: f64, without: f64| {
        let times = with / without;
        let figure = format!("{times:.2} × ({:.1} against {:.1} µs)", us(with), us(without));
        Row::single(
            &format!("{what}; {rate} a second at each node"),
            &format!("≤ {target} ×"),
            figure,
            times <= target,
        )
    };
    Ok(vec![
        row(
            "CPU of a REGISTER in a node against a server alone, packet threads",
            1.3,
            one.packets,
            alone.packets,
        ),
        row("the same, all threads, Redis apart", 1.6, one.all, alone.all),
        row(
            "CPU of a REGISTER in three nodes against one node, all threads of all nodes",
            1.1,
            three.all,
            one.all,
        ),
    ])
}

/// Refreshes registrations at all nodes, each with the same rate, and returns the CPU time of one.
fn cost(nodes: &[&Node], rate: f64) -> Result<Cost> {
    let mut sessions = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        sessions.push(node.session(Flow::Update, index as u32 * USERS, USERS)?);
    }
    spent(nodes, || sessions.into_iter().map(|session| session.start(rate, MEASURED)).collect())
}

/// CPU time that nodes spend for an attempt of a load.
fn spent(nodes: &[&Node], load: impl FnOnce() -> Result<Vec<Run>>) -> Result<Cost> {
    thread::sleep(Duration::from_secs(1));
    let before = nodes.iter().map(|node| node.cpu_ns()).collect::<Result<Vec<_>>>()?;
    let mut done = 0;
    for run in load()? {
        let statistics = run.finish()?;
        let (ended, good) = (statistics.ended(), statistics.successes());
        ensure!(good * 1000 >= ended * 999, "{good} of {ended} attempts succeeded");
        done += good;
    }
    // Updates that wait are part of their REGISTERs.
    thread::sleep(Duration::from_millis(500));
    let after = nodes.iter().map(|node| node.cpu_ns()).collect::<Result<Vec<_>>>()?;
    let of = |pick: fn(&Cost) -> f64| {
        let spent: f64 = after.iter().zip(&before).map(|(after, before)| pick(after) - pick(before)).sum();
        spent / done as f64
    };
    Ok(Cost { packets: of(|cost| cost.packets), store: of(|cost| cost.store), all: of(|cost| cost.all) })
}

/// Time from the 200 to a REGISTER at one node until a request through another node reaches the phone.
fn visible(environment: &Environment) -> Result<Vec<Row>> {
    let store = redis(environment, "visible")?;
    let (first, second) =
        (Node::start(environment, "a", Some(&store))?, Node::start(environment, "b", Some(&store))?);
    second.wait_for("location_warm", 1.0)?;
    first.wait_for("location_warm", 1.0)?;
    let phone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let caller = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    phone.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut times = Vec::new();
    for number in 0..SEEN {
        let contact = phone.local_addr()?;
        let register = format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {contact};branch=z9hG4bKr{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:s{number}@{DOMAIN}>;tag=1\r\nTo: <sip:s{number}@{DOMAIN}>\r\nCall-ID: r{number}\r\nCSeq: 1 REGISTER\r\n\
             Contact: <sip:s{number}@{contact}>\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n"
        );
        phone.send_to(register.as_bytes(), first.address)?;
        let response = loop {
            let message = receive(&phone).context("no response to REGISTER")?;
            // OPTIONS of the user before can still come.
            if !message.starts_with("OPTIONS ") {
                break message;
            }
        };
        ensure!(response.starts_with("SIP/2.0 200"), "REGISTER failed: {response}");
        let begun = Instant::now();
        phone.set_nonblocking(true)?;
        let mut attempt = 0;
        // OPTIONS until one arrives at the phone.
        while !receive(&phone).is_ok_and(|message| message.starts_with(&format!("OPTIONS sip:s{number}@"))) {
            ensure!(
                begun.elapsed() < Duration::from_secs(2),
                "user {number} was not seen at the second node"
            );
            let from = caller.local_addr()?;
            let options = format!(
                "OPTIONS sip:s{number}@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKo{number}x{attempt}\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:x@{DOMAIN}>;tag=1\r\nTo: <sip:s{number}@{DOMAIN}>\r\nCall-ID: o{number}x{attempt}\r\n\
                 CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
            );
            caller.send_to(options.as_bytes(), second.address)?;
            attempt += 1;
            thread::sleep(Duration::from_micros(500));
        }
        times.push(begun.elapsed());
        phone.set_nonblocking(false)?;
    }
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    let (median, p99) = (at(0.5).as_secs_f64() * 1e3, at(0.99).as_secs_f64() * 1e3);
    Ok(vec![Row::single(
        &format!("REGISTER at A visible for a request at B, 99th percentile of {SEEN}"),
        "≤ 20 ms",
        format!("{p99:.1} ms (median {median:.1} ms)"),
        p99 <= 20.0,
    )])
}

/// Receives a message; a request is answered with 200, so that it is not repeated.
fn receive(phone: &UdpSocket) -> Result<String> {
    let mut bytes = [0; 4096];
    let (len, from) = phone.recv_from(&mut bytes)?;
    let message = String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned();
    if !message.starts_with("SIP/2.0 ") {
        let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
        let mut response = "SIP/2.0 200 OK\r\n".to_owned();
        for line in message.lines().filter(|line| copied.iter().any(|name| line.starts_with(name))) {
            let _ = write!(response, "{line}\r\n");
        }
        phone.send_to(format!("{response}Content-Length: 0\r\n\r\n").as_bytes(), from)?;
    }
    Ok(message)
}

/// CPU time of a call to a phone with a connection to another node beside one at the same node, of both nodes.
fn call_over_link(environment: &Environment) -> Result<Vec<Row>> {
    let store = redis(environment, "link")?;
    let (first, second) =
        (Node::start(environment, "a", Some(&store))?, Node::start(environment, "b", Some(&store))?);
    for node in [&first, &second] {
        node.wait_for("location_nodes_up", 1.0)?;
        node.wait_for("location_warm", 1.0)?;
    }
    let nodes = [&first, &second];
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u32 {
        for (figures, called_at, part) in [(&mut same, &first, 0), (&mut other, &second, 1)] {
            let users = |first| Users::by_rule("u", 7, first, LINK_USERS, PASSWORD);
            let number = (2 * round + part) * 2 * LINK_USERS;
            let plan = Plan {
                domain: DOMAIN.to_owned(),
                register_window: Some(64),
                transport: Transport::Tcp,
                connections: ConnectionUse::PerUser,
                peer_target: Some(called_at.address),
                ..Plan::new(first.address, Flow::Call, users(number)?, users(number + LINK_USERS)?)
            };
            let session = Session::open(&plan)?;
            first.wait_for("location_waiting", 0.0)?;
            second.wait_for("location_waiting", 0.0)?;
            figures.push(spent(&nodes, || Ok(vec![session.start(LINK_CALLS, MEASURED)?]))?.all);
        }
    }
    let crossed = first.stat("forwarded_to_nodes")?;
    ensure!(crossed > 0.0, "no call went over the link");
    let [same, other] = [same, other].map(|figures| median(figures.into_iter()));
    let times = other / same;
    Ok(vec![Row::single(
        "CPU of a call through A to a phone with a connection to B against both at A, all threads of both nodes, TCP",
        "≤ 1.7 ×",
        format!("{times:.2} × ({:.0} against {:.0} µs)", other / 1e3, same / 1e3),
        times <= 1.7,
    )])
}

/// The store is killed for `outage` while users call one another and register.
fn outage(environment: &Environment, outage: Duration) -> Result<Vec<Row>> {
    let mut store = redis(environment, "outage")?;
    let node = Node::start(environment, "a", Some(&store))?;
    let other = Node::start(environment, "b", Some(&store))?;
    other.wait_for("location_warm", 1.0)?;
    let length = outage + Duration::from_secs(10);
    let calls = node.session(Flow::Call, 0, USERS)?.start(CALLS, length)?;
    let registers = other.session(Flow::Update, 2 * USERS, USERS)?.start(CALLS, length)?;
    thread::sleep(Duration::from_secs(5));
    store.kill_first();
    thread::sleep(outage);
    store.start_first_again()?;
    let (calls, registers) = (calls.finish()?, registers.finish()?);
    let failed = |statistics: &Statistics| statistics.ended() - statistics.successes();
    let figure = format!(
        "{} failed of {} calls, {} of {} REGISTERs",
        failed(&calls),
        calls.ended(),
        failed(&registers),
        registers.ended()
    );
    let met = failed(&calls) == 0 && failed(&registers) == 0;
    Ok(vec![Row::single(
        &format!("store killed for {} s under load, relaxed", outage.as_secs()),
        "0 failed calls; REGISTER gets 200",
        figure,
        met,
    )])
}

/// One of three nodes is killed under load: calls through the others go on, and its users are reachable again once they register
/// elsewhere.
fn node_lost(environment: &Environment) -> Result<Vec<Row>> {
    let store = redis(environment, "lost")?;
    let names = ["a", "b", "c"];
    let nodes = names.map(|name| Node::start(environment, name, Some(&store)));
    let [first, second, third] = nodes;
    let (first, second, third) = (first?, second?, third?);
    third.wait_for("location_nodes_up", 2.0)?;
    // Users of the node that is lost.
    drop(first.session(Flow::Update, 4 * USERS, USERS)?);
    third.wait_for("bindings", f64::from(USERS))?;
    let calls = second.session(Flow::Call, 0, USERS)?.start(CALLS, Duration::from_secs(15))?;
    thread::sleep(Duration::from_secs(3));
    first.kill()?;
    let begun = Instant::now();
    // The load generator's phones have other ports at their next node, as phones behind NAT do: each has two bindings then.
    let again = second.session(Flow::Update, 4 * USERS, USERS)?;
    third.wait_for("bindings", f64::from(USERS))?;
    let reachable = begun.elapsed();
    drop(again);
    let calls = calls.finish()?;
    let failed = calls.ended() - calls.successes();
    let seconds = reachable.as_secs_f64();
    Ok(vec![Row::single(
        "one of three nodes killed under load at another one",
        "0 failed calls there; its users seen ≤ 1 s after they register elsewhere",
        format!(
            "{failed} failed of {}; {USERS} users registered and seen after {seconds:.2} s",
            calls.ended()
        ),
        failed == 0 && seconds <= 1.0,
    )])
}

/// A node starts beside a store with many registrations.
fn start(environment: &Environment, bindings: u32) -> Result<Vec<Row>> {
    let store = redis(environment, "start")?;
    let first = Node::start(environment, "a", Some(&store))?;
    let begun = Instant::now();
    // More than this may wait at no time.
    for start in (0..bindings).step_by(FILLED as usize) {
        drop(first.session(Flow::Update, start, FILLED.min(bindings - start))?);
        first.wait_for("location_waiting", 0.0)?;
    }
    let written = f64::from(bindings) / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let second = Node::start(environment, "b", Some(&store))?;
    let serves = begun.elapsed().as_secs_f64();
    second.wait_for("location_warm", 1.0)?;
    let warm = begun.elapsed().as_secs_f64();
    let found = second.stat("bindings")?;
    ensure!(found >= f64::from(bindings), "{found} of {bindings} registrations were read");
    Ok(vec![
        Row::compared(
            "new registrations a second that one node and one redis-server take",
            format!("{written:.0}"),
        ),
        Row::single(
            &format!("{bindings} registrations in the store: node start until it serves"),
            "≤ 2 s",
            format!("{serves:.2} s"),
            serves <= 2.0,
        ),
        Row::single(
            "the same: until it has all of them",
            "≤ 30 s",
            format!("{warm:.1} s, {:.0} MB", second.process.resident_bytes()? as f64 / 1e6),
            warm <= 30.0,
        ),
    ])
}

impl Node {
    fn start(environment: &Environment, name: &str, store: Option<&Redis>) -> Result<Self> {
        let port = free_port()?;
        let configuration = environment.folder.join(format!("node-{name}-{port}.toml"));
        let shared = match store {
            None => String::new(),
            Some(store) => {
                let stage = stage(environment, "secret")?;
                Shared { store: "", url: store.url(0), name, port: free_port()? }.sections(&stage)?
            }
        };
        let database = environment.folder.join(format!("node-{name}-{port}.db"));
        let text = format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:127.0.0.1:{port}\", \"tcp:127.0.0.1:{port}\"]\nworkers = 1\n[store]\nurl = \"sqlite://{}\"\n\
             [auth]\nenabled = false\n[limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:{}\"\n[log]\nlevel = \"warn\"\n\
             {shared}",
            database.display(),
            free_port()?
        );
        fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
        let process = environment.serve(&configuration, Under::Itself)?;
        Ok(Self { process, configuration, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
    }

    /// Load of `count` users from number `first` on.
    fn session(&self, flow: Flow, first: u32, count: u32) -> Result<Session> {
        let users = |first| Users::by_rule("u", 7, first, count, PASSWORD);
        let plan = Plan {
            domain: DOMAIN.to_owned(),
            register_window: Some(64),
            ..Plan::new(self.address, flow, users(first)?, users(first + count)?)
        };
        Session::open(&plan)
    }

    fn kill(&self) -> Result<()> {
        kill(&self.process)
    }

    fn cpu_ns(&self) -> Result<Cost> {
        let mut cost = Cost::default();
        for pid in self.process.family()? {
            for (thread, times) in machine::thread_times(pid)? {
                let name = fs::read_to_string(format!("/proc/{}/task/{thread}/comm", pid.as_raw_nonzero()));
                cost.all += times.cpu_ns as f64;
                match name.unwrap_or_default() {
                    name if name.starts_with("worker") => cost.packets += times.cpu_ns as f64,
                    name if name.starts_with("location") => cost.store += times.cpu_ns as f64,
                    _ => {}
                }
            }
        }
        Ok(cost)
    }

    fn stat(&self, name: &str) -> Result<f64> {
        let text = fs::read_to_string(&self.configuration)?;
        let admin = text.split("[admin]\nlisten = \"").nth(1).and_then(|rest| rest.split('"').next());
        let admin: SocketAddr = admin.context("no address of the admin API")?.parse()?;
        let shown = read_stats(admin)?;
        shown[name].as_f64().with_context(|| format!("the server has no figure {name}"))
    }

    /// Waits until a figure has this value, or more if it is not 0.
    fn wait_for(&self, name: &str, value: f64) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let found = self.stat(name)?;
            if found == value || (value > 0.0 && found >= value) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "{name} is {found} instead of {value} after 120 s");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Figures of a server by its admin API, without a process for each reading.
fn read_stats(admin: SocketAddr) -> Result<serde_json::Value> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /api/stats HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.find('{').and_then(|at| answer.get(at..)).context("no figures")?;
    let end = body.rfind('}').context("no figures")?;
    serde_json::from_str(body.get(..=end).unwrap_or_default()).context("figures that are no JSON")
}

fn kill(process: &Process) -> Result<()> {
    for pid in process.family()? {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    }
    Ok(())
}

fn render(rows: &[Row], load: [&str; 2]) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\
         Written by `cargo xtask {}`: nodes and redis-server (append-only file, flushed each second) on this machine, one worker for each \
         node, no digest; {ROUNDS} rounds, medians; times of threads from schedstat.\n\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | what | must reach | ringway | |\n|---|---|---|---|\n",
        command.join(" "),
        machine::description(),
        load[0],
        load[1],
    );
    for row in rows {
        let _ = writeln!(text, "| {} | {} | {} | {} |", row.what, row.target, row.ringway, row.verdict);
    }
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        let _ = write!(text, "\n- {}\n", row.note);
    }
    text
}

const HEADING: &str = "## Several servers\n";
/// Users of a load.
const USERS: u32 = 1000;
/// REGISTERs a second at each node.
const RATES: [f64; 2] = [1_000.0, 4_000.0];
/// Users who register before their updates are waited for.
const FILLED: u32 = 100_000;
/// Callers, as many called users, and calls a second over a link.
const LINK_USERS: u32 = 200;
const LINK_CALLS: f64 = 200.0;
/// Calls a second, and REGISTERs beside them.
const CALLS: f64 = 50.0;
/// Time for which REGISTERs are measured.
const MEASURED: Duration = Duration::from_secs(10);
const ROUNDS: usize = 3;
/// Registrations whose arrival at another node is timed.
const SEEN: usize = 500;

//! Time until a registration at one node is seen at another one, and start of a node beside a store with many
//! registrations.

use super::super::machines::{Machines, Site};
use super::Row;
use super::node::Node;
use anyhow::{Context, Result, ensure};
use ringway_lab::load::Flow;
use ringway_lab::server::DOMAIN;
use std::fmt::Write as _;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

/// A phone of many users, and somebody who sends them requests.
pub(super) struct Probe {
    phone: UdpSocket,
    caller: UdpSocket,
}

impl Probe {
    pub(super) fn open() -> Result<Self> {
        let (phone, caller) =
            (UdpSocket::bind((Machines::PHONES, 0))?, UdpSocket::bind((Machines::PHONES, 0))?);
        phone.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { phone, caller })
    }

    /// Registers a user at a node.
    pub(super) fn register(&self, user: u32, node: &Node<'_>) -> Result<()> {
        let contact = self.phone.local_addr()?;
        let name = format!("r{}x{user}", contact.port());
        let register = format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {contact};branch=z9hG4bK{name}\r\nMax-Forwards: 70\r\n\
             From: <sip:s{user}@{DOMAIN}>;tag=1\r\nTo: <sip:s{user}@{DOMAIN}>\r\nCall-ID: {name}\r\nCSeq: 1 REGISTER\r\n\
             Contact: <sip:s{user}@{contact}>\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n"
        );
        self.phone.send_to(register.as_bytes(), node.address)?;
        let response = loop {
            let message = receive(&self.phone).context("no response to REGISTER")?;
            // OPTIONS of the user before can still come.
            if !message.starts_with("OPTIONS ") {
                break message;
            }
        };
        ensure!(response.starts_with("SIP/2.0 200"), "REGISTER failed: {response}");
        Ok(())
    }

    /// Time from now until a request through a node reaches the phone of a user.
    pub(super) fn reach(&self, user: u32, node: &Node<'_>) -> Result<Duration> {
        let begun = Instant::now();
        self.phone.set_nonblocking(true)?;
        let wanted = format!("OPTIONS sip:s{user}@");
        let from = self.caller.local_addr()?;
        let mut attempt = 0;
        while !receive(&self.phone).is_ok_and(|message| message.starts_with(&wanted)) {
            ensure!(begun.elapsed() < PATIENCE, "user {user} was not seen at the other node");
            let name = format!("o{}x{user}x{attempt}", from.port());
            let options = format!(
                "OPTIONS sip:s{user}@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{name}\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:x@{DOMAIN}>;tag=1\r\nTo: <sip:s{user}@{DOMAIN}>\r\nCall-ID: {name}\r\n\
                 CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
            );
            self.caller.send_to(options.as_bytes(), node.address)?;
            attempt += 1;
            // More of them would be a load of their own.
            thread::sleep(Duration::from_micros(500).max(begun.elapsed() / 32));
        }
        self.phone.set_nonblocking(false)?;
        Ok(begun.elapsed())
    }
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

/// Time from the 200 to a REGISTER at one node until a request through another node reaches the phone.
pub(super) fn at_another(site: &Site<'_>) -> Result<Vec<Row>> {
    let store = site.store()?;
    let [first, second] = Node::several(site, &store, [""; 2])?;
    let probe = Probe::open()?;
    let mut times = Vec::new();
    for user in 0..SEEN {
        probe.register(user, &first)?;
        times.push(probe.reach(user, &second)?);
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

/// Fills the store through one node, and starts another one.
pub(super) fn of_node(site: &Site<'_>, bindings: u32) -> Result<Vec<Row>> {
    let store = site.store()?;
    let [first] = Node::several(site, &store, [""])?;
    let begun = Instant::now();
    // More than this may wait at no time.
    for start in (0..bindings).step_by(FILLED as usize) {
        drop(first.session(Flow::Update, start, FILLED.min(bindings - start))?);
        first.wait_for("location_waiting", 0.0)?;
    }
    let written = f64::from(bindings) / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let second = Node::start(site, 1, Some(&store), "")?;
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
            format!("{warm:.1} s, {:.0} MB", second.resident_bytes()? as f64 / 1e6),
            warm <= 30.0,
        ),
    ])
}

/// Registrations whose arrival at another node is timed.
const SEEN: u32 = 500;
/// Time after which a response or a request is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Users who register before their updates are waited for.
const FILLED: u32 = 100_000;

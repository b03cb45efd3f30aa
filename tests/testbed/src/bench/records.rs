//! `cargo xtask bench records`: what call records and the capture of messages add to the server's CPU time.
//!
//! Does: runs the same calls through servers without both, with records in a file, and with a collector over TCP and over UDP that
//! drains on loopback, in turn; measures the kernel's floor of a datagram by sendmmsg; counts the instructions that records add.
//!
//! Does not: measure the disk or a collector.

use super::calls::{Player, instructions};
use super::report::{Row, Verdict, add_rows, add_spaced_notes, ensure_met, print_rows};
use super::{environment, publish};
use anyhow::{Context, Result};
use ringway_lab::machine;
use ringway_lab::server::Under;
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use ringway_linux::sys::{BATCH_MAX, SendBatch};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

/// Measures what call records and the capture of messages add to the CPU time of a call.
///
/// About three minutes.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Calls a second
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=2000))]
    rate: u32,
    /// Three rounds of a second
    #[arg(long)]
    quick: bool,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

/// Server of a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Plain,
    Records,
    HepTcp,
    HepUdp,
}

const SIDES: [Side; 4] = [Side::Plain, Side::Records, Side::HepTcp, Side::HepUdp];

/// Runs the command.
///
/// # Errors
/// A target was missed, or a measurement failed.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let load = machine::load_average();
    eprintln!("{}; load average {load}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path());
    let (rounds, seconds) = if args.quick { (3, 1) } else { (9, 3) };
    let mut players = Vec::new();
    for side in SIDES {
        players.push(start(&environment, side, args.rate * seconds, Under::Itself)?);
    }
    let (mut readings, mut floors) = ([const { Vec::new() }; 4], Vec::new());
    for round in 1..=rounds {
        for ((player, taken), side) in players.iter_mut().zip(&mut readings).zip(SIDES) {
            let us = player.reading(args.rate, seconds, FINISHING)?;
            eprintln!("  round {round} of {rounds}: {side:?} {us:.2} µs");
            taken.push(us);
        }
        floors.push(datagram_us()?);
    }
    let rows = rows(&environment, &readings, median(floors.into_iter()));
    print_rows(&rows);
    let text = render(&rows, args, [&load, &machine::load_average()], (rounds, seconds));
    publish(workspace, HEADING, &text, args.write)?;
    ensure_met(&rows)
}

fn rows(environment: &Environment, readings: &[Vec<f64>; 4], floor_us: f64) -> Vec<Row> {
    let [plain, records, tcp, udp] = readings;
    let alone = median(plain.iter().copied());
    let added = |with: &Vec<f64>| median(plain.iter().zip(with).map(|(plain, with)| with - plain));
    let by_call = added(records);
    let mut rows = vec![Row::single(
        "call records in a file, for a call",
        &format!("≤ {CALL_US_MAX} µs"),
        format!("{by_call:.2} µs ({alone:.1} without)"),
        by_call <= CALL_US_MAX,
    )];
    for (name, with) in [("TCP", tcp), ("UDP", udp)] {
        let by_message = added(with) / MESSAGES;
        rows.push(Row::single(
            &format!("capture over {name}, for a message"),
            &format!("≤ {MESSAGE_US_MAX} µs"),
            format!("{by_message:.2} µs"),
            by_message <= MESSAGE_US_MAX,
        ));
    }
    rows.push(Row::compared(
        "floor: a datagram of that size by sendmmsg to loopback",
        format!("{floor_us:.2} µs"),
    ));
    let counted = [Side::Plain, Side::Records, Side::HepTcp].map(|side| {
        instructions(environment, &format!("{side:?}"), FINISHING, |users, under| {
            Ok((start(environment, side, users, under)?, ()))
        })
    });
    rows.push(match counted {
        [Ok(plain), Ok(records), Ok(captured)] => Row::compared(
            "instructions for a call: without, records, capture over TCP",
            format!("{plain:.0}, {:+.0}, {:+.0}", records - plain, captured - plain),
        ),
        [Err(error), ..] | [_, Err(error), _] | [.., Err(error)] => Row::failed("instructions", "", &error),
    });
    rows
}

/// CPU time of this thread for one datagram of the length of a usual packet, sent in batches over loopback, in µs.
fn datagram_us() -> Result<f64> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = receiver.local_addr()?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    let drain = thread::spawn(move || while receiver.recv(&mut [0; 2048]).is_ok() {});
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(to)?;
    let packet = [b'x'; PACKET_BYTES];
    let mut batch = SendBatch::new(BATCH_MAX);
    let before = thread_cpu_ns()?;
    for _ in 0..FLOOR_BATCHES {
        let mut sending = batch.begin();
        while sending.push(to, &packet, 0) {}
        while sending.left() > 0 {
            sending.send(socket.as_fd())?;
        }
    }
    let used = thread_cpu_ns()?.saturating_sub(before);
    // It ends by its time limit; a panic in it would be a lost datagram.
    let _ = drain.join();
    Ok(used as f64 / 1000.0 / (FLOOR_BATCHES * BATCH_MAX) as f64)
}

fn thread_cpu_ns() -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("read schedstat")?;
    let used = text.split(' ').next().context("schedstat is empty")?;
    used.parse().context("schedstat has no number")
}

fn render(rows: &[Row], args: &Args, load: [&str; 2], (rounds, seconds): (u32, u32)) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\
         Written by `cargo xtask {}`: what call records and the capture for a HEP collector add to the server's CPU time.\n\n\
         - {} calls a second over UDP without digest, of {MESSAGES} messages in and out; one worker, alone on one processor, with \
         the threads for records and capture; medians of {rounds} rounds of {seconds} s, all servers in turn.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | what | must reach | adds | |\n|---|---|---|---|\n",
        command.join(" "),
        args.rate,
        machine::description(),
        load[0],
        load[1],
    );
    add_rows(&mut text, rows, Verdict::word_in_capitals);
    add_spaced_notes(&mut text, rows);
    text.push_str("\nInstructions are those that callgrind counts, without the kernel's.\n");
    text
}

/// Starts a server with what `side` records, and registers `users` users.
fn start(environment: &Environment, side: Side, users: u32, under: Under<'_>) -> Result<Player> {
    let section = match side {
        Side::Plain => String::new(),
        Side::Records => {
            let file = environment.folder.join("calls.jsonl");
            format!("[records]\nfile = \"{}\"\n", file.display())
        }
        Side::HepTcp => format!("[hep]\ncollector = \"tcp:{}\"\n", draining_stream()?),
        Side::HepUdp => format!("[hep]\ncollector = \"udp:{}\"\n", draining_socket()?),
    };
    Player::start(environment, &format!("{side:?}"), &section, users, under)
}

/// Address of a collector for TCP that reads and forgets, until this program ends.
fn draining_stream() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let mut room = vec![0; 1 << 18];
        if let Ok((mut stream, _)) = listener.accept() {
            while stream.read(&mut room).is_ok_and(|count| count > 0) {}
        }
    });
    Ok(address)
}

/// The same for UDP.
fn draining_socket() -> Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    thread::spawn(move || while socket.recv(&mut [0; 2048]).is_ok() {});
    Ok(address)
}

const HEADING: &str = "## Call records and capture\n";
/// Maximum CPU time that records add to a call, and the capture to a message.
const CALL_US_MAX: f64 = 3.0;
const MESSAGE_US_MAX: f64 = 1.0;
/// Messages of a call: INVITE, 180, 200, ACK, BYE, 200, each in and out, and the 100.
const MESSAGES: f64 = 13.0;
/// Length of a usual packet of the capture.
const PACKET_BYTES: usize = 700;
const FLOOR_BATCHES: usize = 500;
/// Time after the last call in which the server's CPU time still counts: records are written after 200 ms.
const FINISHING: Duration = Duration::from_millis(400);

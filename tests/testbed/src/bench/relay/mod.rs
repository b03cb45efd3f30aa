//! `cargo xtask bench relay`: CPU time of the server for a call whose media are relayed, beside one without a relay.
//!
//! Does: runs the same calls through servers without a relay, with rtpengine, and with an answerer of its protocol that costs
//! next to nothing, in turn with the floor: the same datagrams in an epoll loop; counts the instructions that a relay adds;
//! prints the differences or writes them into BENCHMARKS.md.
//!
//! Does not: measure rtpengine, or the media.

mod control;

use super::calls::{Player, instructions};
use super::report::{Row, Verdict, add_rows, add_spaced_notes, ensure_met, print_rows};
use super::{environment, publish};
use anyhow::{Context, Result};
use control::{Floor, Relay};
use ringway_lab::machine;
use ringway_lab::server::Under;
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// Measures what a media relay adds to the CPU time of a call.
///
/// About two minutes. Needs rtpengine for one of the figures.
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
    WithoutRelay,
    Scripted,
    Rtpengine,
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
    let (rounds, seconds) = if args.quick { (3, 1) } else { (9, 3) };
    let sides = [Side::WithoutRelay, Side::Scripted, Side::Rtpengine];
    let mut players = sides.map(|side| start(&environment, side, args.rate * seconds, Under::Itself));
    let mut floor = Floor::start(&environment)?;
    let (mut readings, mut of_floor) = ([const { Vec::new() }; 3], Vec::new());
    for round in 1..=rounds {
        for ((player, taken), side) in players.iter_mut().zip(&mut readings).zip(sides) {
            let Ok((player, _relay)) = player else { continue };
            let us = player.reading(args.rate, seconds, FINISHING)?;
            eprintln!("  round {round} of {rounds}: {side:?} {us:.2} µs");
            taken.push(us);
        }
        let us = f64::from(AWAITED) * floor.reading(args.rate * AWAITED, seconds)?;
        eprintln!("  round {round} of {rounds}: floor {us:.2} µs");
        of_floor.push(us);
    }
    drop(floor);
    let mut rows: Vec<Row> = sides
        .into_iter()
        .zip(&readings)
        .zip(&players)
        .skip(1)
        .map(|((side, taken), player)| row(side, [&readings[0], taken], player.as_ref().err()))
        .collect();
    rows.push(Row::compared(
        "floor: two requests and answers over UDP in an epoll loop, without SIP",
        format!("{:.1} µs", median(of_floor.into_iter())),
    ));
    let instructions = [Side::WithoutRelay, Side::Scripted].map(|side| {
        instructions(&environment, &format!("{side:?}"), FINISHING, |users, under| {
            start(&environment, side, users, under)
        })
    });
    rows.push(match instructions {
        [Ok(without), Ok(with)] => Row::compared(
            "instructions of the server's own code",
            format!("{:.0} ({without:.0}, {with:.0})", with - without),
        ),
        [Err(error), _] | [_, Err(error)] => Row::failed("instructions", "", &error),
    });
    print_rows(&rows);
    let text = render(&rows, args, [&load, &machine::load_average()], (rounds, seconds));
    publish(workspace, HEADING, &text, args.write)?;
    ensure_met(&rows)
}

/// Row with the median of the differences within rounds.
fn row(side: Side, [without, with]: [&Vec<f64>; 2], failed: Option<&anyhow::Error>) -> Row {
    let what = match side {
        Side::WithoutRelay | Side::Scripted => "with an answerer that costs next to nothing",
        Side::Rtpengine => "with rtpengine",
    };
    let target = format!("≤ {US_MAX} µs");
    if let Some(error) = failed {
        return Row::failed(what, &target, error);
    }
    let added = median(without.iter().zip(with).map(|(without, with)| with - without));
    let [alone, relayed] = [without, with].map(|taken| median(taken.iter().copied()));
    Row::single(what, &target, format!("{added:.1} µs ({alone:.1}, {relayed:.1})"), added <= US_MAX)
}

fn render(rows: &[Row], args: &Args, load: [&str; 2], (rounds, seconds): (u32, u32)) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\
         Written by `cargo xtask {}`: what a media relay adds to the server's CPU time for a call, in brackets a call without \
         and with it.\n\n\
         - {} calls a second over UDP without digest, each with two SDPs and three requests to the relay; one worker, alone on \
         one processor; medians of {rounds} rounds of {seconds} s, all servers in turn.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | a call relayed | must reach | adds | |\n|---|---|---|---|\n",
        command.join(" "),
        args.rate,
        machine::description(),
        load[0],
        load[1],
    );
    add_rows(&mut text, rows, Verdict::word_in_capitals);
    add_spaced_notes(&mut text, rows);
    text.push_str(
        "\nThe floor is measured in the same run. Instructions are those that callgrind counts, without the kernel's.\n",
    );
    text
}

/// Starts a server with the relay of `side`, and registers `users` users.
fn start(
    environment: &Environment,
    side: Side,
    users: u32,
    under: Under<'_>,
) -> Result<(Player, Option<Relay>)> {
    let (relay, media) = match side {
        Side::WithoutRelay => (None, String::new()),
        Side::Scripted | Side::Rtpengine => {
            let control = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the relay")?;
            let address = control.local_addr().context("address of the relay")?;
            let relay = match side {
                Side::WithoutRelay | Side::Scripted => Relay::scripted(control)?,
                Side::Rtpengine => {
                    drop(control);
                    Relay::rtpengine(&environment.folder, address)?
                }
            };
            (Some(relay), format!("[media]\nrelay = \"always\"\nrtpengine = [\"{address}\"]\n"))
        }
    };
    Ok((Player::start(environment, &format!("{side:?}"), &media, users, under)?, relay))
}

const HEADING: &str = "## Media relay\n";
/// Requests of a call whose answers the server awaits: offer and answer.
const AWAITED: u32 = 2;
/// Maximum CPU time that a relay adds to a call.
const US_MAX: f64 = 25.0;
/// Time after the last call in which the server's CPU time still counts.
const FINISHING: Duration = Duration::from_millis(300);

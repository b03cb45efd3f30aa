//! Instructions of a REGISTER in the image, from reading the card's receive ring to notifying the card.
//!
//! With `-icount shift=0,sleep=off` the time-stamp counter of the emulated processor counts instructions, and
//! the image prints it: the same result on every computer, however busy. One REGISTER at a time, each of
//! another user. Over TCP and TLS all use one connection, and the peer's acknowledgements count too.

use anyhow::{Context, Result, bail};

use super::{Booted, note, tls};
use crate::bench::Record;
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};
use crate::process::free_port;
use ringway_lab::load::Transport;
use ringway_lab::registering::Registering;
use xtask::workspace::root;

pub(super) fn checks(writes: bool) -> Vec<Scenario> {
    vec![Scenario::new("instructions", move |stage: &Stage| count(stage, writes))]
}

fn count(stage: &Stage, writes: bool) -> Result<()> {
    let mut counts = Vec::new();
    for (name, measured) in MEASURED {
        counts.push((name, one(stage, measured).context(name)?));
    }
    for ((what, count), goal) in counts.iter().zip(GOALS) {
        let what = format!("instructions of a REGISTER in the image (`{what}`)");
        note(what, format!("≤ {goal}"), format!("{count:.0}"), *count <= goal);
    }
    let record = Record {
        path: root().join("tests/testbed/metal-instructions.toml"),
        what: format!(
            "the image in QEMU -icount, {USERS} users, one REGISTER at a time; digest: MD5, both messages; TCP, TLS: \
                 one connection, with the peer's acknowledgements"
        ),
        written_by: "cargo xtask metal test --only instructions --write",
    };
    if writes { record.write(&counts) } else { record.check(&counts) }
}

/// Measured kind of REGISTER.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measured {
    Udp,
    Digest,
    Tcp,
    Tls,
}

/// Median of operations that refresh a binding.
fn one(stage: &Stage, measured: Measured) -> Result<f64> {
    Registering::write_users(&stage.path("users.csv"), USERS)?;
    let mut machine = Machine::new(Medium::Kernel).with_options(&["-icount", "shift=0,sleep=off"]);
    let mut transport = (Transport::Udp, None);
    let mut tls_port = None;
    let words = match measured {
        Measured::Udp => "auth=off measure=1",
        Measured::Digest => "auth=on measure=2",
        Measured::Tcp => {
            transport = (Transport::Tcp, None);
            "auth=off measure=stream"
        }
        Measured::Tls => {
            transport = (Transport::Tls, Some(tls::load(stage)?));
            let port = free_port()?;
            machine = machine.with_tls(tls::server_file(stage)?, port);
            tls_port = Some(port);
            "auth=off tls=5061 measure=stream"
        }
    };
    let words = format!("users=users.csv algorithms=MD5 {words}");
    let machine = Booted::serving(&machine, stage, &words)?;
    // The image prints one line for each thousand operations; the first thousand create the bindings.
    let mut phones = Registering::over(transport, tls_port.unwrap_or(machine.at.port()), USERS)?;
    phones.run(u64::from(USERS) * LINES, 1, measured == Measured::Digest)?;
    machine.running.wait_until("measure: ", |said| figures(said).len() >= LINES as usize - 1)?;
    let figures = figures(&machine.said());
    let last = figures.last().copied().context("the image measured nothing")?;
    let before = figures.get(figures.len().saturating_sub(2)).copied().unwrap_or(last);
    if (last - before).abs() > 0.05 * last {
        bail!("two counts of the same differ: {before:.0} and {last:.0}");
    }
    Ok(last)
}

/// Medians of all lines that the image has printed.
fn figures(said: &str) -> Vec<f64> {
    said.lines()
        .filter_map(|line| {
            line.strip_prefix("measure: ")?.split(", ").nth(1)?.strip_suffix(" cycles")?.parse().ok()
        })
        .collect()
}

const USERS: u32 = 1000;
/// Number of thousands.
const LINES: u64 = 3;
const MEASURED: [(&str, Measured); 4] = [
    ("register", Measured::Udp),
    ("register_digest", Measured::Digest),
    ("register_tcp", Measured::Tcp),
    ("register_tls", Measured::Tls),
];
const GOALS: [f64; 4] = [9_000.0, 20_000.0, 30_000.0, 90_000.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        assert_eq!(figures("x\nmeasure: 1000 operations, 8123 cycles, 7900 at least\r\n"), [8123.0]);
    }
}

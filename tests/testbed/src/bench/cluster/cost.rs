//! CPU time of a REGISTER in nodes beside a server alone, and of a call over a link beside one at one node.

use super::super::machines::Site;
use super::node::{Cost, Node};
use super::{Row, USERS};
use anyhow::{Result, ensure};
use ringway_lab::load::{Flow, Run, Session};
use ringway_lab::statistics::median;
use std::thread;
use std::time::Duration;

/// Servers that a REGISTER is measured at.
#[derive(Clone, Copy)]
enum Servers {
    /// One that shares nothing.
    Alone,
    OneNode,
    ThreeNodes,
}

/// CPU time of a REGISTER: alone, at one node, at three nodes that all have the same load.
pub(super) fn of_registers(site: &Site<'_>, rounds: u32, rate: f64) -> Result<Vec<Row>> {
    let mut figures = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for servers in in_turn(round, [Servers::Alone, Servers::OneNode, Servers::ThreeNodes]) {
            let cost = of_register(site, servers, rate)?;
            figures[servers as usize].push(cost);
        }
        let shown = figures.each_ref().map(|costs| costs.last().map_or(0.0, |cost| cost.all / 1e3));
        eprintln!("  round {} of {rounds}: {shown:.1?} µs", round + 1);
    }
    let [alone, one, three] = figures.map(|costs| Cost {
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

/// These in the order of a round, which is the reverse of the one before, so that none gains by a drift of the machine.
fn in_turn<T, const N: usize>(round: u32, mut all: [T; N]) -> [T; N] {
    if round % 2 == 1 {
        all.reverse();
    }
    all
}

/// Starts servers and refreshes registrations at all of them, each with the same rate. Returns the CPU time of one REGISTER.
fn of_register(site: &Site<'_>, servers: Servers, rate: f64) -> Result<Cost> {
    let refresh = |nodes: &[Node<'_>]| {
        let mut sessions = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            sessions.push(node.session(Flow::Update, index as u32 * USERS, USERS)?);
        }
        spent(nodes, || sessions.into_iter().map(|session| session.start(rate, MEASURED)).collect())
    };
    match servers {
        Servers::Alone => refresh(&[Node::alone(site)?]),
        Servers::OneNode => {
            let store = site.store()?;
            refresh(&Node::several(site, &store, [""])?)
        }
        Servers::ThreeNodes => {
            let store = site.store()?;
            refresh(&Node::several(site, &store, [""; 3])?)
        }
    }
}

/// CPU time that nodes spend for an attempt of a load.
fn spent(nodes: &[Node<'_>], load: impl FnOnce() -> Result<Vec<Run>>) -> Result<Cost> {
    thread::sleep(Duration::from_secs(1));
    let before = nodes.iter().map(Node::cpu_ns).collect::<Result<Vec<_>>>()?;
    let mut done = 0;
    for run in load()? {
        let statistics = run.finish()?;
        let (ended, good) = (statistics.ended(), statistics.successes());
        let failures: Vec<String> =
            statistics.failures().map(|(outcome, count)| format!("{outcome}: {count}")).collect();
        ensure!(
            good * 1000 >= ended * 999,
            "{good} of {ended} attempts at {} servers succeeded ({})",
            nodes.len(),
            failures.join(", ")
        );
        done += good;
    }
    // Updates that wait are part of their REGISTERs.
    thread::sleep(Duration::from_millis(500));
    let after = nodes.iter().map(Node::cpu_ns).collect::<Result<Vec<_>>>()?;
    let of = |pick: fn(&Cost) -> f64| {
        let spent: f64 = after.iter().zip(&before).map(|(after, before)| pick(after) - pick(before)).sum();
        spent / done as f64
    };
    Ok(Cost { packets: of(|cost| cost.packets), store: of(|cost| cost.store), all: of(|cost| cost.all) })
}

/// CPU time of a call to a phone with a connection to another node beside one at the same node, of both nodes.
pub(super) fn of_calls_over_link(site: &Site<'_>, rounds: u32, rate: f64) -> Result<Vec<Row>> {
    let store = site.store()?;
    let nodes = Node::several(site, &store, [""; 2])?;
    let [first, _] = &nodes;
    let mut figures = [const { Vec::new() }; 2];
    for round in 0..rounds {
        for called_at in in_turn(round, [0, 1]) {
            let number = (2 * round + called_at) * 2 * LINK_USERS;
            let called_at = called_at as usize;
            let plan = first.calls_to(&nodes[called_at], number, LINK_USERS)?;
            let session = Session::open(&plan)?;
            for node in &nodes {
                node.wait_for("location_waiting", 0.0)?;
            }
            let cost = spent(&nodes, || Ok(vec![session.start(rate, MEASURED)?]))?;
            figures[called_at].push(cost.all);
        }
    }
    let crossed = first.stat("forwarded_to_nodes")?;
    ensure!(crossed > 0.0, "no call went over the link");
    let [same, other] = figures.map(|costs| median(costs.into_iter()));
    let times = other / same;
    Ok(vec![Row::single(
        &format!(
            "CPU of a call through A to a phone with a connection to B against both at A, all threads of both nodes, TCP; {rate} calls a second"
        ),
        "≤ 1.7 ×",
        format!("{times:.2} × ({:.0} against {:.0} µs)", other / 1e3, same / 1e3),
        times <= 1.7,
    )])
}

/// Callers, as many called users, and calls a second over a link.
const LINK_USERS: u32 = 200;
/// Time for which a load is measured.
const MEASURED: Duration = Duration::from_secs(6);

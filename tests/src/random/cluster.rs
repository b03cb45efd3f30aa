//! Story of three nodes with random faults: of the store, of nodes, of the ways between them.

use crate::{Cluster, StoreState, Violation};
use ringway_sansio::{Instant, Transport};
use ringway_server::Hold;
use ringway_sim::HostId;

use std::time::Duration;

/// Phone of the story, and its registration.
struct Known {
    phone: HostId,
    /// Its binding ends with its connection.
    has_connection: bool,
    /// Only the node of its binding reaches it.
    needs_node: bool,
    /// 200s before the last REGISTER; its node; the end that it asked for. `None`: its binding may be lost.
    last: Option<(usize, usize, Instant)>,
    /// 200s before the last REGISTER, if that removes the binding.
    removing: Option<usize>,
    /// The binding was removed, and no node had it at a time when all had read everything.
    is_removed: bool,
    /// The store had the binding at that node, and nothing happened that may lose it.
    is_kept: bool,
    /// Nodes that had read the binding since then.
    seen: [bool; Cluster::NODES],
}

/// Nodes that hold all users.
pub(super) fn all(seed: u64) -> Result<(), Violation> {
    Cluster::play(seed, Hold::All, notify)
}

/// Nodes that hold whom they serve.
pub(super) fn served(seed: u64) -> Result<(), Violation> {
    Cluster::play(seed, Hold::Served, notify)
}

fn notify(cluster: &mut Cluster) {
    let (caller, phones) = cluster.people();
    let second = cluster.phone("bob", Transport::Tcp, true);
    let mut known: Vec<Known> = phones
        .into_iter()
        .chain([second])
        .zip([(false, false), (false, true), (true, true), (true, true)])
        .map(|(phone, (has_connection, needs_node))| Known {
            phone,
            has_connection,
            needs_node,
            last: None,
            removing: None,
            is_removed: false,
            is_kept: false,
            seen: [false; Cluster::NODES],
        })
        .collect();
    for _ in 0..60 {
        act(cluster, &mut known);
        let pause = [20, 200, 1000, 5000, 20_000][cluster.rng.below(5) as usize];
        wait(cluster, &mut known, pause);
        call(cluster, caller, &mut known);
    }
    cluster.heal();
    // A phone that waits for an answer of a node that was paused gives up after 32 s.
    wait(cluster, &mut known, 40_000);
    cluster.agrees();
    for known in &known {
        if is_alive(cluster, known) {
            cluster.is_reached(caller, known.phone);
        }
    }
}

/// True for a binding that was acknowledged, got into the store, and has not ended by any clock.
fn is_alive(cluster: &Cluster, known: &Known) -> bool {
    let ends = known.last.map(|(_, _, ends)| ends);
    known.is_kept && ends.is_some_and(|ends| ends > cluster.sim.now() + CLOCKS_DIFFER)
}

/// Calls one of the phones over one of the nodes, and checks that it is called if that must be possible, or that it is not.
fn call(cluster: &mut Cluster, caller: HostId, known: &mut [Known]) {
    let over = cluster.rng.below(Cluster::NODES as u64) as usize;
    let index = cluster.rng.below(known.len() as u64) as usize;
    let (phone, owner) = (known[index].phone, known[index].last.map(|last| last.1));
    if cluster.is_registering(phone) || !cluster.runs(over) {
        return;
    }
    let must_reach = owner.is_some_and(|owner| must_reach(cluster, &known[index], (over, owner)));
    let has_news = cluster.connected_for(over) >= SETTLED && !cluster.is_draining(over);
    let must_not = known[index].is_removed && has_news;
    if must_reach || must_not {
        let reached = cluster.reaches(caller, over, phone);
        assert_eq!(reached, must_reach, "phone {index} of node {owner:?} over node {over}");
        wait(cluster, known, 10);
    }
}

/// True if a phone of `owner` must be reached over a node: the node has its binding or can read it, and has a link to the owner.
fn must_reach(cluster: &Cluster, known: &Known, (over, owner): (usize, usize)) -> bool {
    // A node that holds whom it serves may forget bindings of others, and ask the store again.
    let may_forget = over != owner && !cluster.holds_all(over);
    let has_it = known.seen[over] && (!may_forget || cluster.has(over, known.phone));
    let can_know = cluster.connected_for(over) >= SETTLED || has_it;
    let is_linked = cluster.is_linked(over, owner) && cluster.can_link(over, owner);
    let has_way = !known.needs_node || cluster.runs(owner) && (over == owner || is_linked);
    is_alive(cluster, known) && can_know && has_way && !cluster.is_draining(over)
}

fn wait(cluster: &mut Cluster, known: &mut [Known], milliseconds: u64) {
    for _ in 0..milliseconds.div_ceil(100) {
        cluster.wait_ms(100);
        let settled = cluster.unchanged_for() >= SETTLED;
        let connected = |node: &usize| cluster.connected_for(*node) >= SETTLED;
        let is_read = |node: usize| connected(&node) && cluster.has_read(node);
        let is_quiet = settled && cluster.has_written() && (0..Cluster::NODES).all(is_read);
        for known in &mut *known {
            let is_acknowledged =
                |before| cluster.registrations(known.phone) > before && !cluster.is_registering(known.phone);
            let is_removed = known.removing.is_some_and(is_acknowledged) && is_quiet;
            known.is_removed |= is_removed && cluster.is_nowhere(known.phone);
            // A node that drains closes the connections of new phones too.
            let is_drained = |node| known.has_connection && cluster.is_draining(node);
            known.last = known.last.filter(|(_, node, _)| !is_drained(*node));
            let Some((before, node, ends)) = known.last else { continue };
            known.is_kept |= is_acknowledged(before) && cluster.is_stored(known.phone, node, ends);
            for node in 0..Cluster::NODES {
                let has_read = settled && connected(&node) && cluster.has(node, known.phone);
                known.seen[node] |= known.is_kept && has_read;
                known.seen[node] &= cluster.is_started(node);
            }
        }
    }
}

fn act(cluster: &mut Cluster, known: &mut [Known]) {
    let node = cluster.rng.below(Cluster::NODES as u64) as usize;
    let other = (node + 1 + cluster.rng.below(2) as usize) % Cluster::NODES;
    let ahead = cluster.rng.below(60);
    let action = cluster.rng.below(30);
    cluster.note(&format!("{} of node {node}, {other}", NAMES.get(action as usize).unwrap_or(&"register")));
    match action {
        0 => cluster.store.state = StoreState::Away,
        1 => cluster.store.state = StoreState::Paused,
        2..=4 => cluster.store.state = StoreState::Up,
        5 => {
            cluster.fail_over(Duration::from_secs(ahead));
            for known in known {
                // Nodes that hold whom they serve forget whom they looked up.
                (known.is_kept, known.is_removed, known.seen) = (false, false, [false; Cluster::NODES]);
            }
        }
        6 => {
            cluster.kill(node);
            lose_connections(known, node);
        }
        7 | 8 if !cluster.is_started(node) => cluster.restart(node),
        7 if cluster.runs(node) => cluster.pause(node),
        8 if !cluster.runs(node) => cluster.resume(node),
        9 => cluster.set_reaches_store(node, false),
        10 => cluster.set_reaches_store(node, true),
        11 => cluster.set_reaches_node(node, other, false),
        12 => {
            cluster.set_reaches_node(node, other, false);
            cluster.set_reaches_node(other, node, false);
        }
        13 | 14 => {
            cluster.set_reaches_node(node, other, true);
            cluster.set_reaches_node(other, node, true);
        }
        15 if cluster.runs(node) => cluster.break_links(node),
        16 if cluster.runs(node) => {
            let over_s = cluster.rng.below(30);
            cluster.drain(node, Some(over_s));
            lose_connections(known, node);
        }
        17 if cluster.runs(node) => cluster.drain(node, None),
        18 if cluster.runs(node) => cluster.rotate(node),
        19 => cluster.heal(),
        _ => register(cluster, known, (node, other)),
    }
}

/// The connections of a node are closed, or will be.
fn lose_connections(known: &mut [Known], node: usize) {
    let is_lost = |known: &&mut Known| known.has_connection && known.last.is_some_and(|last| last.1 == node);
    known.iter_mut().filter(is_lost).for_each(|known| (known.last, known.is_kept) = (None, false));
}

/// Registers a phone at a node, sometimes with a nonce of another one, or removes its binding.
fn register(cluster: &mut Cluster, known: &mut [Known], (node, other): (usize, usize)) {
    let index = cluster.rng.below(known.len() as u64) as usize;
    let seconds = [0, 60, 600, 3600, 3600, 3600][cluster.rng.below(6) as usize];
    let is_across = cluster.rng.random_bool(250);
    let known = &mut known[index];
    if cluster.is_registering(known.phone) {
        return;
    }
    let ends = cluster.sim.now() + Duration::from_secs(seconds.into());
    let before = cluster.registrations(known.phone);
    (known.last, known.removing) =
        if seconds > 0 { (Some((before, node, ends)), None) } else { (None, Some(before)) };
    (known.is_kept, known.is_removed, known.seen) = (false, false, [false; Cluster::NODES]);
    cluster.note(&format!(
        "phone {index} registers at {node} for {seconds}, {}",
        if is_across { "across" } else { "" }
    ));
    match is_across {
        true => cluster.register_across(known.phone, (other, node), seconds),
        false => cluster.register(known.phone, node, seconds),
    }
}

/// Names of the actions.
const NAMES: [&str; 20] = [
    "away",
    "paused",
    "up",
    "up",
    "up",
    "failover",
    "kill",
    "restart or pause",
    "restart or resume",
    "no store",
    "store",
    "cut",
    "cut both",
    "uncut",
    "uncut",
    "break links",
    "drain",
    "no drain",
    "secret",
    "heal",
];
/// Time after which a change is everywhere.
const SETTLED: Duration = Duration::from_secs(2);
/// The clock of the store moves by up to a minute, and those of nodes differ by half of one.
const CLOCKS_DIFFER: Duration = Duration::from_secs(120);

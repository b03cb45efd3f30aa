//! Start of a node beside a store with many registrations.

use super::Row;
use super::node::Node;
use super::site::Site;
use anyhow::{Result, ensure};
use ringway_lab::load::Flow;
use std::time::Instant;

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

/// Users who register before their updates are waited for.
const FILLED: u32 = 100_000;

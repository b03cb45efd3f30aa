//! Calls and registrations while the store is away, and when a node is killed.

use super::super::machines::Site;
use super::node::Node;
use super::seen::Probe;
use super::{Row, USERS};
use anyhow::{Result, ensure};
use ringway_lab::load::{Flow, Length, Plan, Session, Statistics};
use std::thread;
use std::time::{Duration, Instant};

/// The store is killed for `outage` while users call one another and register.
pub(super) fn of_store(site: &Site<'_>, outage: Duration) -> Result<Vec<Row>> {
    let mut store = site.store()?;
    let [node, other] = Node::several(site, &store, [""; 2])?;
    let length = outage + Duration::from_secs(10);
    let calls = node.session(Flow::Call, 0, USERS)?.start(CALLS, length)?;
    let registers = other.session(Flow::Update, 2 * USERS, USERS)?.start(CALLS, length)?;
    thread::sleep(Duration::from_secs(5));
    store.kill_first();
    thread::sleep(outage);
    store.start_first_again()?;
    let (calls, registers) = (calls.finish()?, registers.finish()?);
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

/// One of three nodes is killed while calls through it ring and go on, and calls over the link between the others. Its users
/// register at another node and are called through the third.
pub(super) fn of_node(site: &Site<'_>) -> Result<Vec<Row>> {
    let store = site.store()?;
    let [lost, second, third] = Node::several(site, &store, ["record_route = false", "", ""])?;
    let moved = Probe::open()?;
    for user in 0..MOVED {
        moved.register(user, &lost)?;
        moved.reach(user, &third)?;
    }
    drop(moved);
    let talk = Length::Fixed(TALK);
    let through = Plan { talk, ring: Length::Fixed(RING), ..lost.plan(Flow::Call, 0, USERS)? };
    let through = Session::open(&through)?;
    let others = Plan { talk, ..second.calls_to(&third, 2 * USERS, USERS)? };
    let others = Session::open(&others)?;
    third.wait_for("location_waiting", 0.0)?;
    // The second node reads the registrations of the third one meanwhile.
    thread::sleep(Duration::from_secs(1));
    let others = others.start(CALLS, BEFORE + Duration::from_secs(12))?;
    let through = through.start(CALLS, BEFORE)?;
    thread::sleep(BEFORE);
    lost.kill()?;
    let killed = Instant::now();
    let probe = Probe::open()?;
    let mut slowest = Duration::ZERO;
    for user in 0..MOVED {
        probe.register(user, &second)?;
        slowest = slowest.max(probe.reach(user, &third)?);
    }
    let all_ended = killed + RING + TALK + Duration::from_secs(1);
    thread::sleep(all_ended.saturating_duration_since(Instant::now()));
    // The callers that heard it ring would wait for minutes.
    through.stop();
    let (through, others) = (through.finish()?, others.finish()?);
    ensure!(failed(&through) > 0, "no call was being set up when the node was killed");
    ensure!(second.stat("forwarded_to_nodes")? > 0.0, "no call went over the link");
    Ok(vec![
        Row::single(
            "one of three nodes killed under load: calls through it, without `routing.record_route`",
            &format!("those under way end by BYE, only those being set up fail: {RINGING_MAX} at most"),
            format!(
                "{} of {} ended by BYE, {} failed",
                through.successes(),
                through.ended(),
                failed(&through)
            ),
            failed(&through) <= RINGING_MAX,
        ),
        Row::single(
            "the same: calls through another node to phones of the third one",
            "0 failed",
            format!("{} failed of {}", failed(&others), others.ended()),
            failed(&others) == 0,
        ),
        Row::single(
            "the same: its users register at another node and are seen at the third one",
            "≤ 1 s after",
            format!("{:.0} ms, the longest of {MOVED}", slowest.as_secs_f64() * 1e3),
            slowest <= Duration::from_secs(1),
        ),
    ])
}

fn failed(statistics: &Statistics) -> u64 {
    statistics.ended() - statistics.successes()
}

/// Calls a second, and REGISTERs beside them.
const CALLS: f64 = 50.0;
/// Time in which calls begin before a node is killed.
const BEFORE: Duration = Duration::from_secs(3);
/// Time for which each of them rings, and lasts.
const RING: Duration = Duration::from_millis(500);
const TALK: Duration = Duration::from_secs(3);
/// Calls that begin in the time for which one rings, and in 100 ms more.
const RINGING_MAX: u64 = 30;
/// Users of the node that is killed, who register at another one.
const MOVED: u32 = 300;

//! Ends of calls: more calls from one address than its rate permits, all with passwords; what ends those that are admitted.

use super::super::report::Row;
use anyhow::{Result, ensure};
use ringway_lab::attack::crowd::{Crowd, CrowdPlan, Sent};
use ringway_lab::attack::target::Target;
use ringway_lab::subject::Environment;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Calls for `offered_for`, with the rate of a source as shipped and without one.
pub(super) fn rows(environment: &Environment, offered_for: Duration) -> Result<Vec<Row>> {
    ["", "[limits]\nper_source_rate = 0\n"]
        .into_iter()
        .map(|lines| row(environment, offered_for, lines))
        .collect()
}

fn row(environment: &Environment, offered_for: Duration, lines: &str) -> Result<Row> {
    let crowd = Crowd::bind(Ipv4Addr::new(127, 0, 1, 1), Ipv4Addr::new(127, 0, 2, 1))?;
    let target = Target::start_with(environment, &[(CALLEE, crowd.phone())], lines)?;
    let outcomes = crowd.run(CrowdPlan {
        server: target.address,
        rate: CALLS,
        length: offered_for,
        talk: TALK,
        users: CALLEE,
        callee: CALLEE,
    })?;
    let stats = target.stats()?;
    let figures =
        stats.text(&["requests", "over_rate", "over_rate_ends", "over_memory", "over_user_requests"]);
    target.stop()?;
    ensure!(outcomes.admitted > 0, "no call was admitted: {:?}", outcomes.refused);
    let ends = [("ACK", outcomes.acks), ("BYE", outcomes.byes), ("CANCEL", outcomes.cancels)];
    let text = |(name, sent): (&str, Sent)| format!("{} of {} {name}s", sent.failed, sent.requests);
    let what = format!(
        "{CALLS} calls a second from one address for {} s, with passwords, {}: refused ACKs, BYEs and CANCELs of the calls that are \
         admitted",
        offered_for.as_secs(),
        if lines.is_empty() { "`per_source_rate` as shipped" } else { "`per_source_rate = 0`" }
    );
    let is_met = ends.iter().all(|(_, sent)| sent.requests > 0 && sent.failed == 0);
    let mut row = Row::single(&what, "0", ends.map(text).join(", "), is_met);
    let again: Vec<String> = ends.iter().map(|(name, sent)| format!("{} {name}s", sent.again)).collect();
    row.note = format!(
        "ends: {} calls offered, {} admitted, refused by status (0: dropped) {:?}; sent again: {}; {figures}",
        outcomes.offered,
        outcomes.admitted,
        outcomes.refused,
        again.join(", ")
    );
    Ok(row)
}

/// Calls a second.
const CALLS: u32 = 400;
/// Time from the answer to the BYE.
const TALK: Duration = Duration::from_secs(2);
/// The called user; all users before it call.
const CALLEE: u32 = 200;

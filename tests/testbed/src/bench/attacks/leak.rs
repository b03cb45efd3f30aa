//! Leak: requests to a contact whose final responses have only one Via, the server's.

use super::super::report::Row;
use anyhow::Result;
use ringway_lab::attack::flood::{Flood, request, wait};
use ringway_lab::attack::script::{Contact, Script, T1};
use ringway_lab::attack::target::{Target, aor};
use ringway_lab::subject::Environment;
use std::net::Ipv4Addr;
use std::time::Duration;

pub(super) fn rows(environment: &Environment, flood_for: Duration) -> Result<Vec<Row>> {
    let contact = Contact::start(Ipv4Addr::new(127, 0, 2, 1), Script::OneVia)?;
    let contacts: Vec<_> = (0..USERS).map(|user| (user, contact.address)).collect();
    let target = Target::start(environment, &contacts)?;
    let templates = |source| {
        let both = |user| ["INVITE", "OPTIONS"].map(|method| request(method, &aor(user), source, 0));
        (0..USERS).flat_map(both).collect()
    };
    let mut flood = Flood::new(SOURCES, target.address, templates)?;
    let traffic = flood.run("leak", RATE, flood_for, || Ok(String::new()))?;
    wait("leak: transactions end", 64 * T1 + Duration::from_secs(2), || Ok(target.stats()?.text(&KEPT)))?;
    let stats = target.stats()?;
    let kept: Vec<f64> = KEPT.iter().map(|name| stats.figure(name)).collect::<Result<_>>()?;
    let answered = stats.figure("without_next_via")?;
    let what = format!(
        "{SOURCES} strangers, {RATE} requests a second each for {} s to {USERS} users whose contact answers with one Via: left \
         after 64·T1",
        flood_for.as_secs()
    );
    let mut row = Row::single(&what, "0 of each", stats.text(&KEPT), kept.iter().all(|kept| *kept == 0.0));
    row.note = format!("leak: {} requests, {answered} such responses", traffic.requests);
    // Without such responses the test proves nothing.
    let mut tried =
        Row::single("responses with one Via that reached it", "> 0", answered.to_string(), answered > 0.0);
    tried.note =
        stats.text(&["over_user_requests", "over_memory", "over_rate", "forwarded", "transactions_refused"]);
    target.stop()?;
    Ok(vec![row, tried])
}

/// Gauges of the state of pending requests.
const KEPT: [&str; 4] =
    ["requests_forwarding", "server_transactions", "client_transactions", "reserved_bytes"];
/// Number of callees; each may have some hundred pending requests of strangers.
const USERS: u32 = 32;
const SOURCES: u8 = 24;
const RATE: u32 = 200;

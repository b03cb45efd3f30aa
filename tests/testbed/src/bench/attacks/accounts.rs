//! Attacks by accounts, with their passwords. Fork bomb: an INVITE to accounts whose contacts are each other. Ends of
//! calls: more calls from one address than its rate permits; what ends those that are admitted.

use super::super::report::Row;
use anyhow::{Context, Result, ensure};
use ringway_lab::attack::crowd::{Crowd, CrowdPlan, Sent};
use ringway_lab::attack::flood::wait;
use ringway_lab::attack::message::Draft;
use ringway_lab::attack::peer::{Peer, STRANGER};
use ringway_lab::attack::target::{Target, aor, name};
use ringway_lab::server::DOMAIN;
use ringway_lab::subject::Environment;
use std::net::Ipv4Addr;
use std::time::Duration;

pub(super) fn rows(environment: &Environment, counted_for: Duration) -> Result<Vec<Row>> {
    let target = Target::start(environment, &[])?;
    let mut registrant = Peer::bind(Ipv4Addr::new(127, 0, 2, 1), target.address)?;
    let mut stranger = Peer::bind(Ipv4Addr::new(127, 0, 1, 1), target.address)?;
    let (mut rows, mut first) = (Vec::new(), 0);
    for accounts in [1, 10] {
        for account in 0..accounts {
            let contacts: Vec<String> = (0..CONTACTS)
                .map(|index| {
                    let other = name(first + (account + index) % accounts);
                    format!("<sip:{}@{DOMAIN};p={index}>", spelled(&other, 1 + account * 3 + index))
                })
                .collect();
            registrant.register(first + account, &contacts, "")?;
        }
        let (uri, call_id, branch) = (aor(first), stranger.fresh("c"), stranger.fresh("z9hG4bK"));
        let to = format!("<{uri}>");
        let invite = Draft {
            method: "INVITE",
            uri: &uri,
            from: STRANGER,
            to: &to,
            call_id: &call_id,
            branch: &branch,
            ..Draft::EMPTY
        };
        let before = target.stats()?.figure("datagrams_out")?;
        stranger.socket.send(&invite.write(stranger.address)).context("send to the server")?;
        wait("fork-bomb: datagrams are counted", counted_for, || {
            Ok(target.stats()?.text(&["datagrams_out"]))
        })?;
        let sent = target.stats()?.figure("datagrams_out")? - before;
        let what = format!(
            "one INVITE, {accounts} account(s) with {CONTACTS} contacts each at each other: datagrams sent"
        );
        rows.push(Row::single(&what, "≤ 300", sent.to_string(), (1.0..=DATAGRAMS_MAX).contains(&sent)));
        first += accounts;
    }
    target.stop()?;
    Ok(rows)
}

/// A spelling of `user` that is equal by RFC 3261 §19.1.4: the letters whose bit is set in `mask` are
/// escaped.
fn spelled(user: &str, mask: u32) -> String {
    let letter = |(at, letter): (usize, char)| match mask >> at & 1 {
        1 => format!("%{:02x}", u32::from(letter)),
        _ => letter.to_string(),
    };
    user.char_indices().map(letter).collect()
}

/// Calls for `offered_for`, with the rate of a source as shipped and without one.
pub(super) fn of_ends(environment: &Environment, offered_for: Duration) -> Result<Vec<Row>> {
    ["", "[limits]\nper_source_rate = 0\n"]
        .into_iter()
        .map(|lines| ends_row(environment, offered_for, lines))
        .collect()
}

fn ends_row(environment: &Environment, offered_for: Duration, lines: &str) -> Result<Row> {
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

const CONTACTS: u32 = 10;
const DATAGRAMS_MAX: f64 = 300.0;
/// Calls a second.
const CALLS: u32 = 400;
/// Time from the answer to the BYE.
const TALK: Duration = Duration::from_secs(2);
/// The called user; all users before it call.
const CALLEE: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mask_is_another_spelling() {
        assert_eq!((spelled("u01", 0), spelled("u01", 0b101)), ("u01".to_owned(), "%750%31".to_owned()));
    }
}

//! The attacks, by what the attacker wants.

mod admin;
mod calls;
mod cluster;
mod dialogs;
mod floods;
mod media;
mod passwords;
mod presence;
mod reach;
mod streams;

use crate::harness::{Request, Sent, World, invite, requests};
use crate::row::Row;
use std::collections::VecDeque;

/// All rows.
pub(crate) const ALL: &[&[Row]] = &[
    passwords::ROWS,
    calls::ROWS,
    dialogs::ROWS,
    reach::ROWS,
    floods::ROWS,
    presence::ROWS,
    streams::ROWS,
    media::ROWS,
    cluster::ROWS,
    admin::ROWS,
];

/// User of another domain, who has no password here.
const EVE: &str = "sip:eve@example.net";
/// Host outside that nobody but a user may call.
const ELSEWHERE: &str = "198.51.100.7:5060";

/// Server with passwords, and with bob and carol at their addresses.
fn closed() -> World {
    let mut world = World::closed();
    at_home(&mut world);
    world
}

fn at_home(world: &mut World) {
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@192.0.2.30"]);
}

/// True if a request was sent to this address.
fn reached(sent: &[Sent], address: &str) -> bool {
    requests(sent.to_vec()).iter().any(|sent| sent.to() == address)
}

/// INVITE of a caller without a password.
fn eves(uri: &str) -> Request {
    invite(uri).from(EVE).call_id("eve calls")
}

/// Delivers what the server sends to itself; returns all that it sent.
fn delivered(world: &mut World, sent: Vec<Sent>) -> Vec<Sent> {
    const SERVER: &str = "192.0.2.1:5060";
    let (mut waiting, mut all) = (VecDeque::from(sent), Vec::new());
    while let Some(next) = waiting.pop_front() {
        if next.to() == SERVER && all.len() < 10_000 {
            waiting.extend(world.udp(SERVER, &next.bytes));
        }
        all.push(next);
    }
    all
}

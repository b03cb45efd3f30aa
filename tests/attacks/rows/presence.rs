//! To learn or change what others show of themselves.

use crate::harness::{ALICE, CAROL, Request, STRANGER, Sent, Wire, World, only, request, requests};
use crate::login::{Login, answered, proven};
use crate::row::{Door, Row, Seen, Thesis};
use ringway_sansio::Defence;
use ringway_server::{PresenceConfig, Trunk};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a stranger watches a user, in the name of another one",
        door: Door::Presence,
        thesis: Thesis::Impersonation,
        defence: Defence::CallerPassword,
        attack: stranger_watches,
    },
    Row {
        name: "a user watches with whom another user speaks",
        door: Door::Presence,
        thesis: Thesis::Other,
        defence: Defence::Watchers,
        attack: user_watches_calls,
    },
    Row {
        name: "a user publishes the presence of another user",
        door: Door::Presence,
        thesis: Thesis::Impersonation,
        defence: Defence::OwnPresence,
        attack: publishes_for_another,
    },
    Row {
        name: "a carrier leaves a text for an absent user, in the name of another user",
        door: Door::KeptMessages,
        thesis: Thesis::Impersonation,
        defence: Defence::KeptSender,
        attack: carrier_leaves_a_text,
    },
    Row {
        name: "a user leaves two hundred texts for an absent user",
        door: Door::KeptMessages,
        thesis: Thesis::UdpFlood,
        defence: Defence::KeptTexts,
        attack: fills_the_mailbox,
    },
];

const BUSY: &str =
    "<presence><tuple id=\"t\"><status><basic>open</basic></status><note>away</note></tuple></presence>";

fn world() -> World {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.presence = PresenceConfig { enabled: true, ..PresenceConfig::default() };
    });
    super::at_home(&mut world);
    world
}

/// SUBSCRIBE of a user at `from` to an event of bob.
fn subscribe(watcher: &str, from: &str, event: &str) -> Request {
    let mut request = request("SUBSCRIBE", "sip:bob@example.org");
    request.from = format!("<sip:{watcher}@example.org>;tag=from-{watcher}");
    request
        .via(&format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK"))
        .line(&format!("Contact: <sip:{watcher}@{from}>"))
        .line(&format!("Event: {event}"))
        .line("Expires: 600")
}

fn notifies(sent: &[Sent], address: &str) -> bool {
    requests(sent.to_vec()).iter().any(|sent| sent.method() == "NOTIFY" && sent.to() == address)
}

fn stranger_watches() -> Seen {
    let mut world = world();
    let sent = world.udp(STRANGER, &subscribe("alice", STRANGER, "presence"));
    Seen::new(&world, notifies(&sent, STRANGER))
}

fn user_watches_calls() -> Seen {
    let mut world = world();
    let sent = proven(&mut world, CAROL, &subscribe("carol", CAROL, "reg"), "carol");
    Seen::new(&world, notifies(&sent, CAROL))
}

fn publishes_for_another() -> Seen {
    let mut world = world();
    let request = request("PUBLISH", "sip:bob@example.org").call_id("publishes").line("Event: presence");
    let challenge = only(world.udp(ALICE, &request));
    let request = answered(&request, &Login::to(&challenge, "alice"));
    let bytes = with_body(&request, "application/pidf+xml", BUSY);
    let sent = world.udp(ALICE, &bytes);
    Seen::new(&world, sent.iter().any(|sent| sent.status() == 200))
}

/// Server that keeps texts; the stranger's network is that of a carrier.
fn keeps() -> World {
    World::with(|config| {
        config.auth.enabled = true;
        config.presence = PresenceConfig { messages: true, ..PresenceConfig::default() };
        let networks = vec!["203.0.113.66".parse().unwrap()];
        let carrier = Trunk { networks, ..Trunk::at("carrier", "sip:203.0.113.66:5060") };
        config.trunking.trunks = vec![carrier].into();
    })
}

/// A text for bob, who has no phone.
fn text(number: usize) -> Request {
    request("MESSAGE", "sip:bob@example.org").call_id(&format!("text {number}"))
}

/// The request with a body.
fn with_body(request: &Request, content_type: &str, body: &str) -> Vec<u8> {
    let text = String::from_utf8(request.wire()).unwrap();
    let head = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    text.replace("Content-Length: 0\r\n\r\n", &head).into_bytes()
}

fn carrier_leaves_a_text() -> Seen {
    let mut world = keeps();
    world.udp(STRANGER, &with_body(&text(0), "text/plain", "call +8816123"));
    let succeeded = !world.memory.stored().is_empty();
    Seen::new(&world, succeeded)
}

fn fills_the_mailbox() -> Seen {
    let mut world = keeps();
    for number in 0..200 {
        let challenge = only(world.udp(ALICE, &text(number)));
        let request = answered(&text(number), &Login::to(&challenge, "alice"));
        world.udp(ALICE, &with_body(&request, "text/plain", "x"));
    }
    let kept = world.memory.stored().len();
    Seen::new(&world, kept == 200)
}

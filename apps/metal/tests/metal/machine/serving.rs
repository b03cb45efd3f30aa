//! Behaviour of a machine that serves.

use crate::machine::world::{USERS, World, register};

fn serving(words: &str) -> World {
    let mut world =
        World::new(&format!("users=users.csv domains=example.org {words}")).with_file("users.csv", USERS);
    world.pass(100);
    assert!(world.machine.is_serving(), "{}", world.said());
    world
}

#[test]
fn registration_is_challenged() {
    let mut world = serving("");
    let answer = world.ask(&register("alice", 1, ""));
    assert!(answer.starts_with("SIP/2.0 401 ") && answer.contains("realm=\"example.org\""), "{answer}");
    assert!(answer.contains("192.0.2.2"), "{answer}");
}

#[test]
fn a_redirect_server_returns_the_contact() {
    let mut world = serving("auth=off mode=redirect");
    assert!(world.ask(&register("bob", 1, "")).starts_with("SIP/2.0 200 "));
    let invite = "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2:5060;branch=z9hG4bKi\r\n\
                  Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=2\r\nTo: <sip:bob@example.org>\r\n\
                  Call-ID: i\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@192.0.2.2:5060>\r\nContent-Length: 0\r\n\r\n";
    let answer = world.ask(invite);
    assert!(answer.starts_with("SIP/2.0 302 ") && answer.contains("<sip:bob@192.0.2.2:5060>"), "{answer}");
}

#[test]
fn it_serves_tcp() {
    let mut world = serving("auth=off");
    let socket = world.host.connect(4000);
    world.pass(20);
    let message = register("alice", 1, "").replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    world.host.tcp(socket).send_slice(message.as_bytes()).unwrap();
    world.pass(20);
    let answer = world.host.read(socket);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

#[test]
fn with_little_memory_new_work_gets_503_until_there_is_more() {
    let mut world = serving("auth=off");
    world.memory.used = world.memory.limit - (3 << 20);
    world.pass(5);
    let answer = world.ask(&register("alice", 1, ""));
    assert!(answer.starts_with("SIP/2.0 503 Out Of Memory") && answer.contains("Retry-After"), "{answer}");
    world.memory.used = world.memory.limit - (6 << 20);
    world.pass(5);
    assert!(
        world.ask(&register("alice", 2, "")).starts_with("SIP/2.0 503 "),
        "not before there is enough again"
    );
    world.memory.used = 8 << 20;
    world.pass(5);
    assert!(world.ask(&register("alice", 3, "")).starts_with("SIP/2.0 200 "));
    assert!(world.has_said("available again"));
}

#[test]
fn garbage_changes_nothing() {
    let mut world = serving("auth=off");
    for length in 0..200 {
        world.ask(&"\0garbage\r\n\r\n".repeat(20)[..length]);
    }
    assert!(world.ask(&register("alice", 1, "")).starts_with("SIP/2.0 200 "));
}

//! Tests of log events: refused logins with their reasons, and the steps of calls and bindings.

use crate::challenge::{Login, answered};
use crate::forwards::always;
use crate::harness::{
    ALICE, BOB, Request, World, forwarded, invite, only, query, register, request, tcp_flow,
};
use ringway_sansio::{ConnectionId, Event};
use ringway_server::{Algorithm, ForwardUri, Forwards};
use std::time::Duration;

fn events(world: &World) -> Vec<String> {
    std::mem::take(&mut world.memory.events.lock().unwrap())
}

fn challenged(world: &mut World, request: &Request) -> Login {
    Login::to(&only(world.udp(BOB, request)), "bob")
}

#[test]
fn a_refused_login_says_whose_it_is_and_why() {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.auth.algorithms = vec![Algorithm::Md5];
    });
    let own = register("bob", "<sip:bob@192.0.2.20>").call_id("own");
    let login = challenged(&mut world, &own);
    assert_eq!(events(&world), [] as [&str; 0], "a challenge is not a refused login");
    for (login, said) in [
        (Login { password: "wrong".into(), ..login.clone() }, "bob WrongPassword"),
        (Login { user: "mallory".into(), ..login.clone() }, "mallory UnknownUser"),
        (login.clone().algorithm(Algorithm::Sha256), "bob Unusable"),
    ] {
        assert_eq!(only(world.udp(BOB, &answered(&own, &login))).status(), 401);
        assert_eq!(events(&world), [said]);
    }
    let elsewhere = Login { realm: "example.net".into(), ..login.clone() };
    world.udp(BOB, &answered(&own, &elsewhere));
    assert_eq!(events(&world), [] as [&str; 0], "another server's credentials");

    let others = register("alice", "<sip:alice@192.0.2.20>").call_id("others");
    assert_eq!(only(world.udp(BOB, &answered(&others, &login))).status(), 403);
    assert_eq!(events(&world), ["bob NotItsAddress"]);
    assert_eq!(only(world.udp(BOB, &answered(&own, &login.clone().nc(2)))).status(), 200);
    assert_eq!(events(&world), ["bob@example.org Registered"]);
    world.pass(Duration::from_secs(301));
    let stale = answered(&query("bob").call_id("later"), &login.nc(3));
    assert_eq!(only(world.udp(BOB, &stale)).status(), 401);
    assert_eq!(events(&world), [] as [&str; 0], "a stale nonce with the right password");
}

/// Address of carol's connection.
const CAROL_BY_TCP: &str = "192.0.2.30:40001";

#[test]
fn bindings_say_how_they_change_and_why_they_end() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>;expires=60");
    world.register_tcp(5, "carol", CAROL_BY_TCP, &format!("<sip:carol@{CAROL_BY_TCP};transport=tcp>"));
    assert_eq!(events(&world), ["bob@example.org Registered", "carol@example.org Registered"]);
    world.message(tcp_flow(5, CAROL_BY_TCP), b"\r\n\r\n");
    world.event(Event::Closed(ConnectionId(5)));
    world.pass(Duration::from_secs(61));
    let contact = format!("sip:carol@{CAROL_BY_TCP};transport=tcp");
    assert_eq!(
        events(&world),
        [
            format!("carol@example.org {contact} ConnectionClosed"),
            "bob@example.org sip:bob@192.0.2.20 Expired".to_owned()
        ]
    );
}

#[test]
fn a_call_says_each_of_its_steps_once() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    events(&world);
    let answered = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("1")));
    world.udp(BOB, &answered.answer(200, &[]));
    world.udp(BOB, &answered.answer(200, &[]));
    assert_eq!(events(&world), ["1 Begun", "1 Forwarded", "1 Answered(200)"]);
    let busy = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("2")));
    world.udp(BOB, &busy.answer(486, &[]));
    assert_eq!(events(&world), ["2 Begun", "2 Forwarded", "2 Failed(486)"]);
    let call = invite("sip:bob@example.org").call_id("3");
    let rings = forwarded(world.udp(ALICE, &call));
    world.udp(BOB, &rings.answer(180, &[]));
    world.udp(ALICE, &call.cancel());
    world.udp(ALICE, &call.cancel());
    world.udp(BOB, &rings.answer(487, &[]));
    assert_eq!(events(&world), ["3 Begun", "3 Forwarded", "3 Cancelled"]);
    let silent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("4")));
    world.udp(BOB, &silent.answer(180, &[]));
    world.pass(Duration::from_secs(400));
    let said = events(&world);
    assert_eq!(said[..3], ["4 Begun", "4 Forwarded", "4 TimedOut"], "{said:?}");
    world.udp(ALICE, &invite("sip:nobody@example.org").call_id("5"));
    world.udp(ALICE, &request("MESSAGE", "sip:nobody@example.org").call_id("6"));
    assert_eq!(events(&world), ["5 Begun", "5 Failed(404)"]);
}

#[test]
fn a_diverted_call_says_where_it_goes() {
    let diverted = |world: &World| -> Vec<String> {
        events(world).into_iter().filter(|event| event.contains("Diverted")).collect()
    };
    let carol = "sip:carol@example.org";
    let mut world = World::with(|config| config.recurse = true);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.server.set_forwards(b"bob@example.org", always(carol));
    world.udp(ALICE, &invite("sip:bob@example.org").call_id("1"));
    assert_eq!(diverted(&world), ["1 Diverted(Forward(Always)) to sip:carol@example.org;cause=302"]);
    let busy = Forwards { busy: Some(ForwardUri::new(carol).unwrap()), ..Forwards::default() };
    world.server.set_forwards(b"bob@example.org", busy);
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("2")));
    assert_eq!(diverted(&world), [] as [&str; 0]);
    world.udp(BOB, &got.answer(486, &[]));
    assert_eq!(diverted(&world), ["2 Diverted(Forward(Busy)) to sip:carol@example.org;cause=486"]);
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("3")));
    world.udp(BOB, &got.answer(302, &["Contact: <sip:carol@example.org>;q=0.5, <sip:dave@example.org>"]));
    let mut both = diverted(&world);
    both.sort();
    assert_eq!(
        both,
        ["3 Diverted(Redirect) to sip:carol@example.org", "3 Diverted(Redirect) to sip:dave@example.org"]
    );
    let mut world = World::with(|config| config.mode = ringway_server::Mode::Redirect);
    world.server.set_forwards(b"bob@example.org", always(carol));
    world.udp(ALICE, &invite("sip:bob@example.org").call_id("4"));
    assert_eq!(diverted(&world), ["4 Diverted(Forward(Always)) to sip:carol@example.org;cause=302"]);
}

#[test]
fn a_call_that_is_refused_before_it_is_accepted_does_not_begin() {
    let mut world = World::open();
    world.udp(ALICE, &invite("sip:x@203.0.113.1").from("sip:eve@example.net").call_id("relay"));
    world.udp(ALICE, &invite("sips:bob@example.org").call_id("scheme"));
    assert_eq!(events(&world), ["relay Refused(403)", "scheme Refused(416)"]);
    let mut world = World::with(|config| config.mode = ringway_server::Mode::Redirect);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    events(&world);
    world.udp(ALICE, &invite("sip:bob@example.org").call_id("redirected"));
    world.udp(ALICE, &invite("sip:nobody@example.org").call_id("absent"));
    assert_eq!(
        events(&world),
        ["redirected Begun", "redirected Failed(302)", "absent Begun", "absent Failed(404)"]
    );
}

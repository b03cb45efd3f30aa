//! Tests of fixed bugs, each with the message that showed it.

use crate::harness::{ALICE, BOB, World, only, register, statuses};
use std::time::Duration;

/// Message of `testdata/regress` by its number.
macro_rules! bug {
    ($number:literal) => {
        &include_bytes!(concat!("../../../../testdata/regress/bug-", $number, ".sip"))[..]
    };
}

/// One contact is removed twice by one REGISTER: the number of contacts became negative.
#[test]
fn bug_005_a_contact_removed_twice() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let answer = only(world.udp(BOB, &bug!("005")));
    assert_eq!((answer.status(), answer.headers("Contact").len()), (200, 0));
}

/// A Proxy-Require that is folded inside a value was echoed with its fold, so that the 420 could not be sent and its
/// transaction never ended.
#[test]
fn bug_006_a_refusal_that_was_never_sent() {
    let mut world = World::open();
    assert_eq!(statuses(&world.udp(ALICE, &bug!("006"))), [420]);
    world.pass(Duration::from_secs(64));
    assert_eq!(world.server.transactions_len(), (0, 0));
}

/// A contact parameter with a fold inside its quotes was echoed with it: REGISTERs of that user were not answered any
/// more.
#[test]
fn bug_007_a_registration_that_was_never_confirmed() {
    let mut world = World::open();
    assert_eq!(statuses(&world.udp(BOB, &bug!("007"))), [200]);
    assert_eq!(statuses(&world.udp(BOB, &register("bob", "<sip:bob@192.0.2.21>"))), [200]);
}

/// Headers of a contact were copied into the Request-URI of the call: other clients would send them.
#[test]
fn bug_008_headers_of_a_contact_in_a_request_uri() {
    let mut world = World::open();
    assert_eq!(statuses(&world.udp(BOB, &bug!("008"))), [200]);
    let call = crate::harness::invite("sip:bob@example.org");
    assert_eq!(crate::harness::forwarded(world.udp(ALICE, &call)).uri(), "sip:bob@192.0.2.20");
}

//! Stories of cancelled calls, and their races.

use ringway_sansio::Transport;
use ringway_tests::{Behaviour, PhoneEvent, Story};
use std::cell::Cell;

#[test]
fn a_ringing_call_is_given_up() {
    Story::new("cancel").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Ring);
        world.call(alice, "bob");
        world.wait(3);
        world.cancel(alice);
        world.wait(3);
        assert_eq!(world.call_events(alice), [PhoneEvent::Progress(180), PhoneEvent::Refused("INVITE", 487)]);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Cancelled]);
        assert_eq!(world.forwarded("CANCEL"), 1);
    });
}

/// The caller has got only a 100, and the server no response from the callee: each waits with its CANCEL.
#[test]
fn a_call_is_given_up_before_it_rings() {
    Story::new("cancel before ringing").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Answer { ring_ms: 3000, answer_ms: 60_000 });
        world.call(alice, "bob");
        world.wait(1);
        world.cancel(alice);
        world.wait(1);
        assert_eq!(world.forwarded("CANCEL"), 0, "no response from the callee yet");
        world.wait(3);
        assert_eq!(world.forwarded("CANCEL"), 1);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 487)));
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Cancelled]);
    });
}

#[test]
fn a_silent_callee_does_not_keep_a_caller_who_gave_up() {
    Story::new("cancel to silence").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Silent);
        world.call(alice, "bob");
        world.wait(1);
        world.cancel(alice);
        world.wait(40);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 487)]);
        assert_eq!(world.forwarded("CANCEL"), 0, "RFC 3261 §9.1: not before a provisional response");
    });
}

/// The CANCEL is sent at every millisecond around the answer. In each case both phones agree in the end: either there was
/// no call, or it was answered and ended at once.
#[test]
fn a_cancel_and_an_answer_cross() {
    let (given_up, hung_up) = (Cell::new(0), Cell::new(0));
    Story::new("cancel race").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        for offset in 0..30 {
            let (before_alice, before_bob) = (world.events(alice).len(), world.events(bob).len());
            world.call(alice, "bob");
            world.wait_ms(990 + offset);
            world.cancel(alice);
            world.wait(70);
            let caller = world.events(alice).split_off(before_alice);
            let callee = world.events(bob).split_off(before_bob);
            match caller.get(1) {
                Some(PhoneEvent::Refused("INVITE", 487)) => {
                    given_up.set(given_up.get() + 1);
                    assert_eq!(callee, [PhoneEvent::Called, PhoneEvent::Cancelled]);
                }
                Some(PhoneEvent::Answered) => {
                    hung_up.set(hung_up.get() + 1);
                    assert_eq!(caller[2..], [PhoneEvent::Accepted("BYE")]);
                    assert_eq!(callee, [PhoneEvent::Called, PhoneEvent::Confirmed, PhoneEvent::HungUp]);
                }
                other => panic!("neither cancelled nor answered: {other:?}"),
            }
            assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
        }
    });
    assert!(
        given_up.get() > 0 && hung_up.get() > 0,
        "{} given up, {} hung up",
        given_up.get(),
        hung_up.get()
    );
}

/// An attacker who has read an INVITE must not be able to cancel the call.
#[test]
fn a_cancel_from_another_address_has_no_effect() {
    Story::new("foreign cancel").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        let mallory = world.phone_with("mallory", Transport::Udp, None);
        world.behave(bob, Behaviour::Ring);
        world.call(alice, "bob");
        world.wait(1);
        let trace = world.sim.trace();
        let invites = trace
            .packets()
            .filter(|seen| seen.first_line().starts_with("INVITE") && seen.sender.starts_with("alice"));
        let invite = String::from_utf8(invites.last().unwrap().bytes.clone()).unwrap();
        let cancel = invite.replace("INVITE", "CANCEL");
        world.phone_do(mallory, |phone, _, effects| phone.send_raw(cancel.as_bytes(), effects));
        world.wait(1);
        assert_eq!(world.statuses(mallory), [481]);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called], "it still rings");
        world.cancel(alice);
    });
}

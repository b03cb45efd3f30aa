//! Stories of calls that succeed.

use ringway_server::Mode;
use ringway_tests::{Behaviour, PhoneEvent, Story};

#[test]
fn a_call_is_made_and_ended_by_the_caller() {
    Story::new("call").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        world.hang_up(alice);
        world.wait(5);
        let caller = [PhoneEvent::Progress(180), PhoneEvent::Answered, PhoneEvent::Accepted("BYE")];
        assert_eq!(world.call_events(alice), caller);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Confirmed, PhoneEvent::HungUp]);
        assert_eq!(world.statuses(alice)[2..], [407, 100, 180, 200, 200], "after the REGISTER");
        let wire = ["INVITE", "ACK", "BYE"].map(|method| world.forwarded(method));
        assert_eq!(wire, [1, 1, 1]);
    });
}

#[test]
fn a_call_is_ended_by_the_callee() {
    Story::new("callee hangs up").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        world.hang_up(bob);
        world.wait(5);
        assert_eq!(
            world.call_events(alice),
            [PhoneEvent::Progress(180), PhoneEvent::Answered, PhoneEvent::HungUp]
        );
        let callee = [PhoneEvent::Called, PhoneEvent::Confirmed, PhoneEvent::Accepted("BYE")];
        assert_eq!(world.call_events(bob), callee, "without a challenge");
    });
}

#[test]
fn the_callee_does_not_see_the_callers_credentials() {
    Story::new("credentials").run(|world| {
        let (alice, _) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        for seen in world.sim.trace().packets().filter(|seen| seen.sender == "server") {
            let text = String::from_utf8_lossy(&seen.bytes);
            assert!(!text.contains("Proxy-Authorization"), "{text}");
        }
    });
}

#[test]
fn in_dialog_requests_are_challenged_where_that_is_configured() {
    Story::new("in_dialog").configure(|config| config.auth.in_dialog = true).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        let before = world.statuses(alice).len();
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.statuses(alice)[before..], [407, 200]);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
    });
}

#[test]
fn without_record_route_a_dialog_goes_past_the_server() {
    Story::new("no record-route").configure(|config| config.record_route = false).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Confirmed, PhoneEvent::HungUp]);
        assert_eq!(["INVITE", "ACK", "BYE"].map(|method| world.forwarded(method)), [1, 0, 0]);
    });
}

#[test]
fn a_stateless_proxy_forwards_a_call_and_generates_no_response() {
    Story::new("stateless").configure(|config| config.stateful = false).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait_ms(500);
        assert_eq!(world.pending(), (0, 0, 0), "there is no state");
        world.wait(5);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.statuses(alice)[2..], [407, 180, 200, 200], "no 100");
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Confirmed, PhoneEvent::HungUp]);
    });
}

#[test]
fn a_stateless_proxy_cancels_where_it_sent_the_invite() {
    Story::new("stateless cancel").configure(|config| config.stateful = false).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait_ms(500);
        world.cancel(alice);
        world.wait(5);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Cancelled]);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 487)));
    });
}

#[test]
fn a_stateless_proxy_forwards_the_ack_of_a_failure_to_the_callee() {
    Story::new("stateless 486").configure(|config| config.stateful = false).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Refuse(486));
        world.call(alice, "bob");
        world.wait(40);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 486)]);
        let answers = world.statuses(alice).into_iter().filter(|&status| status == 486);
        assert_eq!(answers.count(), 1, "the ACK finds the INVITE and stops the retransmission of the 486");
    });
}

#[test]
fn a_redirect_server_returns_the_callees_contacts() {
    Story::new("redirect").configure(|config| config.mode = Mode::Redirect).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 302)]);
        assert_eq!(world.call_events(bob), []);
        let redirected = world.sim.trace().packets().any(|seen| {
            let text = String::from_utf8_lossy(&seen.bytes);
            text.starts_with("SIP/2.0 302") && text.contains("\r\nContact: <sip:bob@10.0.1.2:5060>;expires=")
        });
        assert!(redirected);
    });
}

#[test]
fn other_methods_and_unknown_ones_pass() {
    Story::new("methods").run(|world| {
        let (alice, _) = (world.registered("alice"), world.registered("bob"));
        for method in ["MESSAGE", "OPTIONS", "SUBSCRIBE", "DANCE"] {
            world.phone_do(alice, |phone, now, effects| {
                phone.request_outside(now, method, "sip:bob@example.org", "", effects);
            });
            world.wait(1);
            assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Accepted(method)));
            assert_eq!(world.forwarded(method), 1);
        }
        world.phone_do(alice, |phone, now, effects| {
            phone.request_outside(now, "OPTIONS", "sip:example.org", "", effects);
        });
        world.wait(1);
        assert_eq!(
            world.events(alice).last(),
            Some(&PhoneEvent::Accepted("OPTIONS")),
            "the server's own response"
        );
        assert_eq!(world.forwarded("OPTIONS"), 1);
    });
}

#[test]
fn a_call_to_another_domain_is_looked_up() {
    Story::new("another domain").run(|world| {
        let (bob, alice) = (world.phone("bob"), world.registered("alice"));
        world.phone_do(alice, |phone, now, effects| {
            phone.call(now, "sip:bob@phone.example.net", effects);
        });
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(alice);
        world.phone_do(alice, |phone, now, effects| {
            phone.call(now, "sip:bob@nowhere.example.net", effects);
        });
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 480)));
    });
}

//! Stories of calls that fail, each with the responses of the RFC.

use ringway_tests::{Behaviour, PhoneEvent, Story};

#[test]
fn a_user_that_does_not_exist_is_not_found() {
    Story::new("404").run(|world| {
        let alice = world.registered("alice");
        world.call(alice, "nobody");
        world.wait(1);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 404)]);
    });
}

#[test]
fn a_user_that_is_not_registered_is_temporarily_unavailable() {
    Story::new("480").run(|world| {
        let (alice, _) = (world.registered("alice"), world.phone("bob"));
        world.call(alice, "bob");
        world.wait(1);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 480)]);
    });
}

#[test]
fn a_busy_callee_is_passed_on_and_acknowledged_hop_by_hop() {
    Story::new("486").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Refuse(486));
        world.call(alice, "bob");
        world.wait(40);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 486)]);
        let acks = world.sim.trace().packets().filter(|seen| seen.first_line().starts_with("ACK"));
        let mut senders: Vec<_> = acks.map(|seen| seen.sender.clone()).collect();
        senders.sort_unstable();
        senders.dedup();
        assert_eq!(senders, ["alice1", "server"]);
        let answers = world.statuses(alice).into_iter().filter(|&status| status == 486);
        assert_eq!(answers.count(), 1, "the ACK stops its retransmission");
    });
}

#[test]
fn a_response_whose_only_via_is_the_servers_leaves_nothing_behind() {
    Story::new("only via").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        for status in [200, 486, 603] {
            world.behave(bob, Behaviour::KeepTopViaOnly(status));
            world.call(alice, "bob");
            world.wait(300);
        }
        assert_eq!(world.call_events(alice), vec![PhoneEvent::Refused("INVITE", 502); 3]);
    });
}

#[test]
fn a_request_without_hops_left_goes_no_further() {
    Story::new("483").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.phone_do(alice, |phone, _, _| phone.set_hops(0));
        world.call(alice, "bob");
        world.wait(1);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 483)]);
        assert_eq!(world.call_events(bob), []);
    });
}

/// Bob's contact is carol's address-of-record, and carol's is bob's.
#[test]
fn a_loop_is_detected() {
    Story::new("482").run(|world| {
        let (alice, bob, carol) = (world.registered("alice"), world.phone("bob"), world.phone("carol"));
        for (phone, target) in [(bob, "carol"), (carol, "bob")] {
            world.phone_do(phone, |phone, now, effects| {
                phone.register_with(now, &format!("Contact: <sip:{target}@example.org>\r\n"), effects);
            });
        }
        world.wait(1);
        world.call(alice, "bob");
        world.wait(1);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 482)]);
        let invites = world.forwarded("INVITE");
        assert!(invites <= 4, "it was forwarded {invites} times");
    });
}

#[test]
fn nobody_answers_and_timer_c_ends_it() {
    Story::new("timer C").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Ring);
        world.call(alice, "bob");
        world.wait(189);
        assert_eq!(world.call_events(alice), [PhoneEvent::Progress(180)]);
        world.wait(3);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Cancelled]);
        assert_eq!(world.call_events(alice), [PhoneEvent::Progress(180), PhoneEvent::Refused("INVITE", 487)]);
        assert_eq!(world.shards().iter().map(|shard| shard.counters().timer_c).sum::<u64>(), 1);
    });
}

#[test]
fn a_silent_callee_times_out() {
    Story::new("408").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Silent);
        world.call(alice, "bob");
        world.wait(31);
        assert_eq!(world.call_events(alice), []);
        world.wait(2);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 408)]);
    });
}

/// RFC 4320 §4.2: the caller's own timer has expired too.
#[test]
fn silence_to_another_request_is_answered_with_silence() {
    Story::new("no 408").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.sim.set_link(world.server, bob, ringway_sim::Faults::cut());
        world.phone_do(alice, |phone, now, effects| {
            phone.request_outside(now, "MESSAGE", "sip:bob@example.org", "", effects);
        });
        world.wait(70);
        assert_eq!(world.call_events(alice), [PhoneEvent::Unanswered("MESSAGE")]);
    });
}

#[test]
fn a_wrong_password_makes_no_call() {
    Story::new("wrong password").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.phone_do(alice, |phone, _, _| phone.set_password("guessed"));
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 407)]);
        assert_eq!(world.call_events(bob), []);
    });
}

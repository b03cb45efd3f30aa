//! Stories of users with several phones.

use ringway_sim::HostId;
use ringway_tests::{Behaviour, PhoneEvent, Story, World};

#[test]
fn all_phones_ring_and_the_first_to_answer_gets_the_call() {
    Story::new("fork").run(|world| {
        let (alice, desk, mobile) = three(world);
        world.behave(mobile, Behaviour::Ring);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, desk, mobile]), [1, 1, 0]);
        assert_eq!(world.call_events(mobile), [PhoneEvent::Called, PhoneEvent::Cancelled]);
        assert_eq!((world.forwarded("INVITE"), world.forwarded("CANCEL")), (2, 1));
        world.hang_up(alice);
        world.wait(40);
        let mut finals = world.statuses(alice);
        finals.retain(|&status| status >= 400);
        assert_eq!(finals, [401, 407], "the 487 of the other phone is absorbed");
    });
}

/// Two answers within a few milliseconds: the second is in transit when the first cancels it. The caller gets both and
/// ends the second.
#[test]
fn two_phones_answer_at_once_and_one_call_is_left() {
    Story::new("two answers").run(|world| {
        let (alice, desk, mobile) = three(world);
        let answer_ms = 1000 + world.seed() % 5;
        world.behave(mobile, Behaviour::Answer { ring_ms: 50, answer_ms });
        world.call(alice, "bob");
        world.wait(40);
        let up = world.calls_up(&[alice, desk, mobile]);
        assert!(up == [1, 1, 0] || up == [1, 0, 1], "{up:?}");
        assert_eq!(world.count(alice, &PhoneEvent::Answered), 1);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, desk, mobile]), [0, 0, 0]);
    });
}

#[test]
fn the_best_of_several_failures_is_forwarded() {
    for (one, other, expected) in [(486, 486, 486), (486, 480, 486), (404, 503, 404), (500, 486, 486)] {
        Story::new("best failure").run(|world| {
            let (alice, desk, mobile) = three(world);
            world.behave(desk, Behaviour::Refuse(one));
            world.behave(mobile, Behaviour::Refuse(other));
            world.call(alice, "bob");
            world.wait(5);
            assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", expected)]);
        });
    }
}

#[test]
fn a_refusal_for_everywhere_ends_the_ringing_of_the_others() {
    Story::new("6xx").run(|world| {
        let (alice, desk, mobile) = three(world);
        world.behave(desk, Behaviour::Refuse(603));
        world.behave(mobile, Behaviour::Ring);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 603)));
        let mobile_events = world.call_events(mobile);
        assert_eq!(mobile_events, [PhoneEvent::Called, PhoneEvent::Cancelled]);
    });
}

#[test]
fn a_phone_that_is_switched_off_does_not_spoil_the_others_answer() {
    Story::new("one is off").run(|world| {
        let (alice, desk, mobile) = three(world);
        world.behave(mobile, Behaviour::Silent);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, desk]), [1, 1]);
        world.hang_up(alice);
        world.wait(60);
        world.behave(desk, Behaviour::Refuse(486));
        world.call(alice, "bob");
        world.wait(60);
        let last = world.events(alice).pop();
        assert_eq!(last, Some(PhoneEvent::Refused("INVITE", 486)), "a response is better than none");
    });
}

#[test]
fn giving_up_a_forked_call_ends_all_ringing() {
    Story::new("cancel a fork").run(|world| {
        let (alice, desk, mobile) = three(world);
        world.behave(desk, Behaviour::Ring);
        world.behave(mobile, Behaviour::Ring);
        world.call(alice, "bob");
        world.wait(1);
        world.cancel(alice);
        world.wait(1);
        for phone in [desk, mobile] {
            assert_eq!(world.call_events(phone), [PhoneEvent::Called, PhoneEvent::Cancelled]);
        }
        let refused = PhoneEvent::Refused("INVITE", 487);
        assert_eq!(world.count(alice, &refused), 1);
    });
}

/// Caller, and two phones of the called user.
fn three(world: &mut World) -> (HostId, HostId, HostId) {
    (world.registered("alice"), world.registered("bob"), world.registered("bob"))
}

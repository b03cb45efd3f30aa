//! Stories of the real phone and the real server.

use ringway_agent::{Account, AgentEvent, CallId, CallState, InDialogChallenges, Secret};
use ringway_sansio::Transport;
use ringway_sdp::{Direction, Protection};
use ringway_server::{Algorithm, Mode, NoncePolicy};
use ringway_sim::{Faults, HostId};
use ringway_tests::{Story, World};
use std::cell::Cell;
use std::time::Duration;

/// Registered phones of alice and bob, with alice's call and bob's.
fn call(world: &mut World) -> (HostId, CallId, HostId, CallId) {
    let (alice, bob) = (world.registered_softphone("alice"), world.registered_softphone("bob"));
    let (out, inward) = connect(world, alice, bob);
    (alice, out, bob, inward)
}

fn connect(world: &mut World, alice: HostId, bob: HostId) -> (CallId, CallId) {
    let out = world.dial(alice, "bob");
    world.wait(1);
    let inward = world.pick_up(bob).expect("it rings");
    world.wait(1);
    assert_eq!(states(world, &[(alice, out), (bob, inward)]), [Some(CallState::Established); 2]);
    (out, inward)
}

fn states(world: &World, calls: &[(HostId, CallId)]) -> Vec<Option<CallState>> {
    calls.iter().map(|&(host, call)| world.agent(host).call_state(call)).collect()
}

fn hang_up(world: &mut World, host: HostId, call: CallId) {
    let _ = world.agent_do(host, |agent, cx| agent.hang_up(cx, call));
}

/// Both sides agree: keys, directions and addresses of each are those of the other.
fn assert_agreement(world: &World, (one, a): (HostId, CallId), (two, b): (HostId, CallId)) {
    let (a, b) = (world.agreed(one, a).unwrap(), world.agreed(two, b).unwrap());
    let Protection::Sdes { suite, send, receive } = a.protection else { panic!("{:?}", a.protection) };
    let Protection::Sdes { suite: other, send: their_send, receive: their_receive } = b.protection else {
        panic!()
    };
    assert_eq!((suite, &send, &receive), (other, &their_receive, &their_send));
    assert_eq!(a.direction, b.direction.reversed());
    assert_eq!((a.remote, b.remote), (world.local_media(two).rtp, world.local_media(one).rtp));
}

#[test]
fn it_registers_refreshes_and_unregisters() {
    Story::new("softphone registers").run(|world| {
        let alice = world.registered_softphone("alice");
        assert_eq!(world.statuses_at(alice), [401, 200]);
        world.wait(7300);
        let refreshed =
            world.agent_events(alice).iter().filter(|it| matches!(it, AgentEvent::Registered { .. })).count();
        assert_eq!(refreshed, 3);
        world.agent_do(alice, |agent, cx| agent.shut_down(cx));
        world.wait(2);
        assert!(matches!(world.agent_events(alice).last(), Some(AgentEvent::Unregistered { .. })));
        let bindings: usize = world.shards().iter().map(|shard| shard.location().bindings_len()).sum();
        assert_eq!(bindings, 0);
    });
}

#[test]
fn it_registers_with_md5_where_that_is_all_there_is() {
    Story::new("softphone md5").configure(|config| config.auth.algorithms = vec![Algorithm::Md5]).run(
        |world| {
            world.registered_softphone("alice");
        },
    );
}

#[test]
fn it_registers_for_as_long_as_the_server_wants() {
    Story::new("softphone 423").run(|world| {
        let alice = world.softphone_with("alice", Transport::Udp, |config| config.accounts[0].expires_s = 30);
        world.start(alice);
        assert_eq!(world.agent_events(alice).len(), 1);
        assert!(matches!(world.agent_events(alice)[0], AgentEvent::Registered { expires_s: 60, .. }));
    });
}

/// Two calls and a change of the first: one challenge to the registration, one to the first INVITE.
#[test]
fn with_nonces_for_one_use_each_answer_has_the_next_one() {
    let once = |config: &mut ringway_server::Config| {
        config.auth.digest.nonces = NoncePolicy::Once;
        config.auth.in_dialog = true;
    };
    Story::new("softphone nonces").configure(once).run(|world| {
        let answers = |config: &mut ringway_agent::Config| {
            config.accounts[0].in_dialog = InDialogChallenges::AnsweredAtServer;
        };
        let alice = world.softphone_with("alice", Transport::Udp, answers);
        let bob = world.registered_softphone("bob");
        world.start(alice);
        assert_eq!(world.statuses_at(alice), [401, 200]);
        for _ in 0..2 {
            let (out, _) = connect(world, alice, bob);
            hang_up(world, alice, out);
            world.wait(40);
        }
        let challenges = world.statuses_at(alice).iter().filter(|&&status| status == 407).count();
        assert_eq!(
            challenges, 3,
            "the first INVITE, and both BYEs: the phone sends them without credentials"
        );
        assert_eq!(world.agent(alice).counters().next_nonces, 5, "REGISTER, INVITE, BYE, INVITE, BYE");
        assert_eq!(world.services.tables().logins(), [6, 0, 0]);
    });
}

/// The response with the next nonce gets lost, twice, or comes late: the phone is challenged and goes on.
#[test]
fn with_nonces_for_one_use_losses_cost_a_challenge_and_no_password() {
    let faults = Faults {
        loss_per_mille: 200,
        duplicate_per_mille: 100,
        reorder_per_mille: 100,
        delay: Duration::from_millis(5)..Duration::from_millis(60),
    };
    let once = |config: &mut ringway_server::Config| config.auth.digest.nonces = NoncePolicy::Once;
    Story::new("softphone nonces lost").faults(faults).configure(once).run(|world| {
        let alice = world.softphone_with("alice", Transport::Udp, |config| config.accounts[0].expires_s = 60);
        world.start(alice);
        world.wait(1800);
        let events = world.agent_events(alice);
        let is_asked =
            |event: &AgentEvent| matches!(event, AgentEvent::RegistrationFailed { status: 401, .. });
        assert!(!events.iter().any(is_asked), "{events:?}");
        assert_eq!(world.services.tables().logins()[1..], [0, 0], "no password was wrong");
        assert!(world.agent(alice).counters().next_nonces > 20);
        world.agent_do(alice, |agent, cx| agent.shut_down(cx));
        world.wait(100);
    });
}

#[test]
fn a_wrong_password_is_reported_and_not_tried_for_ever() {
    Story::new("softphone wrong password").run(|world| {
        let alice = world.softphone_with("alice", Transport::Udp, |config| {
            config.accounts[0].secret = Secret::Password("wrong".into());
        });
        world.agent_do(alice, |agent, cx| agent.start(cx));
        world.wait(7000);
        let events = world.agent_events(alice);
        assert!(
            matches!(events.as_slice(), [AgentEvent::RegistrationFailed { status: 401, retry_s: None, .. }]),
            "{events:?}"
        );
    });
}

#[test]
fn a_call_with_hold_and_resume_keeps_its_keys() {
    Story::new("softphone call").run(|world| {
        let (alice, out, bob, inward) = call(world);
        assert_agreement(world, (alice, out), (bob, inward));
        let before = world.agreed(alice, out).unwrap().protection;
        for (holder, held) in [((alice, out), (bob, inward)), ((bob, inward), (alice, out))] {
            world.agent_do(holder.0, |agent, cx| agent.hold(cx, holder.1)).unwrap();
            world.wait(1);
            assert_agreement(world, holder, held);
            assert_eq!(world.agreed(holder.0, holder.1).unwrap().direction, Direction::SendOnly);
            assert!(world.agent_events(held.0).contains(&AgentEvent::HeldByPeer { call: held.1 }));
            world.agent_do(holder.0, |agent, cx| agent.resume(cx, holder.1)).unwrap();
            world.wait(1);
            assert_agreement(world, holder, held);
            assert_eq!(world.agreed(holder.0, holder.1).unwrap().direction, Direction::SendRecv);
        }
        assert_eq!(world.agreed(alice, out).unwrap().protection, before, "the rollover counters live on");
        hang_up(world, bob, inward);
        world.wait(2);
        assert_eq!((world.ended(alice, out), world.ended(bob, inward)), (Some(200), Some(200)));
    });
}

#[test]
fn calls_by_tcp() {
    Story::new("softphone tcp").run(|world| {
        let alice = world.softphone_with("alice", Transport::Tcp, |_| {});
        let bob = world.softphone_with("bob", Transport::Tcp, |_| {});
        world.start(alice);
        world.start(bob);
        let (out, inward) = connect(world, alice, bob);
        assert_agreement(world, (alice, out), (bob, inward));
        hang_up(world, alice, out);
        world.wait(2);
        assert_eq!(world.ended(bob, inward), Some(200));
    });
}

#[test]
fn both_hold_at_once_and_both_get_it() {
    Story::new("softphone glare").run(|world| {
        let (alice, out, bob, inward) = call(world);
        world.agent_do(alice, |agent, cx| agent.hold(cx, out)).unwrap();
        world.agent_do(bob, |agent, cx| agent.hold(cx, inward)).unwrap();
        world.wait(15);
        for (host, call) in [(alice, out), (bob, inward)] {
            assert!(
                world.agent_events(host).contains(&AgentEvent::HeldByPeer { call }),
                "{:?}",
                world.agent_events(host)
            );
            assert_eq!(world.agreed(host, call).unwrap().direction, Direction::Inactive);
        }
        hang_up(world, alice, out);
        world.wait(5);
    });
}

#[test]
fn a_caller_that_cancels_during_the_answer_has_no_call() {
    Story::new("softphone cancel race").run(|world| {
        let (alice, bob) = (world.registered_softphone("alice"), world.registered_softphone("bob"));
        let out = world.dial(alice, "bob");
        world.wait_ms(500);
        let (first, second) = (world.seed() % 3, world.seed() / 3 % 7);
        if first == 0 {
            hang_up(world, alice, out);
            world.wait_ms(second);
            let _ = world.pick_up(bob);
        } else {
            let _ = world.pick_up(bob);
            world.wait_ms(second);
            hang_up(world, alice, out);
        }
        world.wait(40);
        let inward = world.incoming(bob).unwrap();
        assert_eq!(states(world, &[(alice, out), (bob, inward)]), [None; 2]);
        assert!(world.ended(alice, out).is_some() && world.ended(bob, inward).is_some());
    });
}

#[test]
fn all_phones_of_a_user_ring_and_one_gets_the_call() {
    Story::new("softphone fork").run(|world| {
        let (alice, desk) = (world.registered_softphone("alice"), world.registered_softphone("bob"));
        let mobile = world.registered_softphone("bob");
        let out = world.dial(alice, "bob");
        world.wait(1);
        for host in [desk, mobile] {
            let call = world.incoming(host).unwrap();
            world.agent_do(host, |agent, cx| agent.ring(cx, call, 180)).unwrap();
        }
        world.wait(1);
        let one = world.pick_up(desk).unwrap();
        // The second sometimes answers before the CANCEL.
        world.wait_ms(world.seed() % 6);
        let _ = world.pick_up(mobile);
        world.wait(40);
        let two = world.incoming(mobile).unwrap();
        let up = states(world, &[(desk, one), (mobile, two)]);
        assert_eq!(up.iter().flatten().count(), 1, "{up:?}");
        assert_eq!(world.agent(alice).call_state(out), Some(CallState::Established));
        hang_up(world, alice, out);
        world.wait(40);
        assert_eq!(states(world, &[(desk, one), (mobile, two)]), [None; 2]);
    });
}

#[test]
fn bob_gives_alice_to_carol() {
    Story::new("softphone transfer").run(|world| {
        let (alice, out, bob, inward) = call(world);
        let carol = world.registered_softphone("carol");
        world.agent_do(bob, |agent, cx| agent.transfer(cx, inward, "carol")).unwrap();
        world.wait(1);
        assert!(
            world
                .agent_events(alice)
                .iter()
                .any(|event| matches!(event, AgentEvent::TransferRequested { .. }))
        );
        let media = world.local_media(alice);
        let new = world.agent_do(alice, |agent, cx| agent.accept_transfer(cx, out, media)).unwrap();
        world.wait(1);
        let at_carol = world.pick_up(carol).unwrap();
        world.wait(2);
        assert!(
            world
                .agent_events(bob)
                .iter()
                .any(|event| matches!(event, AgentEvent::TransferDone { status: 200, .. }))
        );
        assert_eq!((world.ended(bob, inward), world.ended(alice, out)), (Some(200), Some(200)));
        assert_agreement(world, (alice, new), (carol, at_carol));
        hang_up(world, alice, new);
        world.wait(2);
    });
}

#[test]
fn twenty_percent_loss_and_the_call_is_made_held_and_ended() {
    let faults = Faults {
        loss_per_mille: 200,
        duplicate_per_mille: 50,
        reorder_per_mille: 100,
        delay: Duration::from_millis(5)..Duration::from_millis(60),
    };
    let (total, whole) = (Cell::new(0), Cell::new(0));
    Story::new("softphone loss").faults(faults).run(|world| {
        total.set(total.get() + 1);
        let (alice, bob) = (world.registered_softphone("alice"), world.registered_softphone("bob"));
        let out = world.dial(alice, "bob");
        world.wait(10);
        let Ok(inward) = world.pick_up(bob) else {
            hang_up(world, alice, out);
            return world.wait(100);
        };
        // With any losses, both have the same state in the end.
        world.wait(100);
        let both = [(alice, out), (bob, inward)];
        match states(world, &both)[..] {
            [Some(CallState::Established), Some(CallState::Established)] => {}
            [None, None] => return,
            ref other => panic!("{other:?}"),
        }
        assert_agreement(world, both[0], both[1]);
        world.agent_do(alice, |agent, cx| agent.hold(cx, out)).unwrap();
        world.wait(100);
        if world.agent(alice).call_state(out).is_some() {
            assert_eq!(world.agreed(alice, out).unwrap().direction, Direction::SendOnly);
            assert_agreement(world, both[0], both[1]);
            whole.set(whole.get() + 1);
        }
        hang_up(world, bob, inward);
        world.wait(100);
        assert_eq!(states(world, &both), [None; 2]);
    });
    assert!(whole.get() * 10 >= total.get() * 9, "{whole:?} of {total:?} calls were made, held and ended");
}

#[test]
fn two_phones_without_a_server() {
    let faults = Faults { loss_per_mille: 100, reorder_per_mille: 100, ..Faults::default() };
    Story::new("softphone direct").faults(faults).run(|world| {
        let direct = |user: &str| {
            let account = Account::direct(&format!("sip:{user}@example.org"));
            move |config: &mut ringway_agent::Config| config.accounts = vec![account]
        };
        let alice = world.softphone_with("alice", Transport::Udp, direct("alice"));
        let bob = world.softphone_with("bob", Transport::Udp, direct("bob"));
        let out = world.dial(alice, &format!("sip:bob@{}", world.softphone_address(bob)));
        world.wait(8);
        let inward = world.pick_up(bob).expect("it rings");
        world.wait(8);
        assert_agreement(world, (alice, out), (bob, inward));
        hang_up(world, alice, out);
        world.wait(40);
        assert_eq!(world.agent(bob).call_state(inward), None);
    });
}

#[test]
fn a_redirecting_server_is_followed() {
    Story::new("softphone redirect").configure(|config| config.mode = Mode::Redirect).run(|world| {
        let (alice, out, bob, inward) = call(world);
        assert_agreement(world, (alice, out), (bob, inward));
        hang_up(world, alice, out);
        world.wait(2);
    });
}

#[test]
fn a_server_that_asks_inside_dialogs_gets_its_answer_where_that_is_wanted() {
    Story::new("softphone in dialog").configure(|config| config.auth.in_dialog = true).run(|world| {
        let answers = |config: &mut ringway_agent::Config| {
            config.accounts[0].in_dialog = InDialogChallenges::AnsweredAtServer;
        };
        let alice = world.softphone_with("alice", Transport::Udp, answers);
        let bob = world.softphone_with("bob", Transport::Udp, answers);
        world.start(alice);
        world.start(bob);
        let (out, inward) = connect(world, alice, bob);
        hang_up(world, alice, out);
        world.wait(2);
        assert_eq!(world.ended(bob, inward), Some(200));
    });
}

#[test]
fn timeout_unregistered_and_unknown_users() {
    Story::new("softphone refused").run(|world| {
        let (alice, bob) = (world.registered_softphone("alice"), world.softphone("bob"));
        let absent = world.dial(alice, "bob");
        let unknown = world.dial(alice, "nobody");
        world.wait(5);
        assert_eq!((world.ended(alice, absent), world.ended(alice, unknown)), (Some(480), Some(404)));
        world.start(bob);
        let busy = world.dial(alice, "bob");
        world.wait(1);
        let inward = world.incoming(bob).unwrap();
        world.agent_do(bob, |agent, cx| agent.reject(cx, inward, 486)).unwrap();
        world.wait(5);
        assert_eq!(world.ended(alice, busy), Some(486));
        let long = world.dial(alice, "bob");
        world.wait(240);
        assert!(world.ended(alice, long).is_some());
    });
}

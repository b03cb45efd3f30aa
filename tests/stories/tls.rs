//! Stories of TLS: phones that use it, and strangers at its port. Handshakes and certificates are real (decision 0030).

use ringway_agent::{AgentEvent, CallState};
use ringway_sansio::Transport;
use ringway_sim::{Faults, HostId, Sim};
use ringway_tests::{Greeting, PhoneEvent, Scheme, Story, World};
use ringway_tls_bare::HANDSHAKES_MAX;
use std::cell::RefCell;
use std::time::Duration;

fn story(name: &'static str) -> Story {
    Story::new(name).configure(World::with_tls)
}

/// Registered softphone that reaches the server by TLS.
fn softphone(world: &mut World, user: &str) -> HostId {
    let phone = world.softphone_with(user, Transport::Tls, |_| {});
    world.start(phone);
    phone
}

/// Registered phone that uses TLS.
fn phone(world: &mut World, user: &str, scheme: Scheme) -> HostId {
    let phone = world.tls_phone(user, scheme);
    world.register(phone);
    phone
}

/// Transports of all sent packets.
fn transports(world: &World) -> Vec<Transport> {
    let mut seen: Vec<_> = world.sim.trace().packets().map(|packet| packet.transport).collect();
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn phones_register_and_call_over_tls() {
    story("calls over TLS").run(|world| {
        let (alice, bob) = (softphone(world, "alice"), softphone(world, "bob"));
        let out = world.dial(alice, "bob");
        world.wait(1);
        let inward = world.pick_up(bob).expect("it rings");
        world.wait(1);
        for (host, call) in [(alice, out), (bob, inward)] {
            assert_eq!(world.agent(host).call_state(call), Some(CallState::Established));
        }
        let (by, call) = if world.seed() % 2 == 0 { (alice, out) } else { (bob, inward) };
        let _ = world.agent_do(by, |agent, cx| agent.hang_up(cx, call));
        world.wait(2);
        for (host, call) in [(alice, out), (bob, inward)] {
            assert!(world.ended(host, call).is_some());
            assert_eq!(world.dialled(host).failed, 0);
        }
        assert_eq!(transports(world), [Transport::Tls]);
        let accepted = world.accepted(world.server);
        assert_eq!((accepted.failed, accepted.refused, accepted.refused_source), (0, 0, 0));
        assert!(accepted.completed >= 2);
    });
}

#[test]
fn a_sips_call_is_secure_from_end_to_end() {
    story("sips").run(|world| {
        let (alice, bob) = (phone(world, "alice", Scheme::Sips), phone(world, "bob", Scheme::Sips));
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        let by = if world.seed() % 2 == 0 { alice } else { bob };
        world.hang_up(by);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
        assert_eq!(transports(world), [Transport::Tls]);
        let requests = world.sim.trace().packets().map(|packet| packet.first_line());
        let invites: Vec<_> = requests.filter(|line| line.starts_with("INVITE ")).collect();
        assert!(!invites.is_empty() && invites.iter().all(|line| line.starts_with("INVITE sips:")));
    });
}

#[test]
fn a_sips_call_is_not_downgraded() {
    story("sips to sip").run(|world| {
        let alice = phone(world, "alice", Scheme::Sips);
        let bob = world.registered("bob");
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 480)));
        assert_eq!((world.count(bob, &PhoneEvent::Called), world.forwarded("INVITE")), (0, 0));
    });
}

#[test]
fn phones_of_tls_and_udp_call_each_other() {
    for is_caller_secure in [true, false] {
        story("TLS and UDP").run(|world| {
            let (secure, open) = (phone(world, "alice", Scheme::Sip), world.registered("bob"));
            let (caller, callee, name) =
                if is_caller_secure { (secure, open, "bob") } else { (open, secure, "alice") };
            world.call(caller, name);
            world.wait(5);
            assert_eq!(world.calls_up(&[caller, callee]), [1, 1]);
            world.hang_up(callee);
            world.wait(5);
            assert_eq!(world.calls_up(&[caller, callee]), [0, 0]);
        });
    }
}

#[test]
fn slow_and_lossy_links_break_no_handshake() {
    let slow = Faults {
        loss_per_mille: 200,
        duplicate_per_mille: 0,
        reorder_per_mille: 0,
        delay: Duration::from_millis(20)..Duration::from_millis(80),
    };
    story("slow TLS").faults(slow).run(|world| {
        let (alice, bob) = (phone(world, "alice", Scheme::Sips), phone(world, "bob", Scheme::Sips));
        world.call(alice, "bob");
        world.wait(45);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(alice);
        world.wait(45);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
        assert_eq!(world.accepted(world.server).failed, 0);
    });
}

/// A phone that registers, with a link that is cut as soon as the server has accepted its connection.
fn cut_in_handshake(world: &mut World) -> HostId {
    let alice = world.tls_phone("alice", Scheme::Sip);
    world.phone_do(alice, |phone, now, effects| phone.register(now, 3600, effects));
    let server = world.server;
    let is_accepted = |sim: &Sim| !sim.connections(server).is_empty();
    assert!(world.sim.run_until_holds(Duration::from_secs(1), is_accepted));
    world.sim.set_link(server, alice, Faults::cut());
    alice
}

/// The link is dead in the middle of the handshake and comes back in time: TCP delivers the lost bytes.
#[test]
fn a_handshake_outlives_a_dead_link() {
    story("dead link").run(|world| {
        let alice = cut_in_handshake(world);
        world.wait(2);
        assert!(world.events(alice).is_empty() && world.handshakes(world.server) == 1);
        world.sim.set_link(world.server, alice, Faults::default());
        world.wait(2);
        assert!(matches!(world.events(alice).last(), Some(PhoneEvent::Registered { .. })));
    });
}

/// The handshake of a phone never ends: the phone's limit for dialling ends it, and the request fails.
#[test]
fn a_request_fails_if_the_handshake_does_not_end() {
    story("no answer").run(|world| {
        let alice = cut_in_handshake(world);
        world.wait(5);
        assert_eq!(world.events(alice), [PhoneEvent::Unanswered("REGISTER")]);
        world.sim.set_link(world.server, alice, Faults::default());
        world.wait(11);
        assert_eq!((world.handshakes(world.server), world.sim.connections(world.server).len()), (0, 0));
    });
}

/// The caller's connections are cut in mid-call. The phone registers again over a new one, and either side can end the call: the
/// requests of the other one follow to the new connection (decision 0053).
#[test]
fn a_call_outlives_a_lost_connection() {
    story("lost in a call").run(|world| {
        let (alice, bob) = (softphone(world, "alice"), softphone(world, "bob"));
        let out = world.dial(alice, "bob");
        world.wait(1);
        let inward = world.pick_up(bob).expect("it rings");
        world.wait(1);
        for connection in world.sim.connections(alice) {
            world.sim.close(connection);
        }
        world.wait(5);
        let registered = |it: &&AgentEvent| matches!(it, AgentEvent::Registered { .. });
        assert_eq!(world.agent_events(alice).iter().filter(registered).count(), 2, "it registered again");
        for (host, call) in [(alice, out), (bob, inward)] {
            assert_eq!(world.agent(host).call_state(call), Some(CallState::Established));
        }
        let bob_is_first = world.seed() % 2 == 0;
        if bob_is_first {
            let _ = world.agent_do(bob, |agent, cx| agent.hang_up(cx, inward));
            world.wait(2);
            assert!(world.ended(bob, inward).is_some() && world.ended(alice, out).is_some());
        } else {
            let _ = world.agent_do(alice, |agent, cx| agent.hang_up(cx, out));
            world.wait(2);
        }
        assert!(world.ended(bob, inward).is_some() && world.ended(alice, out).is_some());
        let again = world.dial(alice, "bob");
        world.wait(1);
        let inward = world.pick_up(bob).expect("it rings");
        world.wait(1);
        let _ = world.agent_do(bob, |agent, cx| agent.hang_up(cx, inward));
        world.wait(2);
        assert!(world.ended(bob, inward).is_some() && world.ended(alice, again).is_some());
        assert!(world.accepted(world.server).completed >= 3);
    });
}

/// Its link is dead in mid-call for some seconds: TCP delivers the lost bytes, and the BYE ends the call.
#[test]
fn a_call_outlives_a_dead_link() {
    story("dead in a call").run(|world| {
        let (alice, bob) = (phone(world, "alice", Scheme::Sips), phone(world, "bob", Scheme::Sips));
        world.call(alice, "bob");
        world.wait(5);
        world.sim.set_link(world.server, alice, Faults::cut());
        world.sim.set_link(alice, world.server, Faults::cut());
        let by = if world.seed() % 2 == 0 { alice } else { bob };
        world.hang_up(by);
        world.wait(10);
        assert_eq!(world.calls_up(&[alice, bob]).iter().sum::<usize>(), 1, "the BYE is on its way");
        world.sim.set_link(world.server, alice, Faults::default());
        world.sim.set_link(alice, world.server, Faults::default());
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
        assert_eq!(world.events(by).last(), Some(&PhoneEvent::Accepted("BYE")));
        assert_eq!((world.accepted(world.server).failed, world.dialled(world.server).completed), (0, 0));
    });
}

#[test]
fn a_phone_refuses_a_server_of_another_name() {
    story("wrong server").run(|world| {
        world.certify(world.server, &["sip.example.net", "*.example.org"]);
        let alice = world.softphone_with("alice", Transport::Tls, |_| {});
        world.agent_do(alice, |agent, cx| agent.start(cx));
        world.wait(5);
        assert!(!world.agent(alice).is_registered(ringway_agent::AccountId(0)));
        let failed = |it: &AgentEvent| matches!(it, AgentEvent::RegistrationFailed { .. });
        assert!(world.agent_events(alice).iter().any(failed));
        assert!(world.dial_failure(alice).expect("it failed").contains("certificate"));
        assert_eq!((world.requests("REGISTER"), world.accepted(world.server).completed), (0, 0));
        assert!(world.accepted(world.server).failed >= 1, "the server got the alert");
        world.agent_do(alice, |agent, cx| agent.shut_down(cx));
    });
}

/// Bob's connection is gone, and the host at his contact has a certificate of another name: the server does not send it the
/// INVITE, and alice gets an error.
#[test]
fn the_server_refuses_a_phone_of_another_name() {
    for (names, status) in [(&["10.0.1.2"][..], None), (&["10.0.1.99", "bob.example.org"][..], Some(480))] {
        story("wrong phone").run(|world| {
            let (alice, bob) = (phone(world, "alice", Scheme::Sip), phone(world, "bob", Scheme::Sip));
            world.certify(bob, names);
            world.sim.close(world.sim.connections(bob)[0]);
            world.wait(1);
            world.call(alice, "bob");
            world.wait(5);
            match status {
                None => {
                    assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
                    assert_eq!(world.dialled(world.server).completed, 1);
                    world.hang_up(alice);
                    world.wait(5);
                }
                Some(status) => {
                    assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", status)));
                    assert_eq!(world.count(bob, &PhoneEvent::Called), 0);
                    assert_eq!(world.dialled(world.server).failed, 1);
                    assert!(world.dial_failure(world.server).expect("it failed").contains("certificate"));
                }
            }
        });
    }
}

#[test]
fn half_done_handshakes_end_by_their_deadline() {
    for greeting in [Greeting::Nothing, Greeting::FirstByte, Greeting::HalfClientHello, Greeting::ClientHello]
    {
        story("half a handshake").run(|world| {
            let stranger = world.stranger(1, &greeting);
            let begin = world.sim.now();
            world.knock(stranger, 3);
            world.wait(9);
            assert_eq!((world.handshakes(world.server), world.stranger_at(stranger).closed().len()), (3, 0));
            world.wait(2);
            assert_eq!((world.handshakes(world.server), world.stranger_at(stranger).closed().len()), (0, 3));
            for closed in world.stranger_at(stranger).closed() {
                let after = closed.since(begin);
                assert!(
                    (Duration::from_secs(10)..Duration::from_millis(10_100)).contains(&after),
                    "{after:?}"
                );
            }
            assert!(world.sim.connections(world.server).is_empty());
            assert_eq!(world.stranger_at(stranger).received().is_empty(), greeting != Greeting::ClientHello);
            assert_eq!(world.accepted(world.server).completed, 0);
        });
    }
}

#[test]
fn handshakes_are_limited_by_source_and_in_total() {
    for greeting in [Greeting::Nothing, Greeting::HalfClientHello, Greeting::ClientHello] {
        story("limits").run(|world| {
            let strangers: Vec<_> = (1..=6).map(|number| world.stranger(number, &greeting)).collect();
            world.knock(strangers[0], 20);
            world.wait(1);
            assert_eq!(
                (world.handshakes(world.server), world.accepted(world.server).refused_source),
                (8, 12)
            );
            assert_eq!(world.stranger_at(strangers[0]).closed().len(), 12, "they are closed at once");
            for &stranger in &strangers[1..] {
                world.knock(stranger, 8);
            }
            world.wait(1);
            assert_eq!(
                (world.handshakes(world.server), world.accepted(world.server).refused),
                (HANDSHAKES_MAX, 16)
            );
            // A phone is refused as long as the limit is reached, and gets in afterwards.
            let alice = world.tls_phone("alice", Scheme::Sip);
            world.phone_do(alice, |phone, now, effects| phone.register(now, 3600, effects));
            world.wait(1);
            assert_eq!(world.events(alice), [PhoneEvent::Unanswered("REGISTER")]);
            world.wait(10);
            assert_eq!(world.handshakes(world.server), 0);
            world.register(alice);
            let closed: usize = strangers.iter().map(|&it| world.stranger_at(it).closed().len()).sum();
            assert_eq!(closed, 60, "each connection of a stranger has ended");
        });
    }
}

#[test]
fn a_flood_of_handshakes_leaves_users_of_udp_alone() {
    story("flood").run(|world| {
        let strangers: Vec<_> =
            (1..=8).map(|number| world.stranger(number, &Greeting::ClientHelloAgainAndAgain)).collect();
        for &stranger in &strangers {
            world.knock(stranger, 4);
        }
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        let begin = world.sim.now();
        world.call(alice, "bob");
        world.wait_ms(1500);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(alice);
        world.wait_ms(500);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
        let answered: u64 = strangers.iter().map(|&it| u64::from(world.stranger_at(it).opened())).sum();
        let accepted = world.accepted(world.server);
        assert!(answered > 64 && accepted.waited > 32, "it is a flood: {answered} {accepted:?}");
        let most = 10 + 50 * (world.sim.now().since(begin).as_secs() + 2);
        assert!(answered < most + 32, "{answered} handshakes, {most} at most began");
        for stranger in strangers {
            world.sim.remove(stranger);
        }
    });
}

#[test]
fn other_protocols_at_the_port_are_closed() {
    let others: [&'static [u8]; 3] = [
        b"OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/TCP 10.0.9.1;branch=z9hG4bKx\r\n",
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for bytes in others {
        story("not TLS").run(|world| {
            let stranger = world.stranger(1, &Greeting::Bytes(bytes));
            world.knock(stranger, 2);
            world.wait(1);
            assert_eq!(world.stranger_at(stranger).closed().len(), 2);
            assert!(world.stranger_at(stranger).received().is_empty(), "nothing is answered");
            let accepted = world.accepted(world.server);
            assert_eq!((accepted.not_tls, accepted.failed, world.handshakes(world.server)), (2, 0, 0));
            assert_eq!(world.requests("OPTIONS"), 0);
        });
    }
}

/// TLS at a port without TLS: no message, and the limit for the first one ends the connection.
#[test]
fn tls_at_the_port_of_tcp_is_closed() {
    story("TLS to TCP").run(|world| {
        let alice = world.tls_phone("alice", Scheme::Sip);
        let uri = "sip:10.0.0.1:5060;transport=tls";
        world.phone_do(alice, |phone, now, effects| phone.request_outside(now, "OPTIONS", uri, "", effects));
        world.wait(5);
        assert_eq!(world.events(alice), [PhoneEvent::Unanswered("OPTIONS")]);
        world.wait(100);
        assert!(world.sim.connections(world.server).is_empty());
    });
}

/// The times in the trace depend on the number of bytes of each record.
#[test]
fn equal_seeds_give_equal_runs() {
    let run = || {
        let traces = RefCell::new(Vec::new());
        story("equal").run(|world| {
            let (alice, bob) = (phone(world, "alice", Scheme::Sips), phone(world, "bob", Scheme::Sips));
            world.call(alice, "bob");
            world.wait(5);
            world.hang_up(bob);
            world.wait(5);
            traces.borrow_mut().push(world.sim.trace().to_string());
        });
        traces.into_inner()
    };
    assert_eq!(run(), run());
}

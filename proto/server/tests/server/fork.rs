//! Tests of forking (RFC 3261 §16.7): targets, the best response, and timeouts.

use crate::harness::{
    ALICE, Request, Sent, World, forwarded, invite, only, register, request, requests, statuses,
};
use ringway_sansio::Event;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Call of bob, with as many phones as there are responses: 192.0.2.20, 192.0.2.21 ...
fn forked(method: &str, phones: usize) -> (World, Request, Vec<Sent>) {
    let mut world = World::with(|config| config.registrar.max_contacts = 10);
    let contacts: Vec<_> = (0..phones).map(|phone| format!("<sip:bob@192.0.2.{}>", 20 + phone)).collect();
    let through = "Via: SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKx";
    let request = register("bob", &contacts.join(", ")).line(through);
    assert_eq!(only(world.udp("192.0.2.99:5060", &request)).status(), 200);
    let call = match method {
        "INVITE" => invite("sip:bob@example.org"),
        other => crate::harness::request(other, "sip:bob@example.org"),
    };
    let called = requests(world.udp(ALICE, &call));
    assert_eq!(called.len(), phones);
    (world, call, called)
}

/// Final response to alice when bob's phones send these responses, in this order.
#[track_caller]
fn best(answers: &[u16]) -> u16 {
    let (mut world, _, called) = forked("INVITE", answers.len());
    let mut response = Vec::new();
    for (phone, &status) in called.iter().zip(answers) {
        assert!(response.is_empty(), "before all have answered: {response:?}");
        let sent = world.udp(&phone.to(), &phone.answer(status, &[]));
        assert!(sent.iter().any(|sent| sent.method() == "ACK" && sent.to() == phone.to()));
        response = statuses(&sent);
    }
    assert_eq!(response.len(), 1, "{answers:?}");
    response[0]
}

#[test]
fn all_phones_of_a_group_are_called_at_once() {
    let (_, _, called) = forked("INVITE", 3);
    let mut branches: Vec<_> = called.iter().map(|sent| sent.headers("Via")[0].clone()).collect();
    branches.dedup();
    assert_eq!(branches.len(), 3, "each branch is a transaction of its own");
}

#[test]
fn the_best_answer_wins() {
    for (answers, expected) in [
        (&[486][..], 486),
        // The lowest class (RFC 3261 §16.7 step 6), in any order.
        (&[404, 302], 302),
        (&[302, 404], 302),
        (&[500, 404], 404),
        (&[404, 500], 404),
        (&[500, 486, 302], 302),
        // 6xx first.
        (&[404, 603], 603),
        (&[302, 500, 600], 600),
        (&[401, 603], 603),
        // Nor does a challenge come before a lower class.
        (&[407, 302], 302),
        // Among 4xx, those that allow the caller a better request.
        (&[404, 401], 401),
        (&[407, 486], 407),
        (&[486, 415], 415),
        (&[484, 404], 484),
        (&[486, 420], 420),
        // A response is better than none.
        (&[408, 486], 486),
        (&[404, 408], 404),
        (&[480, 486], 486),
        // The first of equal ones.
        (&[486, 404], 486),
        (&[404, 486], 404),
        // The 503 of another server is not forwarded.
        (&[503], 500),
        (&[503, 503], 500),
        (&[503, 486], 486),
        (&[503, 502], 502),
        (&[501, 503], 501),
        (&[504, 503], 504),
    ] {
        assert_eq!(best(answers), expected, "{answers:?}");
    }
}

#[test]
fn a_challenge_of_every_phone_reaches_the_caller() {
    let (mut world, _, called) = forked("INVITE", 3);
    let lines = [
        "Proxy-Authenticate: Digest realm=\"a\"",
        "WWW-Authenticate: Digest realm=\"b\",\r\n nonce=\"n\"",
        "",
    ];
    assert!(statuses(&world.udp(&called[0].to(), &called[0].answer(407, &lines[..1]))).is_empty());
    assert!(statuses(&world.udp(&called[1].to(), &called[1].answer(401, &lines[1..2]))).is_empty());
    let response = world.udp(&called[2].to(), &called[2].answer(486, &[]));
    let response = response.iter().find(|sent| sent.status() != 0).unwrap();
    assert_eq!(response.status(), 407);
    assert_eq!(response.headers("Proxy-Authenticate"), ["Digest realm=\"a\""]);
    let others = response.headers("WWW-Authenticate");
    assert!(others.len() == 1 && others[0].starts_with("Digest realm=\"b\","), "{others:?}");
}

#[test]
fn provisional_answers_pass_at_once_and_a_success_cancels_the_others() {
    let (mut world, _, called) = forked("INVITE", 3);
    assert_eq!(only(world.udp(&called[0].to(), &called[0].answer(180, &[]))).status(), 180);
    assert_eq!(only(world.udp(&called[1].to(), &called[1].answer(183, &[]))).status(), 183);
    let sent = world.udp(&called[1].to(), &called[1].answer(200, &[]));
    assert_eq!(statuses(&sent), [200]);
    let cancel = forwarded(sent);
    assert_eq!((cancel.method().as_str(), cancel.to()), ("CANCEL", called[0].to()), "the one that rings");
    assert_eq!(cancel.header("Via"), called[0].headers("Via")[0], "with the branch of its INVITE");
    // The third has not responded: it is cancelled after its first response (RFC 3261 §9.1).
    let cancel = only(world.udp(&called[2].to(), &called[2].answer(100, &[])));
    assert_eq!((cancel.method().as_str(), cancel.to()), ("CANCEL", called[2].to()));
    assert!(
        world.udp(&cancel.to(), &cancel.answer(200, &[])).is_empty(),
        "the response to our CANCEL is not forwarded"
    );
    for phone in [&called[0], &called[2]] {
        let sent = only(world.udp(&phone.to(), &phone.answer(487, &[])));
        assert_eq!(
            (sent.method().as_str(), sent.to()),
            ("ACK", phone.to()),
            "and the caller gets no response"
        );
    }
    world.pass(120 * SECOND);
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
}

#[test]
fn two_phones_that_both_answer_are_both_heard() {
    let (mut world, _, called) = forked("INVITE", 2);
    assert_eq!(statuses(&world.udp(&called[0].to(), &called[0].answer(200, &[]))), [200]);
    assert_eq!(
        statuses(&world.udp(&called[1].to(), &called[1].answer(200, &[]))),
        [200],
        "the caller ends one of them"
    );
    let again = world.udp(&called[0].to(), &called[0].answer(200, &[]));
    assert_eq!(statuses(&again), [200], "a repeated 200 passes");
    assert!(statuses(&world.udp(&called[0].to(), &called[0].answer(486, &[]))).is_empty());
}

#[test]
fn a_global_failure_cancels_the_others_and_waits_for_them() {
    let (mut world, _, called) = forked("INVITE", 2);
    world.udp(&called[0].to(), &called[0].answer(180, &[]));
    let sent = world.udp(&called[1].to(), &called[1].answer(603, &[]));
    assert!(statuses(&sent).is_empty());
    let methods: Vec<_> = sent.iter().map(|sent| (sent.method(), sent.to())).collect();
    assert_eq!(methods, [("ACK".into(), called[1].to()), ("CANCEL".into(), called[0].to())]);
    assert_eq!(statuses(&world.udp(&called[0].to(), &called[0].answer(487, &[]))), [603]);
}

#[test]
fn a_phone_that_is_silent_is_408_after_64_t1() {
    let (mut world, call, called) = forked("INVITE", 1);
    assert_eq!(statuses(&world.udp(ALICE, &call)), [100], "a retransmitted INVITE gets the last response");
    let sent = world.pass(32 * SECOND);
    let repeated = requests(sent.clone());
    assert_eq!(repeated.len(), 6, "500 ms, 1.5, 3.5, 7.5, 15.5, 31.5 s");
    assert!(repeated.iter().all(|again| again.bytes == called[0].bytes));
    assert_eq!(statuses(&sent), [408]);
    let response = sent.into_iter().find(|sent| sent.status() == 408).unwrap();
    assert!(world.udp(ALICE, &call.ack_of(&response)).is_empty());
    world.pass(120 * SECOND);
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
}

#[test]
fn a_timeout_is_worse_than_a_response() {
    let (mut world, _, called) = forked("INVITE", 2);
    world.udp(&called[0].to(), &called[0].answer(404, &[]));
    assert_eq!(statuses(&world.pass(33 * SECOND))[0], 404);
}

#[test]
fn an_unreachable_phone_beside_one_that_answers_is_no_matter() {
    let (mut world, _, called) = forked("INVITE", 2);
    assert!(world.event(Event::Unreachable(called[0].token)).is_empty());
    assert_eq!(statuses(&world.udp(&called[1].to(), &called[1].answer(486, &[]))), [486]);
}

#[test]
fn requests_other_than_invite_are_forked_too() {
    let (mut world, message, called) = forked("MESSAGE", 2);
    assert!(world.udp(ALICE, &message).is_empty(), "a retransmission is absorbed until there is a response");
    assert!(world.udp(&called[0].to(), &called[0].answer(100, &[])).is_empty());
    assert!(world.udp(&called[0].to(), &called[0].answer(180, &[])).is_empty(), "RFC 4320 §4.1");
    assert!(world.udp(&called[0].to(), &called[0].answer(486, &[])).is_empty());
    assert_eq!(only(world.udp(&called[1].to(), &called[1].answer(202, &[]))).status(), 202);
    assert_eq!(only(world.udp(ALICE, &message)).status(), 202, "then it gets the response again");
    world.pass(40 * SECOND);
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
}

#[test]
fn silence_is_the_answer_to_a_request_whose_client_gave_up_too() {
    let (mut world, _, called) = forked("MESSAGE", 1);
    let sent = world.pass(40 * SECOND);
    assert!(statuses(&sent).is_empty(), "RFC 4320 §4.2: no 408");
    assert_eq!(requests(sent).len(), 10, "500 ms, then twice as long, up to 4 s");
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
    assert!(world.udp(&called[0].to(), &called[0].answer(200, &[])).is_empty(), "too late");
    let (mut world, _, called) = forked("MESSAGE", 1);
    assert!(world.udp(&called[0].to(), &called[0].answer(408, &[])).is_empty(), "nor one of another's");
    assert_eq!(world.server.contexts_len(), 0);
}

#[test]
fn an_unreachable_target_of_another_request_is_480() {
    let mut world = World::open();
    world.register_tcp(5, "bob", "192.0.2.20:4000", "<sip:bob@192.0.2.20;transport=tcp>");
    let sent = forwarded(world.udp(ALICE, &request("MESSAGE", "sip:bob@example.org")));
    assert_eq!(only(world.event(Event::Unreachable(sent.token))).status(), 480);
}

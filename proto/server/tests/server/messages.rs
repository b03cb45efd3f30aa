//! Tests of MESSAGE that is kept for users without a phone (RFC 3428 §7).

use crate::challenge::{Login, answered};
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, Wire, World, forwarded, only, register, request, requests,
    statuses,
};
use crate::presence::{body, with_body};
use ringway_server::{Config, PresenceConfig};
use std::sync::atomic::Ordering;
use std::time::Duration;

const PLAIN: &str = "text/plain";
const TEXT: &str = "Hello\r\n\tBob";

pub(crate) fn on(config: &mut Config) {
    config.presence = PresenceConfig { messages: true, ..PresenceConfig::default() };
}

/// Server that keeps messages, without passwords.
pub(crate) fn world() -> World {
    World::with(on)
}

/// MESSAGE of alice, without its body.
pub(crate) fn message(to: &str, number: usize) -> Request {
    request("MESSAGE", &format!("sip:{to}@example.org")).call_id(&format!("message-{number}"))
}

/// Sends a text of alice to a user, and returns the status of the answer.
#[track_caller]
pub(crate) fn say(world: &mut World, to: &str, number: usize) -> u16 {
    let text = format!("text {number}");
    only(world.udp(ALICE, &with_body(&message(to, number), PLAIN, &text))).status()
}

/// Registers bob at `from`, and returns everything that was sent but the 200.
#[track_caller]
pub(crate) fn bob_comes(world: &mut World, from: &str, cseq: u32) -> Vec<Sent> {
    let request = register("bob", &format!("<sip:bob@{from}>")).call_id(&format!("{from}-registers"));
    let mut sent = world.udp(from, &request.via(&via_of(from)).cseq(cseq));
    assert_eq!(sent.remove(0).status(), 200);
    sent
}

pub(crate) fn via_of(from: &str) -> String {
    format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK")
}

/// Everything has ended: nothing is kept, stored or reserved.
#[track_caller]
pub(crate) fn is_over(world: &mut World) {
    assert_eq!(world.server.messages_len(), 0);
    world.pass(Duration::from_secs(8000));
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert_eq!(world.server.contexts_len(), 0);
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
    assert!(world.memory.stored().is_empty());
    assert!(world.server.next_due().is_none());
}

pub(crate) trait NextDue {
    fn next_due(&self) -> Option<ringway_sansio::Instant>;
}

impl<N: ringway_sansio::Node> NextDue for N {
    fn next_due(&self) -> Option<ringway_sansio::Instant> {
        self.next_deadline().map(|due| due.at)
    }
}

#[test]
fn a_message_waits_for_its_user_and_arrives_unchanged() {
    let mut world = world();
    let lines =
        ["Subject: dinner", "Content-Language: en", "Expires: 7200", "MIME-Version: 1.0", "X-Other: no"];
    let sent = lines.iter().fold(message("bob", 1), |request, line| request.line(line));
    let accepted = only(world.udp(ALICE, &with_body(&sent, "text/plain;charset=utf-8", TEXT)));
    assert_eq!((accepted.status(), accepted.after_store), (202, true));
    assert!(accepted.headers("Contact").is_empty() && body(&accepted).is_empty(), "RFC 3428 §7");
    assert_eq!(world.server.messages_len(), 1);
    assert_eq!(world.server.messages_of(b"bob@example.org"), 1);
    world.pass(Duration::from_secs(3600));
    let delivered = only(bob_comes(&mut world, BOB, 1));
    assert_eq!((delivered.method().as_str(), delivered.to().as_str()), ("MESSAGE", BOB));
    assert_eq!(delivered.uri(), format!("sip:bob@{BOB}"));
    assert_eq!((delivered.header("From"), delivered.header("To")), (sent.from.clone(), sent.to.clone()));
    assert_eq!(delivered.header("Content-Type"), "text/plain;charset=utf-8");
    for line in &lines[..4] {
        let (name, value) = line.split_once(": ").unwrap();
        assert_eq!(delivered.header(name), value);
    }
    assert!(delivered.headers("X-Other").is_empty());
    assert_eq!(delivered.header("Date"), "Fri, 15 Jan 2027 08:00:00 GMT", "of its receipt");
    assert_eq!(delivered.header("CSeq"), "1 MESSAGE");
    assert_ne!(delivered.header("Call-ID"), sent.call_id);
    assert_eq!(body(&delivered), TEXT);
    assert!(world.udp(BOB, &delivered.answer(200, &[])).is_empty());
    let counters = world.server.counters();
    assert_eq!((counters.messages_kept, counters.messages_delivered), (1, 1));
    is_over(&mut world);
}

#[test]
fn messages_arrive_one_at_a_time_in_their_order() {
    let mut world = world();
    for number in 0..5 {
        assert_eq!(say(&mut world, "bob", number), 202);
        world.pass(Duration::from_millis(1));
    }
    let mut one = only(bob_comes(&mut world, BOB, 1));
    for number in 0..5 {
        assert_eq!(body(&one), format!("text {number}"));
        let mut next = world.udp(BOB, &one.answer(200, &[]));
        next.extend(world.pass(Duration::from_millis(2)));
        match number {
            4 => assert!(next.is_empty()),
            _ => one = only(next),
        }
    }
    is_over(&mut world);
}

#[test]
fn only_a_proven_user_of_ours_may_leave_a_message() {
    let mut world = World::with(|config| {
        on(config);
        config.auth.enabled = true;
        config.auth.strangers = ringway_server::Strangers::All;
    });
    let stranger = request("MESSAGE", "sip:bob@example.org").from("sip:eve@example.net");
    let refused = only(world.udp(STRANGER, &with_body(&stranger, PLAIN, TEXT)));
    assert_eq!(refused.status(), 480, "a stranger");
    let first = message("bob", 1);
    let challenge = only(world.udp(ALICE, &with_body(&first, PLAIN, TEXT)));
    assert_eq!((challenge.status(), world.server.messages_len()), (407, 0));
    let login = Login::to(&challenge, "alice");
    let wrong = Login { password: "another".into(), ..login.clone() };
    let second = answered(&first, &wrong);
    assert_eq!(only(world.udp(ALICE, &with_body(&second, PLAIN, TEXT))).status(), 407);
    assert_eq!(world.server.messages_len(), 0);
    let challenge = only(world.udp(ALICE, &with_body(&first.clone().cseq(5), PLAIN, TEXT)));
    let third = answered(&first.clone().cseq(5), &Login::to(&challenge, "alice"));
    assert_eq!(only(world.udp(ALICE, &with_body(&third, PLAIN, TEXT))).status(), 202);
    assert_eq!(only(world.udp(ALICE, &with_body(&third, PLAIN, TEXT))).status(), 202, "a retransmission");
    assert_eq!(world.server.messages_len(), 1);
    let nobody = message("nobody", 2).cseq(7);
    let challenge = only(world.udp(ALICE, &with_body(&nobody, PLAIN, TEXT)));
    let nobody = answered(&nobody, &Login::to(&challenge, "alice"));
    assert_eq!(only(world.udp(ALICE, &with_body(&nobody, PLAIN, TEXT))).status(), 404, "no such user");
}

#[test]
fn what_is_no_text_is_not_kept() {
    let mut world = world();
    let typing = with_body(&message("bob", 1), "application/im-iscomposing+xml;charset=utf-8", "<x/>");
    let expired = with_body(&message("bob", 2).line("Expires: 0"), PLAIN, TEXT);
    let required = with_body(&message("bob", 3).line("Require: magic"), PLAIN, TEXT);
    let in_dialog = with_body(&message("bob", 4).to("<sip:bob@example.org>;tag=1"), PLAIN, TEXT);
    let receipt = with_body(&message("bob", 7), "message/imdn+xml", "<imdn/>");
    let cpim = "From: <sip:a@b>\r\n\r\ncontent-type: message/imdn+xml;charset=utf-8\r\n\r\n<imdn/>";
    let in_cpim = with_body(&message("bob", 8), "Message/CPIM; x=1", cpim);
    let to_gruu = with_body(&request("MESSAGE", "sip:bob@example.org;gr=urn:x").call_id("g"), PLAIN, TEXT);
    for bytes in [typing, receipt, in_cpim, expired, required, in_dialog, to_gruu, message("bob", 5).wire()] {
        let answer = only(world.udp(ALICE, &bytes));
        assert_eq!(answer.status(), 480, "{}", String::from_utf8_lossy(&bytes));
    }
    let text = "From: <sip:a@b>\r\n\r\nContent-Type: text/plain\r\n\r\nContent-Type: message/imdn+xml\r\n";
    assert_eq!(only(world.udp(ALICE, &with_body(&message("carol", 9), "message/cpim", text))).status(), 202);
    world.server.remove_user(b"carol@example.org");
    let empty = World::open().udp(ALICE, &with_body(&message("bob", 6), PLAIN, TEXT));
    assert_eq!(only(empty).status(), 480, "messages are off by default");
    is_over(&mut world);
}

#[test]
fn a_repeated_request_is_kept_once_and_answered_alike() {
    let mut world = world();
    let bytes = with_body(&message("bob", 1), PLAIN, TEXT);
    assert_eq!(only(world.udp(ALICE, &bytes)).status(), 202);
    assert_eq!(only(world.udp(ALICE, &bytes)).status(), 202);
    assert_eq!(world.server.messages_len(), 1);
    let delivered = only(bob_comes(&mut world, BOB, 1));
    assert_eq!(only(world.udp(ALICE, &bytes)).status(), 202, "while it is delivered");
    world.udp(BOB, &delivered.answer(200, &[]));
    let again = only(world.udp(ALICE, &bytes));
    assert_eq!((again.status(), again.after_store), (202, true), "the 202 was lost");
    world.pass(Duration::from_secs(70));
    assert_eq!(only(requests(world.udp(ALICE, &bytes))).to(), BOB, "a new request, to the phone");
}

#[test]
fn a_phone_that_is_silent_or_away_leaves_the_message_to_the_server() {
    let mut world = world();
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let bytes = with_body(&message("bob", 1), PLAIN, TEXT);
    assert_eq!(forwarded(world.udp(ALICE, &bytes)).to(), BOB);
    let sent = world.pass(Duration::from_secs(23));
    assert!(statuses(&sent).is_empty(), "the phone may still answer");
    let sent = world.pass(Duration::from_secs(2));
    assert_eq!(statuses(&sent), [202], "before the sender's transaction ends");
    assert_eq!((world.server.messages_len(), world.server.contexts_len()), (1, 0));
    assert_eq!(only(world.udp(ALICE, &bytes)).status(), 202, "its 202 was lost");
    for (number, status) in [(2, 480), (3, 408)] {
        let bytes = with_body(&message("bob", number), PLAIN, TEXT);
        let phone = forwarded(world.udp(ALICE, &bytes));
        assert_eq!(only(world.udp(BOB, &phone.answer(status, &[]))).status(), 202, "{status}");
    }
    let phone = forwarded(world.udp(ALICE, &with_body(&message("bob", 4), PLAIN, TEXT)));
    assert_eq!(only(world.udp(BOB, &phone.answer(486, &[]))).status(), 486, "a phone that is there");
    assert_eq!(world.server.messages_len(), 3);
    let counters = world.server.counters();
    assert_eq!((counters.messages_kept, counters.messages_refused), (3, 0));
}

#[test]
fn an_answer_in_time_is_the_senders() {
    let mut world = world();
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let phone = forwarded(world.udp(ALICE, &with_body(&message("bob", 1), PLAIN, TEXT)));
    assert_eq!(only(world.udp(BOB, &phone.answer(200, &[]))).status(), 200);
    let sent = world.pass(Duration::from_secs(7300));
    assert!(sent.is_empty(), "{sent:?}");
    is_over(&mut world);
}

#[test]
fn what_a_phone_answers_decides_what_becomes_of_it() {
    for (status, is_kept) in [
        (486, true),
        (503, true),
        (405, true),
        (415, true),
        (489, true),
        (501, true),
        (400, false),
        (403, false),
        (606, false),
        (482, false),
    ] {
        let mut world = world();
        assert_eq!(say(&mut world, "bob", 1), 202);
        let delivered = only(bob_comes(&mut world, BOB, 1));
        world.udp(BOB, &delivered.answer(status, &[]));
        assert_eq!(world.server.messages_len(), usize::from(is_kept), "{status}");
        let counters = world.server.counters();
        let (rejected, delivered) = (u64::from(!is_kept && status != 482), u64::from(status == 482));
        assert_eq!((counters.messages_rejected, counters.messages_delivered), (rejected, delivered));
        assert_eq!(counters.message_failures, u64::from(is_kept));
        let events = world.memory.events.lock().unwrap().join("\n");
        let dropped = format!("dropped alice@example.org for bob@example.org: a phone answered {status}");
        assert_eq!(events.contains(&dropped), rejected == 1, "{events}");
        assert!(!events.contains("text 1"), "no body");
    }
}

#[test]
fn a_lost_200_repeats_the_message_with_its_call_id() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    let first = only(bob_comes(&mut world, BOB, 1));
    // The phone gets it, and each of its answers is lost.
    let repeats = requests(world.pass(Duration::from_secs(33)));
    assert!(repeats.len() == 10 && repeats.iter().all(|one| one.bytes == first.bytes));
    assert_eq!((world.server.messages_len(), world.server.counters().message_failures), (1, 1));
    assert!(bob_comes(&mut world, BOB, 2).is_empty(), "not within a minute of the failure");
    let again = only(requests(world.pass(Duration::from_secs(60))).into_iter().take(1).collect());
    assert_eq!(
        (again.header("Call-ID"), again.header("CSeq")),
        (first.header("Call-ID"), first.header("CSeq"))
    );
    assert_eq!(again.header("From"), first.header("From"));
    assert_ne!(again.header("Via"), first.header("Via"));
    world.udp(BOB, &again.answer(482, &[]));
    is_over(&mut world);
}

#[test]
fn attempts_are_fewer_with_time_and_end_with_the_registration() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    bob_comes(&mut world, BOB, 1);
    let sent = requests(world.pass(Duration::from_secs(7 * 86_400 - 1)));
    // One attempt at once, then after 1, 2, 4, 8, 16 minutes, each with eleven packets; the registration ends after an hour.
    assert!((50..=77).contains(&(sent.len() + 1)), "{}", sent.len());
    assert_eq!(world.server.messages_len(), 1);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.server.counters().messages_expired, 1, "after seven days");
    is_over(&mut world);
}

#[test]
fn an_expired_message_is_dropped() {
    let mut world = world();
    let bytes = with_body(&message("bob", 1).line("Expires: 60"), PLAIN, TEXT);
    assert_eq!(only(world.udp(ALICE, &bytes)).status(), 202);
    world.pass(Duration::from_secs(61));
    assert!(bob_comes(&mut world, BOB, 1).is_empty());
    assert_eq!(world.server.counters().messages_expired, 1);
    is_over(&mut world);
}

#[test]
fn a_restart_loses_none_and_delivers_in_order() {
    let mut world = world();
    world.register("carol", CAROL, &format!("<sip:carol@{CAROL}>"));
    for number in 0..3 {
        assert_eq!(say(&mut world, "bob", number), 202);
        world.pass(Duration::from_millis(3));
    }
    let phone = forwarded(world.udp(ALICE, &with_body(&message("carol", 9), PLAIN, "for carol")));
    assert_eq!(only(world.udp(CAROL, &phone.answer(480, &[]))).status(), 202);
    let repeated = with_body(&message("bob", 2), PLAIN, "text 2");
    let mut after = restarted(&world);
    assert_eq!(after.server.messages_len(), 4);
    assert_eq!(only(after.udp(ALICE, &repeated)).status(), 202, "a retransmission");
    assert_eq!(after.server.messages_len(), 4);
    // Carol has registered before.
    let for_carol = only(requests(after.pass(Duration::from_secs(30))).into_iter().take(1).collect());
    assert_eq!((for_carol.to(), body(&for_carol)), (CAROL.into(), "for carol".into()));
    after.udp(CAROL, &for_carol.answer(200, &[]));
    let mut one = only(bob_comes(&mut after, BOB, 1));
    for number in 0..3 {
        assert_eq!(body(&one), format!("text {number}"));
        let mut next = after.udp(BOB, &one.answer(200, &[]));
        next.extend(after.pass(Duration::from_millis(2)));
        if number < 2 {
            one = only(next);
        }
    }
    is_over(&mut after);
}

#[test]
fn a_message_of_the_future_is_one_of_the_restart() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    let mut after = World::with(on);
    for (key, mut record) in world.memory.stored() {
        record[1..9].copy_from_slice(&(u64::MAX - 5).to_le_bytes());
        record[9..17].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        after.server.restore(&key, &record, after.now).unwrap();
    }
    let one = only(bob_comes(&mut after, BOB, 1));
    assert_eq!(one.header("Date"), "Fri, 15 Jan 2027 08:00:00 GMT", "of the restart");
    after.udp(BOB, &one.answer(200, &[]));
    after.pass(Duration::from_secs(8000));
    assert!(after.server.next_due().is_none(), "its number is forgotten");
}

/// Another server with the records that this one stored.
fn restarted(world: &World) -> World {
    let mut after = World::with(on);
    after.now = world.now;
    for (key, record) in world.memory.stored() {
        after.server.restore(&key, &record, world.now).unwrap();
        after.memory.records.lock().unwrap().insert(key, record);
    }
    after
}

#[test]
fn snapshots_have_the_messages() {
    let mut world = world();
    for number in 0..3 {
        assert_eq!(say(&mut world, "bob", number), 202);
    }
    let mut copied = std::collections::BTreeMap::new();
    let mut from = Some(0);
    while let Some(first) = from {
        from = world.server.message_records_from(first, 2, |key, record| {
            copied.insert(key.to_vec(), record.to_vec());
        });
    }
    assert_eq!(copied, world.memory.stored());
    let key = copied.keys().next().unwrap();
    assert!(key.starts_with(b"bob@example.org\0") && key.len() == b"bob@example.org".len() + 17);
}

#[test]
fn what_cannot_be_stored_is_not_accepted() {
    for is_strict in [true, false] {
        let mut world = world();
        let fails = |world: &World, value| match is_strict {
            true => world.memory.store_fails.store(value, Ordering::Relaxed),
            false => world.memory.relaxed_store_fails.store(value, Ordering::Relaxed),
        };
        fails(&world, true);
        assert_eq!(say(&mut world, "bob", 1), 480);
        assert_eq!((world.server.messages_len(), world.server.counters().store_refusals), (0, 1));
        fails(&world, false);
        assert_eq!(say(&mut world, "bob", 1), 202);
    }
}

#[test]
fn a_removed_user_leaves_no_messages() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    assert_eq!(say(&mut world, "carol", 2), 202);
    world.server.remove_user(b"bob@example.org");
    assert_eq!(world.server.messages_len(), 1);
    assert!(bob_comes(&mut world, BOB, 1).is_empty());
    world.server.remove_user(b"carol@example.org");
    world.server.remove_user(b"bob@example.org");
    is_over(&mut world);
}

#[test]
fn a_reload_without_messages_delivers_those_that_are_there() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    world.server.reconfigure(std::sync::Arc::new(crate::harness::config()));
    assert_eq!(say(&mut world, "bob", 2), 480);
    let delivered = only(bob_comes(&mut world, BOB, 1));
    world.udp(BOB, &delivered.answer(200, &[]));
    is_over(&mut world);
}

#[test]
fn a_message_goes_over_the_connection_of_its_phone() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    let phone = "192.0.2.20:40000";
    let request = register("bob", "<sip:bob@10.1.1.1;transport=tcp>").tcp().call_id("r");
    let sent = requests(world.tcp(7, phone, &request));
    let delivered = only(sent);
    assert_eq!(
        (delivered.to(), delivered.flow.connection),
        (phone.into(), Some(ringway_sansio::ConnectionId(7)))
    );
    world.tcp(7, phone, &delivered.answer(200, &[]));
    assert_eq!(world.server.messages_len(), 0);
}

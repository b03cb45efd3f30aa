//! Tests of the lamps of users whose phones publish none (RFC 4235): each step of a call, each way for a lamp to end, the limits, and who
//! sees what.

use crate::challenge::proven;
use crate::dialog::{from_callee, from_caller, with_bob};
use crate::forwards::{always, udp};
use crate::harness::{ALICE, BOB, CAROL, Request, STRANGER, Sent, World, invite, only, request, requests};
use crate::presence::{accepted, body, on, publish, subscribe, with_body};
use ringway_sansio::{Instant, Seed};
use ringway_server::{
    Aor, Condition, DialogState, DialogStateFilter, DialogStates, ForwardUri, Forwards, NewLeg, NoAnswer,
    NotShown, Role, Server, Watchers,
};
use std::sync::Arc;
use std::time::Duration;

const WATCHER: &str = "192.0.2.77:5060";
/// Dialog of a user without calls.
const IDLE: &str = "<dialog id=\"idle\"><state>terminated</state></dialog>";
const DIALOG_INFO: &str = "application/dialog-info+xml";

/// Server with presence at which bob has a phone, and dave watches bob and alice.
fn watched(change: impl FnOnce(&mut ringway_server::Config)) -> World {
    let mut world = with_bob(World::with(|config| {
        on(config);
        change(config);
    }));
    for user in ["bob", "alice"] {
        watch(&mut world, "dave", user);
    }
    world
}

fn watch(world: &mut World, watcher: &str, user: &str) -> String {
    let request = subscribe(watcher, WATCHER, user, "dialog").line("Expires: 600");
    let (_, notify) = accepted(world.udp(WATCHER, &request));
    world.udp(WATCHER, &notify.answer(200, &[]));
    body(&notify)
}

/// Answers the NOTIFYs of the next two seconds; returns the states of each user's last document, as `bob: recipient early`.
fn dialog_states(world: &mut World) -> Vec<String> {
    let mut last = std::collections::BTreeMap::new();
    for _ in 0..4 {
        let sent = world.pass(Duration::from_millis(600));
        for notify in requests(sent).into_iter().filter(|one| one.method() == "NOTIFY") {
            world.udp(WATCHER, &notify.answer(200, &[]));
            let text = body(&notify);
            let user = text.split("entity=\"sip:").nth(1).unwrap().split('@').next().unwrap().to_owned();
            last.insert(user, states(&text));
        }
    }
    last.into_iter().map(|(user, states)| format!("{user}: {states}")).collect()
}

/// Directions and states in a document.
fn states(document: &str) -> String {
    if document.contains(IDLE) {
        assert_eq!(document.matches("<dialog ").count(), 1, "{document}");
        return "dark".into();
    }
    let dialogs = document.split("<dialog ").skip(1).map(|dialog| {
        let direction = dialog.split("direction=\"").nth(1).unwrap().split('"').next().unwrap();
        let state = dialog.split("<state>").nth(1).unwrap().split('<').next().unwrap();
        format!("{direction} {state}")
    });
    let all: Vec<_> = dialogs.collect();
    assert!(!all.is_empty(), "a document without a dialog leaves the lamps of some phones lit: {document}");
    all.join(", ")
}

/// Bob's INVITE.
fn ring(world: &mut World, call: &Request) -> Sent {
    let sent = requests(world.udp(ALICE, call));
    only(sent.into_iter().filter(|one| one.method() == "INVITE").collect())
}

fn answer(world: &mut World, got: &Sent, status: u16, lines: &[&str]) -> Sent {
    let contact = format!("Contact: <sip:bob@{}>", got.to());
    let lines: Vec<&str> = lines.iter().copied().chain([contact.as_str()]).collect();
    let sent = world.udp(&got.to(), &got.answer(status, &lines));
    only(sent.into_iter().filter(|one| one.status() == status).collect())
}

fn open(world: &World) -> (usize, usize) {
    world.memory.tables().change_dialog_states((0, 0), |states| states.open())
}

const ENDED: [&str; 2] = ["alice: initiator terminated", "bob: recipient terminated"];

#[test]
fn the_dialog_states_of_both_users_follow_a_call() {
    let mut world = watched(|_| {});
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    assert_eq!(dialog_states(&mut world), ["alice: initiator trying", "bob: recipient trying"]);
    answer(&mut world, &got, 180, &[]);
    assert_eq!(dialog_states(&mut world), ["alice: initiator early", "bob: recipient early"]);
    answer(&mut world, &got, 183, &[]);
    assert_eq!(dialog_states(&mut world), [] as [&str; 0], "nothing has changed");
    let answered = answer(&mut world, &got, 200, &[]);
    assert_eq!(dialog_states(&mut world), ["alice: initiator confirmed", "bob: recipient confirmed"]);
    let bye = only(requests(world.udp(BOB, &from_callee("BYE", 1, &got, &answered))));
    assert_eq!(dialog_states(&mut world), [] as [&str; 0], "it is not answered");
    world.udp(ALICE, &bye.answer(200, &[]));
    assert_eq!(dialog_states(&mut world), ENDED);
    assert_eq!(open(&world), (0, 0));
    world.pass(Duration::from_secs(10));
    assert_eq!(states(&watch(&mut world, "erin", "bob")), "dark");
    assert!(world.memory.tables().change_dialog_states(false, |states| states.is_empty()));
    assert_eq!(world.server.counters().lamps_lit, 2);
}

#[test]
fn every_failure_ends_the_dialog_states() {
    for status in [486, 404, 302, 503, 603, 408] {
        let mut world = watched(|_| {});
        let got = ring(&mut world, &invite("sip:bob@example.org"));
        answer(&mut world, &got, 180, &[]);
        dialog_states(&mut world);
        world.udp(BOB, &got.answer(status, &[]));
        assert_eq!(dialog_states(&mut world), ENDED, "{status}");
        assert_eq!(open(&world), (0, 0));
    }
    // No phone at all: nothing is forwarded.
    let mut world = World::with(on);
    watch(&mut world, "dave", "bob");
    world.udp(ALICE, &invite("sip:bob@example.org"));
    assert_eq!((dialog_states(&mut world).len(), open(&world)), (0, (0, 0)));
}

#[test]
fn a_cancel_timer_c_a_silent_phone_and_a_stop_end_the_dialog_states() {
    let mut world = watched(|_| {});
    let call = invite("sip:bob@example.org");
    let got = ring(&mut world, &call);
    answer(&mut world, &got, 180, &[]);
    dialog_states(&mut world);
    world.udp(ALICE, &call.cancel());
    world.udp(BOB, &got.answer(487, &[]));
    assert_eq!(dialog_states(&mut world), ENDED);

    for rings in [true, false] {
        let call = invite("sip:bob@example.org").call_id(&format!("silent-{rings}"));
        let got = ring(&mut world, &call);
        if rings {
            answer(&mut world, &got, 180, &[]);
        }
        dialog_states(&mut world);
        assert_eq!(open(&world), (2, 2));
        for _ in 0..400 {
            world.pass(Duration::from_secs(1)).iter().filter(|one| one.method() == "NOTIFY").for_each(
                |notify| {
                    world.udp(WATCHER, &notify.answer(200, &[]));
                },
            );
        }
        assert_eq!(open(&world), (0, 0), "{rings}");
    }
    let got = ring(&mut world, &invite("sip:bob@example.org").call_id("stopped"));
    answer(&mut world, &got, 180, &[]);
    world.server.stop_new_work(world.now);
    world.pass(Duration::from_secs(40));
    assert_eq!(open(&world), (0, 0));
}

#[test]
fn a_bye_that_is_forged_or_leaves_the_dialog_ends_no_dialog_state() {
    let mut world = with_bob(World::with(|config| {
        on(config);
        config.auth.enabled = true;
    }));
    world.add_user("dave", "example.org", "dave's password");
    let request_to_watch = subscribe("dave", WATCHER, "bob", "dialog");
    let sent = proven(&mut world, WATCHER, &request_to_watch, "dave");
    world.udp(WATCHER, &sent[1].answer(200, &[]));
    let got = only(requests(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice")));
    let answered = answer(&mut world, &got, 200, &[]);
    assert_eq!(dialog_states(&mut world), ["bob: recipient confirmed"]);
    let mut forged = request("BYE", "sip:bob@example.org").cseq(40).to(&answered.header("To"));
    (forged.from, forged.call_id) = (got.header("From"), got.header("Call-ID"));
    for sent in [proven(&mut world, ALICE, &forged, "alice"), world.udp(STRANGER, &forged.clone().cseq(50))] {
        for bye in requests(sent) {
            world.udp(&bye.to(), &bye.answer(200, &[]));
        }
    }
    assert_eq!((dialog_states(&mut world).len(), open(&world)), (0, (1, 0)));
    let bye = only(requests(world.udp(ALICE, &from_caller("BYE", 60, &answered))));
    world.udp(BOB, &bye.answer(481, &[]));
    assert_eq!(dialog_states(&mut world), ["bob: recipient terminated"]);
}

/// A hostile side cannot keep the lamp of the other one lit by refusing its BYE.
#[test]
fn a_refused_bye_ends_the_dialog_state_of_its_sender() {
    for status in [500, 603, 403, 401] {
        let mut world = watched(|_| {});
        let got = ring(&mut world, &invite("sip:bob@example.org"));
        let answered = answer(&mut world, &got, 200, &[]);
        dialog_states(&mut world);
        let bye = only(requests(world.udp(ALICE, &from_caller("BYE", 60, &answered))));
        world.udp(BOB, &bye.answer(status, &[]));
        assert_eq!(dialog_states(&mut world), ["alice: initiator terminated"], "{status}");
        let bye = only(requests(world.udp(BOB, &from_callee("BYE", 1, &got, &answered))));
        world.udp(ALICE, &bye.answer(status, &[]));
        assert_eq!(dialog_states(&mut world), ["bob: recipient terminated"], "{status}");
        assert_eq!(open(&world), (0, 0));
    }
}

/// RFC 4028: a session whose refreshes cease is over; without session timers it is bounded by the lifetime of a dialog.
#[test]
fn a_call_without_a_bye_ends_by_its_session_timer_or_its_lifetime() {
    for (line, lives_s) in [(Some("Session-Expires: 600;refresher=uac"), 632), (None, 5000)] {
        let mut world = watched(|config| config.dialog_lifetime = Duration::from_secs(5000));
        let got = ring(&mut world, &invite("sip:bob@example.org"));
        let lines: Vec<&str> = line.into_iter().collect();
        let answered = answer(&mut world, &got, 200, &lines);
        world.pass(Duration::from_secs(300));
        if line.is_some() {
            // A refresh moves the end.
            let again = only(requests(world.udp(ALICE, &from_caller("UPDATE", 2, &answered))));
            world.udp(BOB, &again.answer(200, &lines));
        }
        let left = lives_s - if line.is_some() { 0 } else { 300 };
        let keep = |world: &mut World, seconds: u64| {
            for _ in 0..seconds {
                let sent = world.pass(Duration::from_secs(1));
                for one in sent.iter().filter(|one| one.method() == "NOTIFY") {
                    world.udp(WATCHER, &one.answer(200, &[]));
                }
            }
        };
        keep(&mut world, left - 5);
        assert_eq!(open(&world), (2, 0), "{line:?}");
        keep(&mut world, 10);
        world.memory.tables().change_dialog_states((), |states| states.expire(world.now, &mut Vec::new()));
        assert_eq!(open(&world), (0, 0), "{line:?}");
    }
}

/// RFC 4028 §4: 90 s is the shortest interval. A callee does not put out the lamp of its caller with a smaller one.
#[test]
fn a_session_interval_below_the_minimum_is_the_minimum() {
    for line in ["Session-Expires: 0", "x: 1;refresher=uas"] {
        let mut world = watched(|_| {});
        let got = ring(&mut world, &invite("sip:bob@example.org"));
        answer(&mut world, &got, 200, &[line]);
        for (seconds, expected) in [(100, (2, 0)), (25, (0, 0))] {
            for _ in 0..seconds {
                for notify in world.pass(Duration::from_secs(1)).iter().filter(|one| one.method() == "NOTIFY")
                {
                    world.udp(WATCHER, &notify.answer(200, &[]));
                }
            }
            world
                .memory
                .tables()
                .change_dialog_states((), |states| states.expire(world.now, &mut Vec::new()));
            assert_eq!(open(&world), expected, "{line}");
        }
    }
}

/// The timer of the user's own shard ends the lamp, and its watchers are notified.
#[test]
fn the_end_of_a_lifetime_is_notified() {
    let mut world = watched(|config| config.dialog_lifetime = Duration::from_secs(300));
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    answer(&mut world, &got, 200, &[]);
    dialog_states(&mut world);
    for _ in 0..200 {
        world.pass(Duration::from_secs(1));
    }
    world.pass(Duration::from_secs(96));
    assert_eq!(dialog_states(&mut world), ENDED);
}

#[test]
fn a_change_that_is_lost_between_shards_is_noticed_within_half_a_minute() {
    let mut world = watched(|_| {});
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    dialog_states(&mut world);
    world.loses_changed_calls = true;
    answer(&mut world, &got, 180, &[]);
    assert_eq!(dialog_states(&mut world), [] as [&str; 0]);
    world.pass(Duration::from_secs(27));
    assert_eq!(dialog_states(&mut world), ["alice: initiator early", "bob: recipient early"]);
    world.udp(BOB, &got.answer(486, &[]));
    world.pass(Duration::from_secs(29));
    let last = dialog_states(&mut world);
    assert!(
        last.iter()
            .all(|dialog_state| dialog_state.ends_with("terminated") || dialog_state.ends_with("dark")),
        "{last:?}"
    );
    assert_eq!(last.len(), 2);
}

#[test]
fn a_phones_own_document_wins() {
    let mut world = watched(|_| {});
    let own = "<dialog-info entity=\"sip:bob@example.org\" version=\"3\" state=\"full\"><own/><dialog id=\"1\" direction=\"initiator\"><state>early</state></dialog></dialog-info>";
    let sent = world.udp(BOB, &with_body(&publish("bob", "dialog", None), DIALOG_INFO, own));
    let etag = sent[0].header("SIP-ETag");
    requests(sent).iter().for_each(|notify| drop(world.udp(WATCHER, &notify.answer(200, &[]))));
    dialog_states(&mut world);
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    answer(&mut world, &got, 180, &[]);
    assert_eq!(dialog_states(&mut world), ["alice: initiator early"], "bob's phone says nothing new");
    assert!(watch(&mut world, "erin", "bob").contains("<own/>"));
    let removed = publish("bob", "dialog", Some(&etag)).cseq(2).line("Expires: 0");
    assert_eq!(world.udp(BOB, &removed)[0].status(), 200);
    assert_eq!(dialog_states(&mut world), ["bob: recipient early"]);
}

#[test]
fn only_the_user_itself_sees_who_calls() {
    let mut world = watched(|_| {});
    let call = invite("sip:bob@example.org").from("sip:alice&x@example.org");
    let got =
        only(requests(world.udp(ALICE, &call)).into_iter().filter(|one| one.method() == "INVITE").collect());
    answer(&mut world, &got, 180, &[]);
    let own = watch(&mut world, "bob", "bob");
    assert!(own.contains("<remote><identity>sip:alice&amp;"), "{own}");
    let others = watch(&mut world, "erin", "bob");
    assert!(others.contains("<state>early</state>") && !others.contains("alice"), "{others}");
    world.udp(BOB, &got.answer(486, &[]));
    let private = invite("sip:bob@example.org").call_id("private").line("Privacy: id");
    ring(&mut world, &private);
    let own = watch_again(&mut world, "bob");
    assert!(own.contains("<state>trying</state>") && !own.contains("<remote>"), "{own}");
    // Watchers are those of the rule for published documents.
    let mut world = with_bob(World::with(|config| {
        on(config);
        config.presence.watchers = Watchers::Oneself;
    }));
    assert_eq!(only(world.udp(WATCHER, &subscribe("dave", WATCHER, "bob", "dialog"))).status(), 403);
    ring(&mut world, &invite("sip:bob@example.org"));
    assert_eq!((open(&world), world.server.counters().lamps_lit), ((0, 0), 0));
}

/// A watcher of both users does not learn from the documents that they talk with each other.
#[test]
fn the_documents_of_the_two_users_have_no_common_identifier() {
    let mut world = watched(|_| {});
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    let ids = |world: &mut World| -> Vec<String> {
        let sent = world.pass(Duration::from_millis(1100));
        let notifies = requests(sent).into_iter().filter(|one| one.method() == "NOTIFY");
        let id = |notify: Sent| {
            world.udp(WATCHER, &notify.answer(200, &[]));
            body(&notify).split("dialog id=\"").nth(1).unwrap()[1..17].to_owned()
        };
        notifies.map(id).collect()
    };
    let trying = ids(&mut world);
    assert_eq!(trying.len(), 2);
    assert_ne!(trying[0], trying[1]);
    answer(&mut world, &got, 180, &[]);
    let mut early = ids(&mut world);
    early.sort_unstable();
    let mut same = trying;
    same.sort_unstable();
    assert_eq!(early, same, "each keeps its own");
}

fn watch_again(world: &mut World, user: &str) -> String {
    world.pass(Duration::from_secs(6));
    let request = subscribe(user, WATCHER, user, "dialog").call_id("again");
    let (_, notify) = accepted(world.udp(WATCHER, &request));
    body(&notify)
}

#[test]
fn calls_of_users_whom_nobody_watches_are_not_followed() {
    let mut world = with_bob(World::with(on));
    watch(&mut world, "dave", "carol");
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    answer(&mut world, &got, 200, &[]);
    assert_eq!((open(&world), world.server.counters().lamps_lit), ((0, 0), 0));
    // A call that is followed stays so without its watcher, for one that begins anew.
    let last = subscribe("dave", WATCHER, "bob", "dialog").call_id("brief");
    let (ok, notify) = accepted(world.udp(WATCHER, &last));
    world.udp(WATCHER, &notify.answer(200, &[]));
    let got = ring(&mut world, &invite("sip:bob@example.org").call_id("second"));
    let contact = ok.header("Contact");
    let lines = last.lines.iter().filter(|line| !line.starts_with("Expires")).cloned().collect();
    let end = Request { uri: contact.trim_matches(['<', '>']).into(), to: ok.header("To"), lines, ..last };
    world.pass(Duration::from_secs(3));
    let sent = world.udp(WATCHER, &end.cseq(2).line("Expires: 0"));
    requests(sent).iter().for_each(|notify| drop(world.udp(WATCHER, &notify.answer(200, &[]))));
    answer(&mut world, &got, 180, &[]);
    assert_eq!(states(&watch(&mut world, "erin", "bob")), "recipient early");
}

/// A forward: the called user's lamp is out while another user's phone rings.
#[test]
fn the_dialog_state_of_a_user_whose_call_is_diverted_ends() {
    let forwards = [
        (always("sip:carol@example.org"), "always"),
        (
            Forwards {
                no_answer: Some(NoAnswer::new(5, ForwardUri::new("sip:carol@example.org").unwrap()).unwrap()),
                ..Forwards::default()
            },
            "no answer",
        ),
    ];
    for (forwards, name) in forwards {
        assert!(
            forwards.target(Condition::Always).is_some() || forwards.target(Condition::NoAnswer).is_some()
        );
        let mut world = watched(|_| {});
        watch(&mut world, "dave", "carol");
        world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@192.0.2.30"]);
        world.server.set_forwards(b"bob@example.org", forwards);
        let mut sent = udp(&mut world, ALICE, &invite("sip:bob@example.org"));
        if name == "no answer" {
            let at_bob = only(requests(sent).into_iter().filter(|one| one.method() == "INVITE").collect());
            world.udp(BOB, &at_bob.answer(180, &[]));
            assert_eq!(dialog_states(&mut world), ["alice: initiator early", "bob: recipient early"]);
            let later = world.pass(Duration::from_secs(4));
            sent = crate::forwards::settle(&mut world, later);
        }
        let got = only(
            requests(sent).into_iter().filter(|one| one.method() == "INVITE" && one.to() == CAROL).collect(),
        );
        udp(&mut world, CAROL, &got.answer(180, &[]));
        let sent = udp(&mut world, CAROL, &got.answer(200, &["Contact: <sip:carol@192.0.2.30>"]));
        let answered = only(sent.into_iter().filter(|one| one.status() == 200).collect());
        let shown = dialog_states(&mut world);
        assert!(shown.contains(&"carol: recipient confirmed".into()), "{name}: {shown:?}");
        assert!(shown.contains(&"alice: initiator confirmed".into()), "{name}: {shown:?}");
        assert!(
            !shown.iter().any(|dialog_state| dialog_state == "bob: recipient confirmed"),
            "{name}: {shown:?}"
        );
        let mut bye = from_caller("BYE", 2, &answered);
        bye.uri = "sip:carol@192.0.2.30".into();
        let got = only(requests(udp(&mut world, ALICE, &bye)));
        udp(&mut world, CAROL, &got.answer(200, &[]));
        world.memory.tables().change_dialog_states((), |states| states.expire(world.now, &mut Vec::new()));
        assert_eq!(open(&world), (0, 0), "{name}");
    }
}

#[test]
fn a_user_removed_or_presence_switched_off_leaves_nothing() {
    let mut world = watched(|_| {});
    ring(&mut world, &invite("sip:bob@example.org"));
    assert_eq!(open(&world), (2, 2));
    let mut config = crate::harness::config();
    config.presence.enabled = false;
    world.server.reconfigure(Arc::new(config));
    world.pass(Duration::from_secs(1));
    assert_eq!(open(&world), (0, 0));
    let tables = world.memory.tables();
    let left = tables.change_dialog_states((1, 1), |states| (states.len(), states.users_len()));
    assert_eq!((left, tables.dialog_state_filter().is_watching()), ((0, 0), false));
    let mut world = watched(|_| {});
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    world.server.remove_user(b"bob@example.org");
    world.pass(Duration::from_secs(2));
    world.udp(BOB, &got.answer(486, &[]));
    assert_eq!(open(&world), (0, 0));
}

/// Presence goes off and on; the second shard is late, and applies both after the first one has a new subscription.
#[test]
fn a_late_shard_forgets_no_watcher_of_another_one() {
    let mut world = watched(|_| {});
    let configs = [false, true].map(|enabled| {
        let mut config = crate::harness::config();
        on(&mut config);
        config.auth.enabled = false;
        config.presence.enabled = enabled;
        Arc::new(config)
    });
    let (host, tables) = (Arc::clone(&world.memory), world.memory.tables());
    let mut late = Server::new(Arc::clone(&configs[1]), host, tables, 1, Seed::from_number(9), world.now);
    configs.iter().for_each(|config| world.server.reconfigure(Arc::clone(config)));
    assert!(!world.memory.tables().dialog_state_filter().is_watching(), "its own are forgotten");
    let request = subscribe("dave", WATCHER, "bob", "dialog").call_id("anew").line("Expires: 600");
    let (_, notify) = accepted(world.udp(WATCHER, &request));
    world.udp(WATCHER, &notify.answer(200, &[]));
    let got = ring(&mut world, &invite("sip:bob@example.org"));
    configs.iter().for_each(|config| late.reconfigure(Arc::clone(config)));
    assert_eq!(open(&world), (1, 1));
    answer(&mut world, &got, 180, &[]);
    assert_eq!(dialog_states(&mut world), ["bob: recipient early"]);
}

#[test]
fn a_user_has_eight_shown_calls_and_a_document_4096_bytes() {
    let mut world = watched(|_| {});
    let long = "x".repeat(100);
    for number in 0..12 {
        let from = format!("sip:{number}&&&&&&&&&&&&&&&&&{long}@h");
        ring(&mut world, &invite("sip:bob@example.org").call_id(&format!("{number}")).from(&from));
    }
    let own = watch(&mut world, "bob", "bob");
    assert_eq!(own.matches("<state>trying").count(), 8);
    assert!(own.len() <= 4096, "{}", own.len());
    assert_eq!(world.server.counters().lamps_refused, 4);
    assert_eq!(open(&world), (8, 8));
    world.pass(Duration::from_secs(100));
    assert_eq!(open(&world), (0, 0));
}

/// Eight calls that nobody answers do not hide the one that is answered.
#[test]
fn a_call_displaces_the_oldest_unanswered_one_of_its_user() {
    let mut world = watched(|_| {});
    let call =
        |name: &str| invite("sip:bob@example.org").from(&format!("sip:{name}@example.org")).call_id(name);
    let silent: Vec<_> = (0..8).map(|number| ring(&mut world, &call(&format!("erin{number}")))).collect();
    dialog_states(&mut world);
    let got = ring(&mut world, &call("carol"));
    answer(&mut world, &got, 200, &[]);
    assert_eq!((open(&world), world.server.counters().lamps_refused), ((8, 7), 1));
    for got in &silent {
        world.udp(BOB, &got.answer(486, &[]));
    }
    world.pass(Duration::from_secs(10));
    assert_eq!(open(&world), (1, 0));
    assert_eq!(states(&watch(&mut world, "frank", "bob")), "recipient confirmed");
    // An answered call is displaced by none.
    let (mut table, _, now) = table(1);
    let (user, mut changed) = (aor(0), Vec::new());
    for number in 0..9 {
        let call_id = format!("{number}");
        let leg = NewLeg {
            user: &user,
            role: Role::Recipient,
            remote: b"",
            call_id: call_id.as_bytes(),
            from_tag: b"f",
        };
        match table.begin(now, &leg, &mut changed) {
            Ok(key) => table.answer(now, key, b"t", now + Duration::from_secs(60), &mut changed),
            Err(refusal) => assert_eq!((refusal, number), (NotShown::Limit, 8)),
        }
    }
    assert_eq!((table.open(), table.displaced()), ((8, 0), 0));
}

/// Table of lamps with watched users u0, u1, ….
fn table(users: usize) -> (DialogStates, Arc<DialogStateFilter>, Instant) {
    let (seed, now) = (Seed::from_number(1), Instant::from_secs(1_800_000_000));
    let filter = Arc::new(DialogStateFilter::new(&seed));
    let mut table = DialogStates::new(Arc::clone(&filter), &seed, now);
    (0..users).for_each(|user| table.watch(&aor(user)));
    (table, filter, now)
}

fn aor(user: usize) -> Aor {
    Aor::new(format!("u{user}").as_bytes(), b"example.org")
}

#[test]
fn the_table_is_bounded_and_every_entry_ends() {
    let users = DialogStates::CALLS_MAX / DialogStates::OF_USER_MAX + 1;
    let (mut table, filter, now) = table(users);
    let (mut shown, mut refused, mut changed) = (Vec::new(), 0, Vec::new());
    for number in 0..users * DialogStates::OF_USER_MAX {
        let (user, call_id) = (aor(number / DialogStates::OF_USER_MAX), format!("call-{number}"));
        let leg = NewLeg {
            user: &user,
            role: Role::Recipient,
            remote: b"sip:a@b",
            call_id: call_id.as_bytes(),
            from_tag: b"f",
        };
        match table.begin(now, &leg, &mut changed) {
            Ok(key) => shown.push((key, call_id)),
            Err(NotShown::Limit) => refused += 1,
            Err(NotShown::Unwatched) => panic!("all are watched"),
        }
    }
    assert_eq!((shown.len(), refused), (DialogStates::CALLS_MAX, DialogStates::OF_USER_MAX));
    assert!(filter.has_calls() && filter.may_have(b"call-0"));
    let until = now + Duration::from_secs(600);
    for (number, (key, call_id)) in shown.iter().enumerate() {
        match number % 4 {
            0 => table.end_unanswered(now, *key, &mut changed),
            1 => table.answer(now, *key, b"t", until, &mut changed),
            2 => {
                table.answer(now, *key, b"t", until, &mut changed);
                table.end_dialog(now, call_id.as_bytes(), (b"x", b"t"), &mut changed);
                table.end_dialog(now, call_id.as_bytes(), (b"t", b"f"), &mut changed);
            }
            _ => table.ring(now, *key, &mut changed),
        }
    }
    let quarter = DialogStates::CALLS_MAX / 4;
    assert_eq!(table.open(), (2 * quarter, quarter));
    assert_eq!(changed.len(), users - 1, "each user once");
    table.expire(now + Duration::from_secs(599), &mut changed);
    assert_eq!(
        (table.open(), table.len()),
        ((2 * quarter, quarter), 2 * quarter),
        "ended ones are forgotten"
    );
    table.expire(now + Duration::from_secs(601), &mut changed);
    assert_eq!(table.open(), (quarter, quarter));
    table.expire(now + Duration::from_secs(5000), &mut changed);
    table.expire(now + Duration::from_secs(5010), &mut changed);
    assert_eq!((table.open(), table.len()), ((0, 0), 0));
    assert!(!filter.has_calls());
    (0..users).for_each(|user| table.unwatch(&aor(user)));
    assert!(!filter.is_watching());
    assert_eq!(table.users_len(), 0);
}

/// A fork before this server has two entries of one call, of which the greater state shows.
#[test]
fn one_call_in_several_transactions_is_shown_once() {
    let (mut table, _, now) = table(1);
    let (user, mut changed) = (aor(0), Vec::new());
    let mut begin = |table: &mut DialogStates| {
        let leg = NewLeg { user: &user, role: Role::Initiator, remote: b"", call_id: b"c", from_tag: b"f" };
        table.begin(now, &leg, &mut changed)
    };
    let keys: Vec<_> = (0..8).map(|_| begin(&mut table).unwrap()).collect();
    assert_eq!(begin(&mut table), Err(NotShown::Limit));
    let mut changed = Vec::new();
    table.ring(now, keys[1], &mut changed);
    table.end_unanswered(now, keys[0], &mut changed);
    let mut shown = Vec::new();
    table.calls_of(b"u0@example.org", &mut shown);
    assert_eq!(shown.iter().map(|call| call.state).collect::<Vec<_>>(), [DialogState::Early]);
}

/// Branches that lose are no calls of their own: their end puts out no lamp.
#[test]
fn a_phone_that_loses_a_fork_ends_no_dialog_state() {
    let mut world = watched(|_| {});
    world.register("bob", CAROL, "<sip:bob@192.0.2.30>");
    let sent = requests(world.udp(ALICE, &invite("sip:bob@example.org")));
    let [one, two] = &sent.into_iter().filter(|one| one.method() == "INVITE").collect::<Vec<_>>()[..] else {
        panic!("two phones")
    };
    for got in [one, two] {
        answer(&mut world, got, 180, &[]);
    }
    assert_eq!(dialog_states(&mut world), ["alice: initiator early", "bob: recipient early"]);
    answer(&mut world, one, 200, &[]);
    world.udp(&two.to(), &two.answer(487, &[]));
    assert_eq!(dialog_states(&mut world), ["alice: initiator confirmed", "bob: recipient confirmed"]);
    assert!(dialog_states(&mut world).is_empty(), "and they stay lit");
}

#[test]
fn the_end_of_one_call_shows_the_other_one() {
    let mut world = watched(|_| {});
    let first = ring(&mut world, &invite("sip:bob@example.org"));
    answer(&mut world, &first, 180, &[]);
    dialog_states(&mut world);
    let second =
        ring(&mut world, &invite("sip:bob@example.org").call_id("second").from("sip:carol@example.org"));
    answer(&mut world, &second, 180, &[]);
    assert_eq!(dialog_states(&mut world), ["bob: recipient early, recipient early"]);
    world.udp(BOB, &second.answer(486, &[]));
    let after = dialog_states(&mut world);
    assert!(
        after == ["bob: recipient early, recipient terminated"]
            || after == ["bob: recipient terminated, recipient early"],
        "{after:?}"
    );
    world.udp(BOB, &first.answer(486, &[]));
    dialog_states(&mut world);
    world.pass(Duration::from_secs(10));
    assert_eq!(states(&watch(&mut world, "erin", "bob")), "dark");
}

//! Tests of password guessing: it is slowed for each user and each source, and locks no user out.

use crate::challenge::{Login, answered, is_stale, proven};
use crate::harness::{ALICE, BOB, CAROL, STRANGER, World, invite, only, query, register, statuses};
use ringway_server::{Algorithm, GuessLimits};
use std::time::Duration;

/// Status of the response to a REGISTER of `user` with this password.
fn guess(world: &mut World, from: &str, user: &str, password: &str, number: u32) -> u16 {
    let request = query(user).call_id(&format!("{from} {user} {number}"));
    let challenge = only(world.udp(from, &request));
    assert_eq!(challenge.status(), 401);
    let login = Login { password: password.into(), ..Login::to(&challenge, user) };
    only(world.udp(from, &answered(&request, &login))).status()
}

#[test]
fn ten_thousand_words_with_the_right_one_last_are_not_tried() {
    let mut world = World::closed();
    assert_eq!(
        only(proven(&mut world, ALICE, &register("alice", "<sip:alice@192.0.2.10>"), "alice")).status(),
        200
    );
    let mut answers = [0_usize; 3];
    for number in 0..10_000 {
        let password = if number == 9999 { "alice's password" } else { "a word" };
        let status = guess(&mut world, STRANGER, "alice", password, number);
        let index = [401, 503, 200].iter().position(|&known| known == status).unwrap();
        answers[index] += 1;
        world.pass(Duration::from_millis(50));
        // The victim's phone registers all the time.
        if number % 1000 == 0 {
            assert_eq!(guess(&mut world, ALICE, "alice", "alice's password", number), 200, "{number}");
            assert_eq!(guess(&mut world, BOB, "bob", "bob's password", number), 200, "{number}");
        }
    }
    // 500 s at ten a minute.
    let checked = GuessLimits::SOURCE_BURST as usize + 500 / 6;
    assert!(answers[0].abs_diff(checked) <= 1, "{answers:?}");
    assert_eq!((answers[0] + answers[1], answers[2]), (10_000, 0));
    let counters = world.server.counters();
    assert_eq!(counters.wrong_passwords, answers[0] as u64);
    assert_eq!(counters.slowed_logins, answers[1] as u64);
    assert_eq!(
        world.memory.tables().logins(),
        [21, answers[0] as u64, answers[1] as u64],
        "and it is observable"
    );
}

#[test]
fn many_sources_cannot_lock_a_user_out_of_its_own_source() {
    let mut world = World::closed();
    assert_eq!(guess(&mut world, ALICE, "alice", "alice's password", 0), 200);
    let from = |number: u32| format!("203.0.{}.{}:5060", number / 200, 1 + number % 200);
    let checked =
        (0..1000).filter(|&number| guess(&mut world, &from(number), "alice", "x", number) == 401).count();
    assert_eq!(checked, GuessLimits::USER_BURST as usize);
    assert_eq!(
        guess(&mut world, CAROL, "alice", "alice's password", 1),
        503,
        "from a new source it takes time"
    );
    assert_eq!(guess(&mut world, CAROL, "carol", "carol's password", 1), 200, "other users are not affected");
    assert_eq!(guess(&mut world, ALICE, "alice", "alice's password", 1), 200);
    world.pass(Duration::from_secs(3));
    assert_eq!(guess(&mut world, CAROL, "alice", "alice's password", 2), 200);
}

#[test]
fn unknown_users_are_slowed_like_others() {
    for user in ["alice", "nobody"] {
        let mut world = World::closed();
        let answers: Vec<u16> =
            (0..30).map(|number| guess(&mut world, STRANGER, user, "x", number)).collect();
        assert_eq!(answers, [vec![401; 20], vec![503; 10]].concat(), "{user}");
    }
}

#[test]
fn each_guess_of_a_request_counts() {
    let mut world = World::closed();
    let request = query("alice");
    let challenge = only(world.udp(STRANGER, &request));
    let mut many = request.clone().cseq(2);
    for number in 0..100 {
        let password = if number == 99 { "alice's password".into() } else { format!("word {number}") };
        many = many.line(&Login { password, ..Login::to(&challenge, "alice") }.line(&request));
    }
    assert_eq!(only(world.udp(STRANGER, &many)).status(), 503);
    assert_eq!(world.memory.tables().logins(), [0, 20, 1]);
}

#[test]
fn only_a_wrong_password_takes_a_token() {
    let mut world = World::closed();
    let request = query("alice");
    let login = Login::to(&only(world.udp(CAROL, &request)), "alice");
    assert_eq!(only(world.udp(CAROL, &answered(&request, &login))).status(), 200);
    for number in 0..100 {
        let stale = answered(&request.clone().cseq(10 + number), &login);
        assert!(is_stale(&only(world.udp(CAROL, &stale))));
    }
    assert_eq!(guess(&mut world, CAROL, "bob", "bob's password", 1), 200);
}

#[test]
fn a_call_is_slowed_likewise_and_leaves_no_state() {
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    for number in 0..40 {
        let call = invite("sip:bob@example.org").call_id(&format!("{number}"));
        let challenge = only(world.udp(STRANGER, &call));
        let login = Login { password: "x".into(), ..Login::to(&challenge, "alice") };
        let call = answered(&call, &login);
        let refused = only(world.udp(STRANGER, &call));
        assert_eq!(refused.status(), if number < 20 { 407 } else { 503 });
        if number >= 20 {
            assert_eq!(refused.header("Retry-After"), "10");
        }
        assert!(world.udp(STRANGER, &call.ack_of(&refused)).is_empty());
    }
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
    let sent = proven(&mut world, ALICE, &invite("sip:bob@example.org").call_id("mine"), "alice");
    assert_eq!(statuses(&sent), [100]);
}

/// The sender of a forged source address has no nonce that was sent there, for any other content of the digest.
#[test]
fn a_nonce_of_another_source_is_no_guess_of_its_sender() {
    let mut world = World::closed();
    let request = query("alice");
    for number in 0..100 {
        let theirs = Login::to(&only(world.udp(STRANGER, &request)), "alice");
        for user in ["alice", "zorro"] {
            let wrong = Login { user: user.into(), password: "x".into(), ..theirs.clone() };
            let forged = request.clone().call_id(&format!("{user}{number}"));
            for line in [
                wrong.line(&forged),
                wrong.clone().algorithm(Algorithm::Sha256).line(&forged).replace("SHA-256", "SHA-512-256"),
                wrong.line(&forged).replace(", qop=auth", ""),
                wrong.line(&forged).replace("nc=00000001", "nc=0"),
            ] {
                let answer = only(world.udp(CAROL, &forged.clone().line(&line)));
                assert_eq!(answer.status(), 401, "{line}");
            }
        }
    }
    assert_eq!(*world.memory.events.lock().unwrap(), [] as [&str; 0], "no login was refused");
    assert_eq!(world.memory.tables().logins(), [0, 0, 0], "no password was checked");
    assert_eq!(world.server.counters().wrong_passwords, 0);
    assert_eq!(guess(&mut world, CAROL, "carol", "carol's password", 0), 200);
}

#[test]
fn a_second_header_does_not_hide_a_wrong_password() {
    let mut world = World::closed();
    let request = query("alice");
    let wrong = Login { password: "x".into(), ..Login::to(&only(world.udp(CAROL, &request)), "alice") };
    let invented = Login { nonce: "mine".into(), ..wrong.clone() };
    for (cseq, lines) in [
        (2, [wrong.line(&request), invented.line(&request)]),
        (3, [invented.line(&request), wrong.line(&request)]),
    ] {
        let both = lines.iter().fold(request.clone().cseq(cseq), |both, line| both.line(line));
        assert!(!is_stale(&only(world.udp(CAROL, &both))));
    }
    assert_eq!(world.server.counters().wrong_passwords, 2);
    assert_eq!(*world.memory.events.lock().unwrap(), ["alice WrongPassword"; 2]);
}

#[test]
fn a_login_that_was_not_checked_is_reported_as_slowed() {
    let mut world = World::closed();
    for user in ["alice", "nobody"] {
        world.pass(Duration::from_secs(600));
        for number in 0..20 {
            assert_eq!(guess(&mut world, STRANGER, user, "x", number), 401);
        }
        world.memory.events.lock().unwrap().clear();
        assert_eq!(guess(&mut world, STRANGER, user, "x", 20), 503);
        assert_eq!(*world.memory.events.lock().unwrap(), [format!("{user} Slowed")]);
    }
}

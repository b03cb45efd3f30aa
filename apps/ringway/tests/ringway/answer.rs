//! `ringway answer` of the built program.
//!
//! Tested: exit statuses, also those of `ringway call` to peers that send no sound, calls that are on hold from the start,
//! sound before the answer, recordings of several calls, the announced extensions, and `--ring-s` of both sides. Not tested
//! here: the calls themselves (`phone.rs`).

use crate::program::{Done, Running};
use crate::scripted_peer::{Offer, Peer};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const ANSWER: [&str; 5] = ["answer", "--as", "sip:bob@127.0.0.1", "--bind", "127.0.0.1:0"];

/// Starts bob on a free port of loopback.
fn bob(args: &[&str]) -> (Running, String) {
    let bob = Running::start(Path::new("."), &[&ANSWER[..], args].concat(), "");
    let uri = format!("sip:bob@{}", bob.address());
    (bob, uri)
}

/// Runs alice's call.
fn alice(uri: &str, args: &[&str]) -> Done {
    Running::start(Path::new("."), &[&["call", uri, "--json"], args].concat(), "").done()
}

#[test]
fn calls_that_were_answered_rejected_as_asked_or_cancelled_are_no_failure() {
    for (args, caller, result) in [
        (&[][..], &["--duration", "1"][..], "answered"),
        (&["--reject", "603"], &[], "rejected"),
        (&["--ring-s", "60"], &["--ring-s", "1"], "cancelled"),
    ] {
        let (bob, uri) = bob(&[&["--count", "1", "--json"], args].concat());
        alice(&uri, caller);
        let bob = bob.done();
        assert_eq!((bob.status, &bob.json()["result"]), (0, &result.into()), "{bob:?}");
    }
    // A signal without a call.
    let (bob, _) = bob(&[]);
    bob.end();
    assert_eq!(bob.done().status, 0);
}

/// A phone that talks without SRTP with a peer, which it calls or which calls it.
fn called_or_calling(peer: &mut Peer, is_caller: bool) -> Running {
    if is_caller {
        let phone = Running::start(Path::new("."), &["call", &peer.uri(), "--srtp", "none", "--json"], "");
        peer.answer(Offer::Bare);
        return phone;
    }
    let (bob, uri) = bob(&["--srtp", "none", "--count", "1", "--json"]);
    peer.call(&uri, Offer::Bare);
    bob
}

/// A call without sound, of 4 s or until the phone says that there is none.
fn without_sound(direction: &'static str, is_caller: bool) -> Done {
    let mut peer = Peer::new();
    peer.direction = direction;
    let phone = called_or_calling(&mut peer, is_caller);
    match direction {
        "sendrecv" => drop(phone.says("no sound: ")),
        _ => std::thread::sleep(Duration::from_secs(4)),
    }
    peer.hang_up();
    phone.done()
}

#[test]
fn a_call_without_the_sound_that_may_come_is_a_failure() {
    let cases = ["sendrecv", "recvonly", "sendonly", "inactive"].map(|direction| {
        [true, false].map(|is_caller| {
            let done = std::thread::spawn(move || without_sound(direction, is_caller));
            (direction, is_caller, done)
        })
    });
    for (direction, is_caller, done) in cases.into_iter().flatten() {
        let done = done.join().unwrap();
        let (value, case) = (done.json(), format!("{direction}, calling: {is_caller}: {done:?}"));
        assert_eq!((&value["status"], &value["received"]["packets"]), (&200.into(), &0.into()), "{case}");
        let is_held = matches!(direction, "sendonly" | "inactive");
        assert_eq!(value["hold"], if is_held { "remote" } else { "none" }, "{case}");
        assert_eq!(done.err.contains("the other side holds the call"), is_held, "{case}");
        if direction == "sendrecv" {
            assert_eq!((done.status, &value["result"]), (1, &"failed".into()), "{case}");
            assert!(
                value["reason"].as_str().unwrap().starts_with("no sound: in 3 s no RTP packet"),
                "{case}"
            );
        } else {
            assert_eq!((done.status, &value["result"]), (0, &"answered".into()), "{case}");
            assert!(!done.err.contains("no sound"), "{case}");
        }
    }
}

#[test]
fn a_call_that_breaks_off_after_its_answer_is_a_failure() {
    for is_caller in [true, false] {
        let mut peer = Peer::new();
        let phone = called_or_calling(&mut peer, is_caller);
        peer.change_without_an_answer();
        let done = phone.done();
        let value = done.json();
        assert_eq!(
            (done.status, &value["result"], &value["status"]),
            (1, &"failed".into(), &200.into()),
            "{done:?}"
        );
        assert!(value["reason"].as_str().unwrap().contains("the ACK has no answer"), "{value:#}");
    }
}

#[test]
fn a_call_that_ends_before_its_handshake_is_a_failure() {
    let mut peer = Peer::new();
    let uri = peer.uri();
    let alice = Running::start(Path::new("."), &["call", &uri, "--json", "--srtp", "dtls"], "");
    peer.answer(Offer::Dtls);
    peer.hang_up();
    let done = alice.done();
    let value = done.json();
    assert_eq!((done.status, &value["result"]), (1, &"failed".into()), "{done:?}");
    assert!(value["reason"].as_str().unwrap().contains("before DTLS-SRTP protected it"), "{value:#}");
}

#[test]
fn sound_before_the_answer_is_heard() {
    for more in [&[][..], &["--srtp", "none"]] {
        let mut peer = Peer::new();
        let uri = peer.uri();
        let alice = Running::start(Path::new("."), &[&["call", &uri, "--json"][..], more].concat(), "");
        peer.ring_with_sound(|| alice.has_said("sound before the answer"));
        peer.answer(Offer::Bare);
        peer.hang_up();
        let done = alice.done();
        let value = done.json();
        assert_eq!((done.status, &value["result"]), (0, &"answered".into()), "{done:?}");
        assert!(value["received"]["packets"].as_u64().unwrap() > 0, "{value:#}");
    }
}

#[test]
fn required_dtls_is_reached_or_the_call_is_refused() {
    for (caller, result) in [("dtls", "answered"), ("sdes", "rejected"), ("none", "rejected")] {
        let (bob, uri) = bob(&["--srtp", "dtls", "--count", "1", "--json", "--play", "speech"]);
        let alice = alice(&uri, &["--play", "speech", "--duration", "2", "--srtp", caller]).json();
        let done = bob.done();
        assert_eq!(
            done.status,
            i32::from(result == "rejected"),
            "what was not agreed on is a failure: {done:?}"
        );
        let bob = done.json();
        assert_eq!((&alice["result"], &bob["result"]), (&result.into(), &result.into()), "{alice:#} {bob:#}");
        if result == "rejected" {
            assert_eq!(alice["status"], 488, "{alice:#}");
            continue;
        }
        for value in [&alice, &bob] {
            let security = &value["security"];
            assert_eq!(security["method"], "dtls");
            assert_eq!(security["fingerprints_protected"], false, "SIP is not encrypted here");
            assert!(value["received"]["packets"].as_u64().unwrap() > 20, "{value:#}");
        }
    }
}

#[test]
fn each_call_has_a_recording_that_begins_at_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard.wav");
    let (bob, uri) = bob(&["--count", "2", "--ring-s", "2", "--json", "--record", heard.to_str().unwrap()]);
    for _ in 0..2 {
        // Bob takes one call at a time, and the next one as soon as the one before has ended.
        let alice = alice(&uri, &["--play", "tone:440", "--duration", "1"]);
        assert_eq!(alice.status, 0, "{alice:?}");
    }
    let bob = bob.done();
    assert_eq!(bob.status, 0, "{bob:?}");
    let results: Vec<Value> = bob.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 2, "{bob:?}");
    for (name, result) in ["heard.wav", "heard-2.wav"].iter().zip(&results) {
        let samples = hound::WavReader::open(folder.path().join(name)).unwrap().duration();
        let (recorded_s, call_s) = (f64::from(samples) / 8000.0, result["duration_s"].as_f64().unwrap());
        // With the two seconds of ringing it would be longer.
        assert!(recorded_s > 0.2 && recorded_s < call_s + 1.0, "{name}: {recorded_s} s of {call_s} s");
    }
}

#[test]
fn replaces_is_not_announced_because_it_is_not_taken() {
    let (_bob, uri) = bob(&[]);
    let asked = Running::start(Path::new("."), &["options", &uri, "--json"], "").done();
    let value = asked.json();
    assert_eq!((&value["status"], &value["supported"]), (&200.into(), &Value::Null), "{value:#}");
    assert!(value["allow"].to_string().contains("INVITE"), "{value:#}");
}

#[test]
fn ring_s_ends_a_call_that_nobody_answers() {
    let (bob, uri) = bob(&["--ring-s", "60", "--count", "1", "--json"]);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = format!("sip:bob@{}", silent.local_addr().unwrap());
    for (uri, status) in [(uri, 487), (nobody, 408)] {
        let begun = Instant::now();
        let alice = alice(&uri, &["--ring-s", "2"]);
        let value = alice.json();
        assert_eq!((alice.status, &value["result"]), (1, &"cancelled".into()), "{value:#}");
        assert_eq!(value["status"], status, "{value:#}");
        // Without the limit it would be 32 s, or 60 s.
        let range = Duration::from_secs(2)..Duration::from_secs(20);
        assert!(range.contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }
    let bob = bob.done();
    assert_eq!((bob.status, &bob.json()["result"]), (0, &"cancelled".into()), "{bob:?}");
}

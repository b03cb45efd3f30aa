//! `ringway call`, `ringway answer` and `ringway demo` of the built program.
//!
//! Tested: calls on loopback, direct and through the server, with and without SRTP; the received sound; the JSON object;
//! hold; DTMF; retained secrets of ZRTP; removal of protection; refusals; exit status; refused options. Not tested here:
//! other phones (`xtask interop`), exact timing (the benchmarks).

use crate::program::{Done, Running};
use crate::scripted_peer::{Offer, Peer};
use ringway_test_support::tone;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn start(args: &[&str], input: &str) -> Running {
    Running::start(Path::new("."), args, input)
}

fn ringway(args: &[&str]) -> Done {
    start(args, "").done()
}

/// Starts bob on a free port of loopback; he answers one call.
fn bob(args: &[&str]) -> (Running, String) {
    let mut all =
        vec!["answer", "--as", "sip:bob@127.0.0.1", "--bind", "127.0.0.1:0", "--count", "1", "--json"];
    all.extend(args);
    let bob = start(&all, "");
    let uri = format!("sip:bob@{}", bob.address());
    (bob, uri)
}

/// Runs alice's call.
fn alice(uri: &str, args: &[&str]) -> Done {
    let mut all = vec!["call", uri, "--json"];
    all.extend(args);
    ringway(&all)
}

/// Fraction of a recording's energy, without its edges, at one frequency (Goertzel).
fn share_at(path: &Path, frequency_hz: f64) -> f64 {
    let mut file = hound::WavReader::open(path).unwrap();
    let spec = file.spec();
    assert_eq!((spec.channels, spec.sample_rate, spec.bits_per_sample), (1, 8000, 16));
    let samples: Vec<f64> = file.samples::<i16>().map(|sample| f64::from(sample.unwrap())).collect();
    // Before the first packet and after the last there is silence.
    let first = samples.iter().position(|sample| sample.abs() > 500.0).unwrap_or(0);
    let last = samples.iter().rposition(|sample| sample.abs() > 500.0).unwrap_or(0);
    let middle = samples.get(first + 800..last.saturating_sub(800)).unwrap_or_default();
    assert!(middle.len() > 4000, "{} samples of sound in {}", middle.len(), samples.len());
    tone::energy_at(middle, frequency_hz / 8000.0) / tone::energy(middle)
}

fn file(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// Checks every field of INTERFACE.md, and the values of a call on loopback.
fn assert_is_a_good_call(value: &Value) {
    assert_eq!((&value["result"], &value["status"]), (&"answered".into(), &200.into()), "{value:#}");
    // A thread that is not scheduled for half a second must not fail this: exact timing is measured by the benchmarks.
    assert!(value["setup_ms"].as_f64().unwrap() < 10_000.0 && value["duration_s"].is_number(), "{value:#}");
    let number =
        |field: &str| value["received"][field].as_f64().unwrap_or_else(|| panic!("{field}: {value:#}"));
    assert!(value["sent"]["packets"].as_u64().unwrap() > 50, "{value:#}");
    assert!(number("packets") > 50.0 && number("lost") == 0.0, "{value:#}");
    assert!((19.0..26.0).contains(&number("mean_delta_ms")) && number("max_delta_ms") < 2000.0, "{value:#}");
    assert!(number("max_jitter_ms") < 150.0 && number("mean_jitter_ms") < 50.0, "{value:#}");
    assert!((60.0..90.0).contains(&number("kbit_s")), "{value:#}");
    assert_eq!((number("auth_failures"), number("replays")), (0.0, 0.0), "{value:#}");
    assert!((2.5..4.5).contains(&number("mos")), "{value:#}");
}

#[test]
fn both_receive_the_tone_and_report_the_protection() {
    let folder = tempfile::tempdir().unwrap();
    let (at_alice, at_bob) = (file(&folder, "alice.wav"), file(&folder, "bob.wav"));
    let (bob, uri) = bob(&["--play", "tone:600", "--record", &at_bob]);
    let alice =
        alice(&uri, &["--play", "tone:440", "--record", &at_alice, "--duration", "3", "--srtp", "sdes"]);
    assert_eq!(alice.status, 0, "{alice:?}");
    let bob = bob.done();
    assert_eq!(bob.status, 0, "{bob:?}");
    for value in [alice.json(), bob.json()] {
        assert_is_a_good_call(&value);
        let suite = value["security"]["suite"].as_str().unwrap();
        assert_eq!(value["security"]["method"], "sdes");
        assert!(suite.contains("AES") && value["security"]["tag_bits"].as_u64().unwrap() >= 80, "{value:#}");
    }
    assert!(share_at(&folder.path().join("alice.wav"), 600.0) > 0.8);
    assert!(share_at(&folder.path().join("bob.wav"), 440.0) > 0.8);
}

#[test]
fn the_requested_suite_and_codec_are_used() {
    let cases = [
        (&["--srtp", "none"][..], "none", Value::Null, 0),
        (
            &["--srtp", "sdes", "--suite", "AES_CM_128_HMAC_SHA1_32"],
            "sdes",
            "AES_CM_128_HMAC_SHA1_32".into(),
            32,
        ),
        (
            &["--srtp", "sdes", "--suite", "AES_CM_256_HMAC_SHA1_80"],
            "sdes",
            "AES_256_CM_HMAC_SHA1_80".into(),
            80,
        ),
        (&["--srtp", "sdes", "--suite", "AEAD_AES_128_GCM"], "sdes", "AEAD_AES_128_GCM".into(), 128),
        (&["--srtp", "dtls"], "dtls", "AEAD_AES_256_GCM".into(), 128),
        (
            &["--srtp", "dtls", "--suite", "AES_CM_128_HMAC_SHA1_80"],
            "dtls",
            "AES_CM_128_HMAC_SHA1_80".into(),
            80,
        ),
    ];
    let calls = cases.map(|(args, method, suite, tag_bits)| {
        std::thread::spawn(move || {
            let (bob, uri) = bob(&["--play", "speech"]);
            let mut all = vec!["--duration", "2", "--codec", "pcma", "--play", "speech"];
            all.extend(args);
            let alice = alice(&uri, &all);
            for value in [alice.json(), bob.done().json()] {
                assert_is_a_good_call(&value);
                assert_eq!(value["codec"], "PCMA");
                let security = &value["security"];
                assert_eq!((&security["method"], &security["suite"]), (&method.into(), &suite), "{value:#}");
                assert_eq!(security["tag_bits"], tag_bits);
            }
        })
    });
    calls.into_iter().for_each(|call| call.join().unwrap());
}

#[test]
fn with_zrtp_both_have_the_same_sas() {
    let (bob, uri) = bob(&["--play", "speech", "--srtp", "zrtp"]);
    let alice = alice(&uri, &["--duration", "3", "--play", "speech", "--srtp", "zrtp"]);
    let (alice, bob) = (alice.json(), bob.done().json());
    assert_eq!((&alice["security"]["method"], &bob["security"]["method"]), (&"zrtp".into(), &"zrtp".into()));
    assert!(alice["security"]["sas"].as_str().unwrap().len() >= 4, "{alice:#}");
    assert_eq!(alice["security"]["sas"], bob["security"]["sas"]);
}

/// Makes calls with ZRTP between two phones with ZID caches; returns both final reports of each call.
fn zrtp_calls(files: [&str; 2], count: usize) -> Vec<[Value; 2]> {
    let one = |file| ["--srtp", "zrtp", "--play", "speech", "--zrtp-cache", file];
    let (at_alice, at_bob) = (one(files[0]), one(files[1]));
    let calls = (0..count).map(|_| {
        let (bob, uri) = bob(&at_bob);
        let alice = alice(&uri, &[&at_alice[..], &["--duration", "2"]].concat());
        let (alice, bob) = (alice.json(), bob.done().json());
        assert_eq!((&alice["result"], &bob["result"]), (&"answered".into(), &"answered".into()));
        assert_eq!(alice["security"]["sas"], bob["security"]["sas"]);
        assert!(alice["received"]["packets"].as_u64().unwrap() > 50, "{alice:#}");
        [alice["security"].clone(), bob["security"].clone()]
    });
    calls.collect()
}

#[test]
fn a_retained_secret_is_recognised_and_a_missing_one_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (at_alice, at_bob) = (file(&folder, "alice.zrtp"), file(&folder, "bob.zrtp"));
    let calls = zrtp_calls([&at_alice, &at_bob], 3);
    for (call, expected) in calls.iter().zip(["first_call", "continued", "continued"]) {
        for security in call {
            assert_eq!(security["continuity"], expected, "{security:#}");
            assert_eq!(security["sas_verified"], false, "the SAS was not compared");
        }
    }
    assert!(calls[0][0]["sas"] != calls[1][0]["sas"], "each call has a key of its own: {calls:?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&at_bob).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    // Bob has the same name but has lost the secret: another caller could present itself so too.
    let text = std::fs::read_to_string(&at_bob).unwrap();
    let kept: String =
        text.lines().filter(|line| !line.starts_with("phone ")).map(|line| format!("{line}\n")).collect();
    assert!(kept.contains("\nzid ") && kept.len() < text.len(), "{text}");
    std::fs::write(&at_bob, kept).unwrap();
    let calls = zrtp_calls([&at_alice, &at_bob], 1);
    assert_eq!(
        (&calls[0][0]["continuity"], &calls[0][1]["continuity"]),
        (&"broken".into(), &"first_call".into())
    );

    std::fs::write(&at_bob, "something else\n").unwrap();
    let done = ringway(&["call", "sip:b@127.0.0.1", "--zrtp-cache", &at_bob]);
    assert!(done.refused(2).contains("bob.zrtp:1: not written by this program"), "{done:?}");
}

#[test]
fn sound_works_after_resume_and_dtmf_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let at_bob = file(&folder, "bob.wav");
    let (bob, uri) = bob(&["--play", "tone:600", "--record", &at_bob]);
    let args =
        ["--duration", "5", "--hold-at", "1.5,3", "--hold-s", "0.5", "--dtmf", "19#", "--play", "tone:440"];
    let alice = alice(&uri, &args);
    let (alice, bob) = (alice.json(), bob.done());
    assert!(bob.err.contains("holds the call") && bob.err.contains("is back"), "{bob:?}");
    let bob = bob.json();
    assert_eq!(bob["received"]["dtmf"], "19#", "{bob:#}");
    for value in [alice, bob] {
        assert_eq!(value["result"], "answered");
        let received = &value["received"];
        assert!(received["packets"].as_u64().unwrap() > 150, "{value:#}");
        assert_eq!((&received["auth_failures"], &received["replays"]), (&0.into(), &0.into()), "{value:#}");
    }
}

#[test]
fn a_hold_that_cannot_be_sent_is_reported() {
    let (bob, uri) = bob(&["--hold-at", "0.2", "--duration", "0.5"]);
    let mut peer = Peer::new();
    peer.contact = "sips:peer@127.0.0.1".to_owned();
    peer.call(&uri, Offer::Protected);
    let bob = bob.done();
    assert!(
        bob.err.contains("hold or resume failed: 503") && bob.err.contains("no socket here can reach"),
        "{bob:?}"
    );
    assert_eq!(bob.json()["result"], "answered");
}

/// Makes a peer in a protected call with `phone` offer unprotected media; returns its status, the phone's output, and
/// the result.
fn taken_away(mut peer: Peer, phone: Running) -> (u16, String, Value) {
    assert!(peer.receives_packets_of(PROTECTED_BYTES, 20));
    let (status, answer) = peer.change(Offer::Bare);
    if status == 200 {
        assert!(answer.contains("m=audio ") && !answer.contains("a=crypto"), "{answer}");
        assert!(peer.receives_packets_of(PLAIN_BYTES, 20));
    } else {
        assert_eq!(peer.packet_bytes(Duration::from_millis(500)), (PROTECTED_BYTES, PROTECTED_BYTES));
    }
    peer.hang_up();
    let phone = phone.done();
    assert_eq!(phone.status, 0, "{phone:?}");
    (status, phone.err.clone(), phone.json())
}

#[test]
fn protection_is_removed_only_if_the_phone_permits_it() {
    for srtp in [&[][..], &["--srtp", "sdes"]] {
        for is_allowed in [false, true] {
            let allowed: &[&str] = if is_allowed { &["--allow-downgrade"] } else { &[] };
            let args = [srtp, allowed].concat();
            let (bob, uri) = bob(&args);
            let mut peer = Peer::new();
            peer.call(&uri, Offer::Protected);
            let called = taken_away(peer, bob);
            let mut peer = Peer::new();
            let (target, suite) = (peer.uri(), "AES_CM_128_HMAC_SHA1_80");
            let args_of_alice = ["call", &target, "--json", "--srtp", "sdes", "--suite", suite];
            let alice = start(&[&args_of_alice[..], allowed].concat(), "");
            peer.answer(Offer::Protected);
            for (status, said, value) in [called, taken_away(peer, alice)] {
                let (expected, method, line) = match is_allowed {
                    false => (488, "sdes", "a change by the other side was refused: 488"),
                    true => (200, "none", "sound: not protected"),
                };
                assert_eq!(
                    (status, &value["security"]["method"]),
                    (expected, &method.into()),
                    "{args:?}: {said}"
                );
                assert!(said.contains(line), "{args:?}: {said}");
            }
        }
    }
}

#[test]
fn a_call_works_over_tcp() {
    let (bob, uri) = bob(&["--play", "speech"]);
    let alice = alice(&uri, &["--duration", "2", "--transport", "tcp", "--play", "speech", "--trace"]);
    assert!(alice.err.contains("tcp:127.0.0.1") && alice.err.contains("INVITE sip:bob@"), "{alice:?}");
    let is_last =
        |line: &str| line.starts_with("<- ") && line.contains(" SIP/2.0 200 ") && line.contains(" BYE, ");
    assert!(alice.err.lines().last().is_some_and(is_last), "the answer to our BYE: {alice:?}");
    assert_is_a_good_call(&alice.json());
    assert_is_a_good_call(&bob.done().json());
}

#[test]
fn a_call_fails_at_once_when_its_connection_ends_before_the_answer() {
    for response in [None, Some("SIP/2.0 180 Ringing\r\n")] {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("sip:bob@{};transport=tcp", server.local_addr().unwrap());
        let alice = start(&["call", &uri, "--json"], "");
        let mut stream = server.accept().unwrap().0;
        let (mut invite, mut room) = (String::new(), [0; 4096]);
        while !invite.contains("\r\n\r\n") || !invite.contains("m=audio") {
            let length = stream.read(&mut room).unwrap();
            invite.push_str(std::str::from_utf8(&room[..length]).unwrap());
        }
        if let Some(response) = response {
            let of_invite = ["Via", "From", "To", "Call-ID", "CSeq"];
            let copied = invite.lines().filter(|line| of_invite.iter().any(|name| line.starts_with(name)));
            let fields: String = copied.map(|line| format!("{line}\r\n")).collect();
            let text = format!("{response}{fields}Content-Length: 0\r\n\r\n");
            stream.write_all(text.as_bytes()).unwrap();
        }
        drop(stream);
        // Without the report the status is 408: after 32 s, or after 180 s of ringing.
        let done = alice.done();
        assert_eq!((done.status, &done.json()["result"]), (1, &"failed".into()), "{done:?}");
        assert_eq!(done.json()["status"], 503, "{done:?}");
    }
}

#[test]
fn a_refused_call_is_reported_and_fails() {
    let (bob, uri) = bob(&["--reject", "603"]);
    let alice = alice(&uri, &[]);
    let value = alice.json();
    assert_eq!(
        (alice.status, &value["result"], &value["status"]),
        (1, &"rejected".into(), &603.into()),
        "{value:#}"
    );
    assert_eq!(value["security"]["method"], "none");
    assert_eq!(bob.done().json()["result"], "rejected");
    // One phone requires SRTP, the other does not accept it.
    let (bob, uri) = self::bob(&["--srtp", "none"]);
    let alice = self::alice(&uri, &["--srtp", "sdes"]);
    assert_eq!((alice.status, &alice.json()["status"]), (1, &488.into()), "{alice:?}");
    drop(bob);
}

#[test]
fn unreachable_and_unanswered_calls_are_failures() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("sip:bob@{}", free.local_addr().unwrap());
    let begun = Instant::now();
    let alice = alice(&uri, &["--ring-s", "1"]);
    let value = alice.json();
    assert_eq!(alice.status, 1);
    assert!(begun.elapsed() < Duration::from_secs(20), "it waits for timer B: 32 s");
    assert!(value["result"] == "failed" || value["result"] == "cancelled", "{value:#}");
    let (bob, uri) = bob(&["--ring-s", "30"]);
    let alice = self::alice(&uri, &["--ring-s", "1"]);
    assert_eq!((alice.status, &alice.json()["result"]), (1, &"cancelled".into()), "{alice:?}");
    assert_eq!(bob.done().json()["result"], "cancelled");
}

#[test]
fn a_closed_port_is_reported_at_once() {
    // No other test binds a port of this address.
    let port = std::net::UdpSocket::bind("127.0.0.9:0").unwrap().local_addr().unwrap();
    let uri = format!("sip:bob@{port}");
    let begun = Instant::now();
    let alice = alice(&uri, &[]);
    let value = alice.json();
    assert_eq!((alice.status, &value["result"], &value["status"]), (1, &"failed".into(), &503.into()));
    let options = ringway(&["options", &uri, "--json"]);
    assert_eq!((options.status, &options.json()["status"]), (1, &503.into()), "{options:?}");
    // Timer B and F are 32 s each.
    assert!(begun.elapsed() < Duration::from_secs(20), "it waits for timers");
}

/// A STUN server that answers is tested by `xtask interop`.
#[test]
fn a_stun_server_without_an_answer_ends_no_call() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    let (bob, uri) = bob(&["--play", "speech"]);
    let args = ["--stun", &server, "--ring-s", "2", "--duration", "2", "--play", "speech"];
    let alice = alice(&uri, &args);
    assert!(alice.err.contains("no public address, the local one is offered"), "{alice:?}");
    assert_is_a_good_call(&alice.json());
    assert_is_a_good_call(&bob.done().json());
    let mut request = [0; 100];
    silent.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let (length, _) = silent.recv_from(&mut request).unwrap();
    assert!(length >= 20 && request[..2] == [0, 1], "a Binding request (RFC 8489 §5): {request:?}");
}

#[test]
fn a_signal_hangs_up_and_the_result_is_still_printed() {
    let (bob, uri) = bob(&["--play", "speech"]);
    let alice = start(&["call", &uri, "--json", "--play", "speech"], "");
    alice.says(&format!("{uri} is connected"));
    std::thread::sleep(Duration::from_millis(500));
    alice.end();
    let alice = alice.done();
    assert_eq!((alice.status, &alice.json()["result"]), (0, &"answered".into()), "{alice:?}");
    assert_eq!(bob.done().json()["result"], "answered");
}

#[test]
fn through_the_server_with_digest() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("ringway.toml");
    let text = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[store]\nurl = \"sqlite://{}\"\n[admin]\nlisten = \
         \"127.0.0.1:0\"\n",
        file(&folder, "ringway.db")
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    for user in ["alice", "bob"] {
        let args = ["user", "add", user, "--password-stdin", "--danger-weak", "--config", config];
        assert_eq!(start(&args, "secret\n").done().status, 0);
    }
    let server = start(&["serve", "--config", config], "");
    let address = server.address();

    let common = ["--server", &address, "--password-stdin", "--json", "--play", "speech"];
    let mut args = vec!["answer", "--as", "sip:bob@example.org", "--register", "--count", "1"];
    args.extend(common);
    let bob = start(&args, "secret\n");
    bob.ready();
    let mut args = vec!["call", "sip:bob@example.org", "--from", "sip:alice@example.org", "--duration", "2"];
    args.extend(common);
    let wrong = start(&args, "guess\n").done();
    assert_eq!(wrong.status, 1, "{wrong:?}");
    assert!(
        wrong.json()["status"].as_u64().is_some_and(|status| status == 407 || status == 403),
        "{wrong:?}"
    );
    args.extend(["--srtp", "sdes"]);
    let alice = start(&args, "secret\n").done();
    assert_is_a_good_call(&alice.json());
    assert_is_a_good_call(&bob.done().json());
    let args = ["call", "sip:carol@example.org", "--from", "sip:alice@example.org", "--server", &address];
    let unknown = start(&[&args[..], &["--password-stdin", "--json"]].concat(), "secret\n").done();
    assert_eq!((unknown.status, &unknown.json()["status"]), (1, &404.into()), "{unknown:?}");
}

#[test]
fn a_call_to_a_closed_port_behind_the_server_fails_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("ringway.toml");
    let text = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\nworkers = 2\n[store]\nurl = \"sqlite://{}\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n",
        file(&folder, "ringway.db")
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let closed = std::net::UdpSocket::bind("127.0.0.9:0").unwrap().local_addr().unwrap();
    let bind = ["user", "bind", "bob", &format!("sip:bob@{closed}"), "--config", config];
    assert_eq!(ringway(&bind).status, 0);
    let server = start(&["serve", "--config", config], "");
    let begun = Instant::now();
    let call = ringway(&["call", "sip:bob@example.org", "--server", &server.address(), "--json"]);
    assert_eq!((call.status, &call.json()["status"]), (1, &480.into()), "{call:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it waits for timer B: 32 s");
    let options = ringway(&["options", &format!("sip:{}", server.address()), "--json"]);
    assert_eq!(options.json()["user_agent"], "Ringway", "without a version");
}

#[test]
fn a_realm_other_than_the_domain_is_learnt_by_registering_or_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("ringway.toml");
    let text = format!(
        "domains = [\"example.net\", \"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[store]\nurl = \"sqlite://{}\"\n\
         [auth]\nrealm = \"asterisk\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
        file(&folder, "ringway.db")
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    for user in ["alice", "bob"] {
        let args = [
            "user",
            "add",
            user,
            "--domain",
            "example.org",
            "--password-stdin",
            "--danger-weak",
            "--config",
            config,
        ];
        assert_eq!(start(&args, "secret\n").done().status, 0);
    }
    let server = start(&["serve", "--config", config], "");
    let address = server.address();

    let common = ["--server", &address, "--password-stdin", "--json"];
    let answer = ["answer", "--as", "sip:bob@example.org", "--register", "--count", "2"];
    let bob = start(&[&answer[..], &common].concat(), "secret\n");
    bob.ready();
    let call = ["call", "sip:bob@example.org", "--from", "sip:alice@example.org", "--duration", "0.5"];
    let alice = |more: &[&str]| start(&[&call[..], &common, more].concat(), "secret\n").done();
    let neither = alice(&[]);
    assert_eq!((neither.status, &neither.json()["status"]), (1, &407.into()), "{neither:?}");
    assert!(neither.json()["reason"].as_str().unwrap().contains("--realm \"asterisk\""), "{neither:?}");
    let wrong = alice(&["--register", "--realm", "example.org"]);
    assert_eq!(wrong.status, 1, "{wrong:?}");
    assert!(wrong.err.contains("the account's realm is \"example.org\""), "{wrong:?}");
    for more in [&["--realm", "asterisk"][..], &["--register"]] {
        let done = alice(more);
        assert_eq!((done.status, &done.json()["result"]), (0, &"answered".into()), "{more:?}: {done:?}");
    }
    assert_eq!(bob.done().status, 0);
}

/// Two domains with a realm each, nonces for one use, auth-int: our phones register and call between the domains.
#[test]
fn each_domain_has_its_realm_and_a_password_for_another_one_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("ringway.toml");
    let write = |auth: &str| {
        let text = format!(
            "domains = [\"example.org\", \"example.net\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[store]\nurl = \"sqlite://{}\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[auth]\nnonce_use = \"once\"\nauth_int = true\n{auth}",
            file(&folder, "ringway.db")
        );
        std::fs::write(&config, text).unwrap();
    };
    let path = config.to_str().unwrap();
    let add = |user: &str, domain: &str| {
        let args =
            ["user", "add", user, "--domain", domain, "--password-stdin", "--danger-weak", "--config", path];
        assert_eq!(start(&args, "secret\n").done().status, 0);
    };
    write("");
    add("early", "example.net");
    write("[[auth.domain]]\nname = \"example.net\"\nrealm = \"the other\"\n");
    add("alice", "example.org");
    add("bob", "example.net");
    let users = ringway(&["user", "list", "--json", "--config", path]).json();
    let realms: Vec<_> = users["users"].as_array().unwrap().iter().map(|user| &user["realm"]).collect();
    assert_eq!(realms, ["the other", "example.org", "example.org"], "{users:#}");
    let server = start(&["serve", "--config", path], "");
    let line = server.says("has a password for the realm");
    for part in ["1 user of example.net", "\"early\"", "\"example.org\" instead of \"the other\""] {
        assert!(line.contains(part), "{line}");
    }
    let address = server.address();
    let common = ["--server", &address, "--password-stdin", "--json", "--register"];
    let bob = start(
        &[&["answer", "--as", "sip:bob@example.net", "--count", "2"], &common[..]].concat(),
        "secret\n",
    );
    bob.ready();
    for _ in 0..2 {
        let call = ["call", "sip:bob@example.net", "--from", "sip:alice@example.org", "--duration", "0.5"];
        let done = start(&[&call[..], &common].concat(), "secret\n").done();
        assert_eq!((done.status, &done.json()["result"]), (0, &"answered".into()), "{done:?}");
    }
    assert_eq!(bob.done().status, 0);
}

#[test]
fn a_password_is_one_line_and_input_need_not_end() {
    let (bob, uri) = bob(&[]);
    let server = uri.rsplit('@').next().unwrap();
    let args =
        ["call", &uri, "--server", server, "--password-stdin", "--ring-s", "1", "--duration", "1", "--json"];
    let (alice, input) = Running::start_and_keep_input(Path::new("."), &args, "secret\n");
    assert_eq!(alice.done().json()["result"], "answered");
    assert_eq!(bob.done().json()["result"], "answered");
    drop(input);
    for (password, is_long) in
        [("x".repeat(1024) + "\r\n", false), ("x".repeat(1025), true), ("\nsecret\n".to_owned(), false)]
    {
        let done = start(&args, &password).done();
        assert_eq!(done.status == 2, is_long || password.starts_with('\n'), "{done:?}");
        assert_eq!(done.err.contains("longer than 1024 bytes"), is_long, "{done:?}");
    }
}

#[test]
fn unsupported_options_are_refused_by_name() {
    for (args, word) in
        [(&["--transport", "wss"][..], "wss"), (&["--codec", "G722"], "G722"), (&["--codec", "opus"], "opus")]
    {
        let done = ringway(&[&["call", "sip:bob@127.0.0.1"], args].concat());
        let error = done.refused(2);
        assert!(error.contains(word) && error.contains("not supported yet"), "{error}");
    }
    let done = ringway(&["call", "sips:bob@127.0.0.1;transport=udp"]);
    assert!(done.status != 0 && done.err.contains("transport"), "{done:?}");
}

#[test]
fn wrong_usage_is_reported_in_one_line() {
    for (args, word) in [
        (&["call"][..], "URI"),
        (&["call", "bob"], "sip:bob@example.org"),
        (&["call", "sip:ünï@127.0.0.1"], "write sip:%C3%BCn%C3%AF@127.0.0.1"),
        (&["call", "sip:b@127.0.0.1", "--suite", "DES"], "AES_CM_128_HMAC_SHA1_80"),
        (&["call", "sip:b@127.0.0.1", "--srtp", "none", "--suite", "AEAD_AES_128_GCM"], "--suite"),
        (&["call", "sip:b@127.0.0.1", "--srtp", "dtls", "--suite", "AES_CM_256_HMAC_SHA1_80"], "--suite"),
        (&["call", "sip:b@127.0.0.1", "--srtp", "sdes", "--zrtp-cache", "z"], "--zrtp-cache"),
        (&["call", "sip:b@127.0.0.1", "--srtp", "dtls", "--zrtp-cache", "z"], "--zrtp-cache"),
        (&["call", "sip:b@127.0.0.1", "--play", "tone:9000"], "3999"),
        (&["call", "sip:b@127.0.0.1", "--play", "tone:x"], "tone:440"),
        (&["call", "sip:b@127.0.0.1", "--play", "no-such.wav"], "no-such.wav"),
        (&["call", "sip:b@127.0.0.1", "--play", "microphone"], "--audio"),
        (&["call", "sip:b@127.0.0.1", "--dtmf", "12x"], "--dtmf 12x: 'x' is no key; give 0-9"),
        (&["call", "sip:b@127.0.0.1", "--rtp-ports", "5-4"], "A-B"),
        (&["call", "sip:b@127.0.0.1", "--duration", "100000"], "86400"),
        (&["call", "sip:b@127.0.0.1", "--register"], "--server"),
        (&["call", "sip:b@127.0.0.1", "--server", "a b"], "HOST:PORT"),
        (&["call", "sip:b@127.0.0.1", "--realm", ""], "--realm"),
        (&["call", "sip:b@127.0.0.1", "--from", "alice"], "sip:"),
        (&["answer"], "--as"),
        (&["answer", "--as", "sip:b@127.0.0.1", "--count", "0"], "count"),
        (&["answer", "--as", "sip:b@127.0.0.1", "--reject", "200"], "400"),
    ] {
        let done = ringway(args);
        assert!(done.refused(2).contains(word), "{args:?}: {done:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let nowhere = file(&folder, "no/such/folder.wav");
    let refused = ringway(&["call", "sip:b@127.0.0.1", "--record", &nowhere]).refused(2);
    assert!(refused.contains("--record") && refused.contains("its folder does not exist"), "{refused}");
}

#[test]
fn the_demo_shows_a_call_and_is_quick() {
    let begun = Instant::now();
    let demo = ringway(&["demo"]);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(demo.status, 0, "{demo:?}");
    for word in ["REGISTER", "401 Unauthorized", "INVITE", "200 OK", "BYE", "SRTP", "MOS", "likeness"] {
        assert!(demo.out.contains(word), "{word}: {}", demo.out);
    }
    let value = ringway(&["demo", "--json"]).json();
    assert_eq!(value["result"], "ok", "{value:#}");
}

/// Length of an RTP packet with 20 ms of G.711, and of the same packet as SRTP with an 80-bit tag.
const PLAIN_BYTES: usize = 172;
const PROTECTED_BYTES: usize = 182;

/// Time limit of any wait.
const TIME_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_call_cancelled_at_once_ends_only_itself() {
    let bob = start(&["answer", "--as", "sip:bob@127.0.0.1", "--bind", "127.0.0.1:0", "--count", "11"], "");
    let uri = format!("sip:bob@{}", bob.address());
    let mut stranger = Peer::new();
    for _ in 0..10 {
        // Bob accepts one call at a time, and the next one as soon as the one before has ended.
        let status = stranger.call_and_cancel(&uri);
        assert!([200, 487].contains(&status), "{status}");
    }
    let alice = alice(&uri, &["--duration", "1"]);
    assert_eq!((alice.status, &alice.json()["result"]), (0, &"answered".into()), "{alice:?}");
    let bob = bob.done();
    assert_eq!(bob.status, 0, "{bob:?}");
}

#[test]
fn crossing_byes_are_a_successful_call() {
    let calls = [(); 12].map(|()| {
        std::thread::spawn(|| {
            let (bob, uri) = bob(&["--duration", "1"]);
            (alice(&uri, &["--duration", "1"]), bob.done())
        })
    });
    for call in calls {
        let (alice, bob) = call.join().unwrap();
        assert_eq!((alice.status, bob.status), (0, 0), "{alice:?} {bob:?}");
        assert_eq!(
            (&alice.json()["result"], &bob.json()["result"]),
            (&"answered".into(), &"answered".into())
        );
    }
}

#[test]
fn a_phone_that_cannot_record_refuses_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let (bob, uri) = bob(&["--record", &file(&folder, "missing/bob.wav")]);
    let alice = alice(&uri, &["--ring-s", "20"]);
    assert_eq!((alice.status, &alice.json()["result"]), (1, &"rejected".into()), "{alice:?}");
    assert_eq!(alice.json()["status"], 500);
    let bob = bob.done();
    assert_eq!((bob.status, &bob.json()["result"]), (1, &"failed".into()), "{bob:?}");
    assert!(bob.json()["reason"].as_str().unwrap().contains("missing/bob.wav"), "{bob:?}");
}

#[test]
fn the_examples_in_the_help_can_be_copied() {
    for command in ["call", "answer"] {
        let help = ringway(&[command, "--help"]).out;
        assert!(!help.lines().any(|line| line.trim() == "\\" || line.chars().count() > 100), "{help}");
    }
}

//! `[auth] hide_users`: times of answers are the same for unknown users and for those without a phone.

use crate::program::Running;
use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Probes of each kind.
const PROBES: usize = 10_000;

/// A request, and the status of its answer.
struct Question {
    method: &'static str,
    from: &'static str,
    status: &'static str,
}

#[test]
fn times_of_answers_do_not_depend_on_the_user() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let config = "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\nworkers = 1\n[auth]\nhide_users = true\n\
                  [limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = \"off\"\n";
    fs::write(path.join("ringway.toml"), config).unwrap();
    Running::start(path, &["user", "add", "alice"], "").done().ok();
    let server = Running::start(path, &["serve"], "");
    server.ready();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for question in [
        Question { method: "INVITE", from: "sip:eve@example.net", status: "480" },
        Question { method: "REGISTER", from: "", status: "401" },
    ] {
        let mut number = 0_u64;
        let mut found = Vec::new();
        while found.len() < 3 && found.iter().all(|found| *found <= 0.01) {
            found.push(probability(&socket, &question, &mut number));
        }
        println!("{}: p = {found:?}", question.method);
        assert!(found.iter().any(|found| *found > 0.01), "{}: p = {found:?}", question.method);
    }
}

/// Probability that random times of one distribution differ as much as those of both kinds.
fn probability(socket: &UdpSocket, question: &Question, number: &mut u64) -> f64 {
    let mut times = [const { Vec::new() }; 2];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    while times.iter().any(|times| times.len() < PROBES) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let kind = (random >> 32) as usize % 2;
        let time = ask(socket, question, ["alice", "zelda"][kind], number);
        if times[kind].len() < PROBES {
            times[kind].push(time);
        }
    }
    kolmogorov_smirnov(times)
}

fn ask(socket: &UdpSocket, question: &Question, user: &str, number: &mut u64) -> f64 {
    *number += 1;
    let Question { method, from, status } = question;
    let own = format!("sip:{user}@example.org");
    let (uri, from) = if from.is_empty() { ("sip:example.org", &*own) } else { (&*own, *from) };
    let text = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bK{number:09}\r\nMax-Forwards: 70\r\n\
         From: <{from}>;tag=1\r\nTo: <{own}>\r\nCall-ID: {number:09}\r\nCSeq: 1 {method}\r\nContact: <sip:x@127.0.0.1:9>\r\n\
         Content-Length: 0\r\n\r\n"
    );
    let branch = format!("branch=z9hG4bK{number:09}");
    let mut answer = [0; 2000];
    let begun = Instant::now();
    socket.send(text.as_bytes()).unwrap();
    loop {
        let len = socket.recv(&mut answer).unwrap();
        let taken = begun.elapsed();
        let answer = std::str::from_utf8(&answer[..len]).unwrap();
        // Retransmissions of an earlier one are not it.
        if answer.contains(&branch) {
            assert_eq!(&answer[8..11], *status, "{answer}");
            return taken.as_secs_f64();
        }
    }
}

/// Probability of the largest distance between the distributions of two samples, or a larger one, if both have one distribution.
fn kolmogorov_smirnov([mut one, mut other]: [Vec<f64>; 2]) -> f64 {
    one.sort_by(f64::total_cmp);
    other.sort_by(f64::total_cmp);
    let (mut at, mut distance) = ([0, 0], 0.0_f64);
    while at[0] < one.len() && at[1] < other.len() {
        let value = one[at[0]].min(other[at[1]]);
        at[0] += one[at[0]..].iter().take_while(|found| **found <= value).count();
        at[1] += other[at[1]..].iter().take_while(|found| **found <= value).count();
        distance = distance.max((at[0] as f64 / one.len() as f64 - at[1] as f64 / other.len() as f64).abs());
    }
    let size = ((one.len() * other.len()) as f64 / (one.len() + other.len()) as f64).sqrt();
    let scaled = (size + 0.12 + 0.11 / size) * distance;
    let term =
        |k: i32| f64::from(if k % 2 == 0 { -1 } else { 1 }) * (-2.0 * (f64::from(k) * scaled).powi(2)).exp();
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

#[test]
fn a_shift_of_a_tenth_of_the_deviation_is_found() {
    let mut random = 1_u64;
    let mut sample = |shift: f64| -> Vec<f64> {
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as f64 / f64::from(1_u32 << 31)
        };
        // Twelve add up to a deviation of 1.
        (0..PROBES).map(|_| (0..12).map(|_| next()).sum::<f64>() + shift).collect()
    };
    let alike = kolmogorov_smirnov([sample(0.0), sample(0.0)]);
    let shifted = kolmogorov_smirnov([sample(0.0), sample(0.1)]);
    assert!(alike > 0.01 && shifted < 0.0001, "{alike} {shifted}");
}

//! Answers over TCP as large as DNS permits, and answers that declare more than they have.
//!
//! A DNS message over TCP has 65,535 bytes at most, and an SRV record 20 or more: 10,000 records do not fit. Tested are as many
//! as fit, and a message that declares 10,000.

use super::tests::{Answered, bind, limits, next, target};
use super::*;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};

use ringway_sansio::Transport;

/// Answer to a question for SRV records.
type Respond = fn(&[u8], &mut std::net::TcpStream);

/// DNS server that truncates each answer by UDP, and has SRV records and one address by TCP.
fn start_server(respond: Respond) -> SocketAddr {
    let (address, tcp, udp) = bind();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((length, from)) = udp.recv_from(&mut bytes) {
            let question = &bytes[..length];
            let answer = match type_of(question) {
                SRV => header_of(question, TRUNCATED, 0),
                A => [header_of(question, 0, 1), record(A, &[192, 0, 2, 1])].concat(),
                _ => header_of(question, 0, 0),
            };
            let _ = udp.send_to(&answer, from);
        }
    });
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = tcp.accept() {
            std::thread::spawn(move || {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
                    if stream.read_exact(&mut bytes).is_err() {
                        break;
                    }
                    respond(&bytes, &mut stream);
                }
            });
        }
    });
    address
}

const A: u16 = 1;
const SRV: u16 = 33;
const TRUNCATED: u8 = 0b10;

/// The question without the records that follow it, such as EDNS.
fn question_of(message: &[u8]) -> &[u8] {
    let name = message[12..].iter().position(|&byte| byte == 0).unwrap();
    &message[12..12 + name + 5]
}

fn type_of(message: &[u8]) -> u16 {
    let question = question_of(message);
    let at = question.len() - 4;
    u16::from_be_bytes([question[at], question[at + 1]])
}

/// Header of an answer that declares `count` records, and the question.
fn header_of(message: &[u8], flags: u8, count: u16) -> Vec<u8> {
    let [high, low] = count.to_be_bytes();
    let header = [message[0], message[1], 0x85 | flags, 0x80, 0, 1, high, low, 0, 0, 0, 0];
    [&header[..], question_of(message)].concat()
}

/// Record of the name in the question, for 300 s.
fn record(of: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    let parts = [&[0xc0, 12][..], &of.to_be_bytes(), &[0, 1, 0, 0, 1, 44], &length.to_be_bytes(), data];
    parts.concat()
}

/// As many SRV records as fit, each with a priority of its own, the lowest last; `declared` instead of their number.
fn write_records(message: &[u8], stream: &mut std::net::TcpStream, declared: Option<u16>) {
    let one = |priority: u16| {
        let [high, low] = priority.to_be_bytes();
        // The target is the label `a` under the name in the question.
        record(SRV, &[high, low, 0, 1, 0x13, 0xc4, 1, b'a', 0xc0, 12])
    };
    let left = usize::from(u16::MAX) - header_of(message, 0, 0).len();
    let count = u16::try_from(left / one(0).len()).unwrap();
    assert!(count > 2900, "{count}");
    let mut answer = header_of(message, 0, declared.unwrap_or(count));
    (0..count).rev().for_each(|priority| answer.extend(one(priority)));
    let length = u16::try_from(answer.len()).unwrap();
    let _ = stream.write_all(&[&length.to_be_bytes()[..], &answer].concat());
}

fn resolver(respond: Respond, time: Duration) -> (Resolver, Receiver<Answered>) {
    let servers = Servers::At(vec![start_server(respond)]);
    let usable = Usable::default().with(Transport::Udp, true);
    let (to, from) = channel();
    let answer = move |shard, event| {
        let Event::Resolved { query, servers } = event else { panic!("{event:?}") };
        let _ = to.send((query, shard, servers));
    };
    (Resolver::with_limits(&servers, Arc::default(), usable, answer, limits(time)).unwrap(), from)
}

fn ask(resolver: &Resolver) {
    resolver.ask(0, 1, Target { transport: Some(Transport::Udp), ..target("many.example") });
}

#[test]
fn of_as_many_records_as_a_message_has_the_first_64_are_kept() {
    let (resolver, answers) =
        resolver(|message, stream| write_records(message, stream, None), Duration::from_secs(20));
    ask(&resolver);
    let found = next(&answers).1;
    assert_eq!(found, ["udp 192.0.2.1:5060"]);
    let (records, bytes) = resolver.shared.answers.srv_kept("_sip._udp.many.example").unwrap();
    assert_eq!(records, 64);
    assert!(bytes < 16_384, "{bytes}");
}

#[test]
fn an_answer_that_declares_more_records_than_it_has_is_none() {
    let (resolver, answers) =
        resolver(|message, stream| write_records(message, stream, Some(10_000)), Duration::from_secs(3));
    let began = Instant::now();
    ask(&resolver);
    // The search goes on with the addresses of the name.
    next(&answers);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(resolver.shared.answers.srv_kept("_sip._udp.many.example"), None, "nothing of it is kept");
}

#[test]
fn an_answer_that_declares_more_bytes_than_come_ends_in_time() {
    let respond: Respond = |message, stream| {
        let _ = stream.write_all(&[&[0xff; 2][..], &header_of(message, 0, 10_000)].concat());
    };
    let (resolver, answers) = resolver(respond, Duration::from_secs(2));
    let began = Instant::now();
    ask(&resolver);
    next(&answers);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

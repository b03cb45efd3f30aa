//! The ClientHello and its cookie on a virtual clock.

use crate::hello::{ClientHello, HELLO_VERIFY_REQUEST_BYTES, NotHello, write_hello_verify_request};
use crate::{COOKIE_BYTES, ContentType, Cookies, Judged, Records};
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{Instant, Seed};

/// Datagram of a ClientHello.
struct Client {
    random: u8,
    session_id: &'static [u8],
    cookie: Vec<u8>,
    cipher_suites: &'static [u8],
    extensions: &'static [u8],
    message_sequence: u16,
}

const CLIENT: Client = Client {
    random: 7,
    session_id: b"",
    cookie: Vec::new(),
    cipher_suites: &[0xc0, 0x2b],
    extensions: &[],
    message_sequence: 0,
};

impl Client {
    fn body(&self) -> Vec<u8> {
        let mut body = Vec::from([0xfe, 0xfd]);
        body.extend([self.random; 32]);
        body.push(self.session_id.len() as u8);
        body.extend(self.session_id);
        body.push(self.cookie.len() as u8);
        body.extend(&self.cookie);
        body.extend((self.cipher_suites.len() as u16).to_be_bytes());
        body.extend(self.cipher_suites);
        body.extend([1, 0]);
        if !self.extensions.is_empty() {
            body.extend((self.extensions.len() as u16).to_be_bytes());
            body.extend(self.extensions);
        }
        body
    }

    fn datagram(&self) -> Vec<u8> {
        let body = self.body();
        let mut datagram = Vec::from([22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 5]);
        datagram.extend(((body.len() + 12) as u16).to_be_bytes());
        let [_, length @ ..] = (body.len() as u32).to_be_bytes();
        datagram.push(1);
        datagram.extend(length);
        datagram.extend(self.message_sequence.to_be_bytes());
        datagram.extend([0; 3]);
        datagram.extend(length);
        datagram.extend(body);
        datagram
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn judge(cookies: &Cookies, at_s: u64, from: &str, client: &Client) -> Judged {
    let datagram = client.datagram();
    cookies.judge(Instant::from_secs(at_s), address(from), &ClientHello::parse(&datagram).unwrap())
}

const ALICE: &str = "192.0.2.1:5061";

fn with_cookie(cookies: &Cookies, at_s: u64) -> Client {
    let Judged::NoCookie(cookie) = judge(cookies, at_s, ALICE, &CLIENT) else { panic!("it has a cookie") };
    Client { cookie: cookie.to_vec(), message_sequence: 1, ..CLIENT }
}

#[test]
fn a_client_that_returns_its_cookie_has_proven_its_address() {
    let cookies = Cookies::new(Seed::from_number(1));
    let second = with_cookie(&cookies, 1000);
    assert_eq!(judge(&cookies, 1001, ALICE, &second), Judged::Proven);
    let mapped = "[::ffff:192.0.2.1]:5061";
    assert_eq!(judge(&cookies, 1001, mapped, &second), Judged::Proven, "one address, one cookie");
}

#[test]
fn a_cookie_is_of_one_address_one_hello_and_one_server() {
    let cookies = Cookies::new(Seed::from_number(1));
    let second = with_cookie(&cookies, 1000);
    for other in ["192.0.2.2:5061", "192.0.2.1:5062", "[2001:db8::1]:5061"] {
        assert_eq!(judge(&cookies, 1001, other, &second), Judged::WrongCookie, "{other}");
    }
    let cookie = &second.cookie;
    for changed in [
        Client { random: 8, cookie: cookie.clone(), ..CLIENT },
        Client { cipher_suites: &[0xc0, 0x2b, 0xc0, 0x2f], cookie: cookie.clone(), ..CLIENT },
        Client { cookie: cookie[..COOKIE_BYTES - 1].to_vec(), ..CLIENT },
        Client { cookie: [cookie.as_slice(), &[0]].concat(), ..CLIENT },
        Client { cookie: [0; COOKIE_BYTES].to_vec(), ..CLIENT },
    ] {
        assert_eq!(judge(&cookies, 1001, ALICE, &changed), Judged::WrongCookie);
    }
    let other = Cookies::new(Seed::from_number(2));
    assert_eq!(judge(&other, 1001, ALICE, &second), Judged::WrongCookie);
}

#[test]
fn a_cookie_expires() {
    let cookies = Cookies::new(Seed::from_number(1));
    let second = with_cookie(&cookies, 60 * 20 + 59);
    assert_eq!(judge(&cookies, 60 * 21 + 59, ALICE, &second), Judged::Proven, "in the next period");
    assert_eq!(judge(&cookies, 60 * 22, ALICE, &second), Judged::WrongCookie);
    assert_eq!(judge(&cookies, 0, ALICE, &with_cookie(&cookies, 0)), Judged::Proven, "at the epoch too");
}

#[test]
fn the_answer_is_a_hello_verify_request_and_shorter_than_any_hello() {
    let datagram = CLIENT.datagram();
    let hello = ClientHello::parse(&datagram).unwrap();
    let mut answer = Vec::new();
    write_hello_verify_request(&hello, &[9; COOKIE_BYTES], &mut answer);
    assert_eq!(answer.len(), HELLO_VERIFY_REQUEST_BYTES);
    assert!(answer.len() < datagram.len(), "this is the shortest ClientHello");
    let record = Records::of(&answer).next().unwrap();
    assert_eq!((record.content_type, record.epoch, record.sequence), (ContentType::Handshake, 0, 5));
    assert_eq!(record.version, [0xfe, 0xff], "DTLS 1.0, whatever is negotiated");
    assert_eq!(&record.payload[..12], [3, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 23]);
    assert_eq!(&record.payload[12..15], [0xfe, 0xff, 20]);
}

#[test]
fn the_first_hello_is_made_again_from_the_second() {
    let first = Client { extensions: &[0, 23, 0, 0], ..CLIENT };
    let second = Client {
        cookie: [3; COOKIE_BYTES].to_vec(),
        extensions: &[0, 23, 0, 0],
        message_sequence: 1,
        ..CLIENT
    };
    let (first, second) = (first.datagram(), second.datagram());
    let mut made = Vec::new();
    ClientHello::parse(&second).unwrap().write_first(&mut made);
    // Version and sequence number of the record are its own.
    assert_eq!(made[13..], first[13..]);
    assert_eq!(ClientHello::parse(&made).unwrap().record_sequence, 0);
}

#[test]
fn the_server_name_is_found_among_the_extensions() {
    const NAMED: &[u8] = &[0, 23, 0, 0, 0, 0, 0, 8, 0, 6, 0, 0, 3, b'a', b'.', b'b'];
    let name = |extensions: &'static [u8]| {
        let datagram = Client { extensions, ..CLIENT }.datagram();
        ClientHello::parse(&datagram).unwrap().server_name().map(alloc::string::String::from)
    };
    assert_eq!(name(NAMED).as_deref(), Some("a.b"));
    assert_eq!(name(&NAMED[..4]), None);
    // A length beyond the end of the extension, and a name that is not UTF-8.
    for wrong in [&[0, 0, 0, 5, 0, 3, 0, 0, 9][..], &[0, 0, 0, 6, 0, 4, 0, 0, 1, 255]] {
        assert_eq!(name(wrong), None, "{wrong:?}");
    }
}

#[test]
fn extensions_are_complete_and_come_once_with_lists_of_their_own() {
    let parse = |extensions: &[u8]| {
        let extensions = alloc::boxed::Box::leak(extensions.to_vec().into_boxed_slice());
        let datagram = Client { extensions, ..CLIENT }.datagram();
        ClientHello::parse(&datagram).map(|_| ())
    };
    let groups = [0, 10, 0, 4, 0, 2, 0, 29];
    assert_eq!(parse(&[&groups[..], &[0, 23, 0, 0]].concat()), Ok(()));
    let wrong = [
        &[0, 0, 0, 9, 0, 6][..],
        &[0, 23, 0],
        &[&groups[..], &groups].concat(),
        // Lists that go on after their extension.
        &[0, 10, 0, 2, 255, 254],
        &[0, 13, 0, 2, 0, 2, 0, 23, 0, 0],
        &[0, 11, 0, 1, 9],
        &[0, 14, 0, 0],
    ];
    for extensions in wrong {
        assert_eq!(parse(extensions), Err(NotHello::Malformed), "{extensions:?}");
    }
    let many: alloc::vec::Vec<u8> = (0..65).flat_map(|kind| [1, kind, 0, 0]).collect();
    assert_eq!((parse(&many[..64 * 4]), parse(&many)), (Ok(()), Err(NotHello::Malformed)));
}

#[test]
fn what_is_no_complete_hello_is_refused_with_its_reason() {
    let good = CLIENT.datagram();
    assert!(ClientHello::parse(&good).is_ok());
    for length in 0..good.len() {
        assert_eq!(ClientHello::parse(&good[..length]), Err(NotHello::Malformed), "{length} bytes");
    }
    let changed = |at: usize, to: u8| {
        let mut datagram = good.clone();
        datagram[at] = to;
        ClientHello::parse(&datagram).unwrap_err()
    };
    assert_eq!(changed(0, 23), NotHello::Malformed, "application data");
    assert_eq!(changed(4, 1), NotHello::Malformed, "epoch 1");
    assert_eq!(changed(13, 2), NotHello::Malformed, "a ServerHello");
    assert_eq!(changed(21, 1), NotHello::Fragmented, "with an offset");
    assert_eq!(changed(24, 9), NotHello::Fragmented, "a part");
    assert_eq!(changed(26, 0xff), NotHello::Version, "DTLS 1.0 only");
    assert_eq!(changed(25, 3), NotHello::Malformed, "TLS");
    let twice = [good.as_slice(), &good].concat();
    assert_eq!(ClientHello::parse(&twice), Err(NotHello::Malformed), "two records");
    for (client, what) in [
        (Client { cipher_suites: &[], ..CLIENT }, "no suite"),
        (Client { cipher_suites: &[0xc0], ..CLIENT }, "half a suite"),
        // rtc-dtls reads the length only, and takes the ID for the cookie and all that comes after it.
        (Client { session_id: b"s", ..CLIENT }, "a session ID"),
        (Client { session_id: &[7; 32], ..CLIENT }, "a session ID of 32 bytes"),
    ] {
        assert_eq!(ClientHello::parse(&client.datagram()), Err(NotHello::Malformed), "{what}");
    }
}

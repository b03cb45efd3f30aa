//! Any bytes as a datagram of a peer without an association.

use ringway_datagram::{COOKIE_BYTES, ClientHello, Cookies, Judged, Records, write_hello_verify_request};
use ringway_sansio::{Instant, Seed};
use std::net::SocketAddr;
use std::vec::Vec;

/// Checks that records lie in the datagram, and that a ClientHello is answered with less, cookie and address belong
/// together, and the ClientHello before it can be made again.
pub(crate) fn run(data: &[u8]) {
    let mut records = Records::of(data);
    let bytes: usize = records.by_ref().map(|record| record.payload.len() + 13).sum();
    assert_eq!(bytes + records.rest().len(), data.len());
    let Ok(hello) = ClientHello::parse(data) else { return };
    let _ = hello.server_name();
    let mut answer = Vec::new();
    write_hello_verify_request(&hello, &[0; COOKIE_BYTES], &mut answer);
    assert!(answer.len() < data.len(), "an answer must not be longer than its request");
    let mut first = Vec::new();
    hello.write_first(&mut first);
    let first = ClientHello::parse(&first).expect("the ClientHello without its cookie is one too");
    assert!(first.cookie.is_empty() && first.server_name() == hello.server_name());
    let (cookies, now) = (Cookies::new(Seed::from_number(1)), Instant::from_secs(1000));
    let [one, other] =
        ["192.0.2.1:5061", "192.0.2.2:5061"].map(|text| text.parse::<SocketAddr>().expect("an address"));
    let Judged::NoCookie(cookie) = cookies.judge(now, one, &first) else { panic!("it has no cookie") };
    let mut second = hello;
    second.cookie = &cookie;
    assert_eq!(cookies.judge(now, one, &second), Judged::Proven);
    assert_eq!(cookies.judge(now, other, &second), Judged::WrongCookie);
}

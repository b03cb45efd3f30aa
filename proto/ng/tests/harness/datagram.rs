//! Any bytes as the datagram of a relay: nothing panics, an answer's SDP is a part of the datagram, and what is no answer
//! leaves the client unchanged.

use ringway_ng::{Answer, Client, read_answer, read_dictionary};
use ringway_sansio::{Instant, Seed};
use std::time::Duration;

/// Reads `bytes` as a dictionary and as an answer, and gives them to a client.
pub(crate) fn run(bytes: &[u8]) {
    if let Ok(dictionary) = read_dictionary(bytes) {
        assert!(dictionary.iter().count() * 3 <= bytes.len());
    }
    if let Ok((_, Answer::Done(Some(sdp)))) = read_answer(bytes) {
        assert!(sdp.len() < bytes.len());
    }
    let start = Instant::from_secs(1);
    let now = start + Duration::from_millis(100);
    let address = "192.0.2.7:22222".parse().unwrap();
    let mut client: Client<u8> =
        Client::new(&[address], Duration::from_secs(2), &Seed::from_number(1), start);
    client.on_timeout(now);
    client.on_datagram(now, address, bytes);
    assert_eq!(client.pending_len(), 1, "the ping's cookie was guessed");
}

//! The client on a virtual clock.

use super::*;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Instant, Seed};

struct Story {
    client: StunClient,
    now: Instant,
    /// Time in milliseconds since the start, and the datagram sent.
    sent: Vec<(u64, Vec<u8>)>,
}

impl Story {
    fn new() -> Self {
        let server = "198.51.100.1:3478".parse().unwrap();
        let mut story = Self {
            client: StunClient::new(server, &Seed::from_number(3)),
            now: Instant::from_secs(1000),
            sent: Vec::new(),
        };
        story.client.start(story.now, &mut |bytes| story.sent.push((0, bytes.to_vec())));
        story
    }

    /// Advances the clock to the next deadline.
    fn step(&mut self) -> Option<StunEvent> {
        self.now = self.client.next_deadline().unwrap().at;
        let at = self.now.since(Instant::from_secs(1000)).as_millis() as u64;
        self.client.on_timeout(self.now, &mut |bytes| self.sent.push((at, bytes.to_vec())))
    }

    fn answer(&self) -> MessageWriter {
        let request = Message::parse(&self.sent.last().unwrap().1).unwrap();
        MessageWriter::new(Class::Success, METHOD_BINDING, request.id())
    }

    fn receive(&mut self, source: &str, bytes: &[u8]) -> Option<StunEvent> {
        self.client.on_datagram(self.now, source.parse().unwrap(), bytes)
    }
}

const SERVER: &str = "198.51.100.1:3478";

fn outside(port: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 5], port))
}

#[test]
fn a_request_is_retransmitted_on_the_schedule_of_rfc_8489_and_times_out() {
    let mut story = Story::new();
    let event = loop {
        if let Some(event) = story.step() {
            break event;
        }
    };
    assert_eq!(event, StunEvent::Failed(StunFailure::Timeout));
    let times: Vec<u64> = story.sent.iter().map(|sent| sent.0).collect();
    assert_eq!(times, [0, 500, 1500, 3500, 7500, 15500, 31500]);
    assert!(story.sent.iter().all(|sent| sent.1 == story.sent[0].1), "a retransmission is the same request");
    assert_eq!(story.now.since(Instant::from_secs(1000)), Duration::from_millis(39_500));
    assert_eq!(story.step(), None);
    assert_ne!(story.sent.last().unwrap().1, story.sent[0].1, "a new attempt is a new transaction");
}

#[test]
fn the_mapping_is_reported_once_and_after_a_change() {
    let mut story = Story::new();
    let answer = story.answer().xor_mapped_address(outside(4000)).finish_with_fingerprint();
    assert_eq!(story.receive(SERVER, &answer), Some(StunEvent::Mapped(outside(4000))));
    assert_eq!(story.receive(SERVER, &answer), None, "a duplicate has no effect");
    assert_eq!(story.client.counts().strangers, 1);
    assert_eq!(story.client.next_deadline().unwrap().at, story.now + Duration::from_secs(30));

    story.step();
    let answer = story.answer().xor_mapped_address(outside(4000)).finish();
    assert_eq!(story.receive(SERVER, &answer), None);

    story.step();
    let answer = story.answer().xor_mapped_address(outside(4001)).finish();
    assert_eq!(story.receive(SERVER, &answer), Some(StunEvent::Mapped(outside(4001))));
    assert_eq!(story.client.mapped(), Some(outside(4001)));
    story.client.stop();
    assert_eq!(story.client.next_deadline(), None);
}

#[test]
fn only_responses_of_the_server_are_accepted() {
    let mut story = Story::new();
    let answer = story.answer().xor_mapped_address(outside(6666)).finish();
    assert_eq!(story.receive("198.51.100.2:3478", &answer), None);
    assert_eq!(story.receive("198.51.100.1:3479", &answer), None);
    let guessed = MessageWriter::new(Class::Success, METHOD_BINDING, TransactionId([0; 12]))
        .xor_mapped_address(outside(6666))
        .finish();
    assert_eq!(story.receive(SERVER, &guessed), None);
    let request = story.sent[0].1.clone();
    assert_eq!(story.receive(SERVER, &request), None, "our own request is no response");
    assert_eq!(story.receive(SERVER, b"junk"), None);
    assert_eq!(story.client.counts(), StunCounts { malformed: 1, strangers: 4 });
    assert_eq!(story.client.mapped(), None);
    assert_eq!(story.receive(SERVER, &answer), Some(StunEvent::Mapped(outside(6666))));
}

#[test]
fn an_error_and_an_unusable_response_end_the_transaction() {
    let refused = |writer: MessageWriter| {
        let mut story = Story::new();
        let id = Message::parse(&story.answer().finish()).unwrap().id();
        let mut bytes = writer.finish();
        bytes[8..20].copy_from_slice(&id.0);
        let event = story.receive(SERVER, &bytes);
        assert_eq!(story.client.next_deadline().unwrap().reason, "STUN keep-alive");
        event
    };
    let error = MessageWriter::new(Class::Error, METHOD_BINDING, TransactionId([0; 12]));
    assert_eq!(
        refused(error.clone().error_code(401, "Unauthenticated")),
        Some(StunEvent::Failed(StunFailure::Refused(401)))
    );
    assert_eq!(refused(error), Some(StunEvent::Failed(StunFailure::Unusable)));
    let success = MessageWriter::new(Class::Success, METHOD_BINDING, TransactionId([0; 12]));
    assert_eq!(refused(success.clone()), Some(StunEvent::Failed(StunFailure::Unusable)));
    assert_eq!(
        refused(success.mapped_address(outside(9))),
        Some(StunEvent::Mapped(outside(9))),
        "an old server without the XOR"
    );
}

#[test]
fn a_response_with_an_unknown_required_attribute_fails() {
    let mut story = Story::new();
    let mut answer = story.answer().xor_mapped_address(outside(1)).finish();
    answer.extend_from_slice(&[0x0f, 0xff, 0, 0]);
    answer[3] += 4;
    assert_eq!(story.receive(SERVER, &answer), Some(StunEvent::Failed(StunFailure::Unusable)));
}

#[test]
fn transaction_ids_differ() {
    let first = Story::new().sent[0].1.clone();
    let mut other = StunClient::new(SERVER.parse().unwrap(), &Seed::from_number(4));
    let mut sent = Vec::new();
    other.start(Instant::default(), &mut |bytes| sent.push(bytes.to_vec()));
    assert_ne!(sent[0], first);
    assert!(Message::parse(&first).is_ok());
}

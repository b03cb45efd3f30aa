//! The client with scripted relays on a virtual clock.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use ringway_ng::{Client, Datagram, Done};
use ringway_sansio::{
    Instant, RelayCall, RelayId, RelayKind, RelayMedia, RelayRequest, RelayResult, RelaySide, Seed,
};
use std::net::SocketAddr;
use std::time::Duration;

const FIRST: &str = "192.0.2.7:22222";
const SECOND: &str = "192.0.2.8:22222";

/// Client, and the datagrams that it sent, pings excluded.
struct Table {
    client: Client<u32>,
    now: Instant,
    /// Relays that answer pings.
    alive: Vec<&'static str>,
}

impl Table {
    fn new(relays: &[&'static str]) -> Self {
        let now = Instant::from_secs(1000);
        let addresses: Vec<SocketAddr> = relays.iter().map(|text| text.parse().unwrap()).collect();
        let client = Client::new(&addresses, Duration::from_secs(2), &Seed::from_number(1), now);
        let mut table = Self { client, now, alive: relays.to_vec() };
        table.pass(0);
        table
    }

    /// Asks for call `call`; returns what is sent.
    fn ask(&mut self, of: u32, kind: RelayKind, call: u64, relay: Option<RelayId>) -> Vec<Datagram> {
        let request = RelayRequest {
            kind,
            call: RelayCall(call),
            relay,
            offerer: RelaySide::Caller,
            sdp: b"v=0"[..].into(),
            to: RelayMedia::Same,
        };
        self.client.request(self.now, of, request);
        self.sent()
    }

    fn sent(&mut self) -> Vec<Datagram> {
        let mut sent = Vec::new();
        while let Some(send) = self.client.poll_send() {
            let is_ping = send.bytes.ends_with(b"7:command4:pinge");
            if is_ping && self.alive.iter().any(|alive| send.to == alive.parse().unwrap()) {
                self.answer(&send, "6:result4:pong");
            } else if !is_ping {
                sent.push(send);
            }
        }
        sent
    }

    /// Advances the clock by `ms`.
    fn pass(&mut self, ms: u64) -> Vec<Datagram> {
        let end = self.now + Duration::from_millis(ms);
        let mut sent = Vec::new();
        while let Some(due) = self.client.next_due().filter(|due| *due <= end) {
            self.now = due;
            self.client.on_timeout(due);
            sent.extend(self.sent());
        }
        self.now = end;
        sent
    }

    fn answer(&mut self, send: &Datagram, pairs: &str) {
        let bytes = [&send.bytes[..17], b"d", pairs.as_bytes(), b"e"].concat();
        self.client.on_datagram(self.now, send.to, &bytes);
    }

    fn done(&mut self) -> Option<(u32, Option<RelayResult>)> {
        self.client.poll_done().map(|Done { of, result }| (of, result))
    }
}

const OK: &str = "3:sdp6:v=0\r\no6:result2:ok";

#[test]
fn an_offer_is_answered() {
    let mut table = Table::new(&[FIRST]);
    let sent = table.ask(7, RelayKind::Offer, 1, None);
    assert_eq!(sent.len(), 1);
    table.answer(&sent[0], OK);
    let (of, result) = table.done().unwrap();
    assert_eq!((of, &*result.unwrap().sdp), (7, &b"v=0\r\no"[..]));
    table.answer(&sent[0], OK);
    assert_eq!(table.done(), None, "a second answer");
    assert_eq!(table.client.counters().relay_rejected, 1);
    assert!(table.pass(3000).is_empty(), "it is sent no more");
}

#[test]
fn a_request_is_sent_twice_and_ends_in_time() {
    let mut table = Table::new(&[FIRST]);
    let first = table.ask(7, RelayKind::Offer, 1, None);
    let sent = table.pass(600);
    assert_eq!(first, sent, "the same bytes, so that the relay sees a retransmission");
    assert!(table.pass(390).is_empty());
    assert_eq!(table.done(), None);
    table.pass(20);
    assert_eq!(table.done(), Some((7, None)));
    assert_eq!((table.client.counters().relay_timeouts, table.client.pending_len()), (1, 0));
    table.answer(&sent[0], OK);
    assert_eq!(table.done(), None, "a late answer");
}

#[test]
fn datagrams_from_elsewhere_are_ignored() {
    let mut table = Table::new(&[FIRST]);
    let sent = table.ask(7, RelayKind::Offer, 1, None);
    let forged = Datagram { to: SECOND.parse().unwrap(), ..sent[0].clone() };
    table.answer(&forged, OK);
    assert_eq!(table.done(), None);
    table.answer(&sent[0], OK);
    assert!(table.done().is_some());
}

#[test]
fn all_requests_of_a_call_go_to_its_relay() {
    let mut table = Table::new(&[FIRST, SECOND]);
    let mut of_relay = [0; 2];
    for call in 0..200 {
        let sent = table.ask(1, RelayKind::Offer, call, None);
        table.answer(&sent[0], OK);
        let relay = table.done().unwrap().1.unwrap().relay;
        of_relay[usize::from(sent[0].to == SECOND.parse().unwrap())] += 1;
        for kind in [RelayKind::Answer, RelayKind::Offer] {
            let next = table.ask(2, kind, call, Some(relay));
            assert_eq!(next[0].to, sent[0].to);
            table.answer(&next[0], OK);
            assert!(table.done().is_some());
        }
        let delete = table.ask(3, RelayKind::Delete, call, Some(relay));
        assert_eq!(delete[0].to, sent[0].to);
        table.answer(&delete[0], "6:result2:ok");
        assert_eq!(table.done(), None);
    }
    assert!(of_relay.iter().all(|count| (70..130).contains(count)), "{of_relay:?}");
}

/// Call whose first relay is `address`.
fn call_of(table: &mut Table, address: &str) -> (u64, RelayId) {
    for call in 0.. {
        let sent = table.ask(1, RelayKind::Offer, call, None);
        table.answer(&sent[0], OK);
        let relay = table.done().unwrap().1.unwrap().relay;
        if sent[0].to == address.parse().unwrap() {
            return (call, relay);
        }
    }
    unreachable!()
}

#[test]
fn a_silent_relay_is_replaced() {
    let mut table = Table::new(&[FIRST, SECOND]);
    let (call, relay) = call_of(&mut table, FIRST);
    table.alive = vec![SECOND];
    table.pass(100);
    let sent = table.ask(7, RelayKind::Offer, call, Some(relay));
    assert_eq!(sent[0].to, FIRST.parse().unwrap());
    let sent = table.pass(1000);
    let last = sent.last().unwrap().clone();
    assert_eq!(last.to, SECOND.parse().unwrap());
    table.answer(&last, OK);
    let moved = table.done().unwrap().1.unwrap().relay;
    assert_ne!(moved, relay);
    assert_eq!(table.client.counters().relay_failovers, 1);
    // The next call does not wait for it.
    let sent = table.ask(8, RelayKind::Offer, call, Some(relay));
    assert_eq!(sent[0].to, SECOND.parse().unwrap());
    // It answers pings again.
    table.alive = vec![FIRST, SECOND];
    table.pass(6000);
    assert_eq!(table.client.up_len(), 2);
    let sent = table.ask(9, RelayKind::Offer, call, Some(relay));
    assert_eq!(sent[0].to, FIRST.parse().unwrap());
}

#[test]
fn pings_find_a_relay_that_ended() {
    let mut table = Table::new(&[FIRST]);
    table.pass(20_000);
    assert_eq!(table.client.up_len(), 1);
    table.alive.clear();
    table.pass(7000);
    assert_eq!((table.client.up_len(), table.client.counters().relay_failures), (0, 1));
    assert!(table.ask(7, RelayKind::Offer, 1, None).is_empty());
    assert_eq!(table.done(), Some((7, None)), "it is answered at once");
}

#[test]
fn a_relay_that_refuses_is_replaced() {
    let mut table = Table::new(&[FIRST, SECOND]);
    let (call, relay) = call_of(&mut table, FIRST);
    let sent = table.ask(7, RelayKind::Offer, call, None);
    table.answer(&sent[0], "6:result10:load limit");
    let sent = table.sent();
    assert_eq!(sent[0].to, SECOND.parse().unwrap());
    table.answer(&sent[0], "12:error-reason4:full6:result5:error");
    assert_eq!(table.done(), Some((7, None)));
    // An answer is for the relay with the offer only.
    let sent = table.ask(8, RelayKind::Answer, call, Some(relay));
    table.answer(&sent[0], "6:result5:error");
    assert_eq!(table.done(), Some((8, None)));
    assert_eq!(table.client.counters().relay_refusals, 3);
}

#[test]
fn the_number_of_pending_requests_is_bounded() {
    let mut table = Table::new(&[FIRST]);
    for of in 0..4096 {
        table.ask(of, RelayKind::Offer, u64::from(of), None);
    }
    assert_eq!(table.done(), None);
    table.ask(9999, RelayKind::Offer, 9999, None);
    assert_eq!(table.done(), Some((9999, None)));
    assert_eq!(table.client.counters().relay_overflow, 1);
    table.pass(2000);
    assert_eq!(table.client.pending_len(), 0);
}

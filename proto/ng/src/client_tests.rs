//! The client with scripted relays on a virtual clock.

use crate::{
    AnswerUse, Client, Datagram, Done, RelayChange, RelayState, STRANGER_STREAMS_MAX, STRANGERS_STREAMS_MAX,
    USER_STREAMS_MAX,
};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{
    Instant, RelayCall, RelayHolder, RelayId, RelayKind, RelayMedia, RelayRequest, RelayResult, RelaySide,
    Seed,
};
use std::net::SocketAddr;
use std::time::Duration;

const FIRST: &str = "192.0.2.7:22222";
const SECOND: &str = "192.0.2.8:22222";
/// Time after which a deletion is sent.
const DELETION_MS: u64 = 30;

/// Client, and what its relays get.
struct Table {
    client: Client<u32>,
    now: Instant,
    /// Relays that answer pings.
    alive: Vec<&'static str>,
    holder: RelayHolder,
    sdp: String,
    /// Calls deleted at relays, without retransmissions.
    deleted: Vec<(u64, SocketAddr)>,
}

impl Table {
    fn new(relays: &[&'static str]) -> Self {
        let now = Instant::from_secs(1000);
        let addresses: Vec<SocketAddr> = relays.iter().map(|text| text.parse().unwrap()).collect();
        let client = Client::new(&addresses, Duration::from_secs(2), &Seed::from_number(1), now);
        let mut table = Self {
            client,
            now,
            alive: relays.to_vec(),
            holder: RelayHolder::Trusted,
            sdp: "v=0\r\nm=audio 9 RTP/AVP 0\r\n".into(),
            deleted: Vec::new(),
        };
        table.pass(0);
        table
    }

    /// Asks for call `call`; returns what is sent without pings and deletions, which are answered.
    fn ask(&mut self, of: u32, kind: RelayKind, call: u64, relay: Option<RelayId>) -> Vec<Datagram> {
        let request = self.request(kind, call, relay);
        self.client.request(self.now, of, request);
        self.sent()
    }

    fn request(&self, kind: RelayKind, call: u64, relay: Option<RelayId>) -> RelayRequest {
        RelayRequest {
            kind,
            call: RelayCall(call),
            relay,
            offerer: RelaySide::Caller,
            sdp: self.sdp.as_bytes().into(),
            to: RelayMedia::Same,
            holder: self.holder,
            source: None,
            interfaces: None,
        }
    }

    fn sent(&mut self) -> Vec<Datagram> {
        let mut sent = Vec::new();
        while let Some(send) = self.client.poll_send() {
            let is_ping = send.bytes.ends_with(b"7:command4:pinge");
            if is_ping && self.alive.iter().any(|alive| send.to == alive.parse().unwrap()) {
                self.answer(&send, "6:result4:pong");
            } else if let Some(call) = deleted_call(&send) {
                let is_new = !self.deleted.contains(&(call, send.to));
                self.deleted.extend(is_new.then_some((call, send.to)));
                if self.alive.iter().any(|alive| send.to == alive.parse().unwrap()) {
                    self.answer(&send, "6:result2:ok");
                }
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

fn deleted_call(send: &Datagram) -> Option<u64> {
    let text = std::str::from_utf8(&send.bytes).unwrap();
    let (_, rest) = text.split_once("7:command6:delete7:call-id16:")?;
    u64::from_str_radix(&rest[..16], 16).ok()
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
        table.ask(3, RelayKind::Delete, call, Some(relay));
        table.pass(DELETION_MS);
        assert_eq!(table.deleted.pop(), Some((call, sent[0].to)));
        assert_eq!(table.done(), None);
    }
    assert_eq!((table.client.calls_len(), table.client.pending_len()), (0, 0));
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
    table.pass(DELETION_MS);
    assert_eq!(table.deleted, [(call, FIRST.parse().unwrap())], "it may be slow");
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
    let changes = |table: &mut Table| -> Vec<RelayChange> {
        std::iter::from_fn(|| table.client.poll_change()).collect()
    };
    let change = |state| RelayChange { address: FIRST.parse().unwrap(), state };
    assert_eq!(changes(&mut table), [change(RelayState::Down)], "one for each change");
    table.alive = vec![FIRST];
    table.pass(7000);
    assert_eq!(changes(&mut table), [change(RelayState::Up)]);
    table.alive.clear();
    table.pass(7000);
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
fn a_call_is_deleted_after_its_pending_offer() {
    for answered in [true, false] {
        let mut table = Table::new(&[FIRST, SECOND]);
        let sent = table.ask(7, RelayKind::Offer, 1, None);
        assert!(table.ask(8, RelayKind::Delete, 1, None).is_empty());
        assert!(table.deleted.is_empty(), "a relay may execute the offer after it");
        match answered {
            true => table.answer(&sent[0], OK),
            false => drop(table.pass(2000)),
        }
        table.pass(DELETION_MS);
        let tried = if answered { 1 } else { 2 };
        assert_eq!((table.deleted.len(), table.client.calls_len()), (tried, 0));
        assert!(table.deleted.contains(&(1, sent[0].to)));
    }
}

#[test]
fn deletions_are_sent_together() {
    let mut table = Table::new(&[FIRST]);
    let (_, relay) = call_of(&mut table, FIRST);
    let sends = |table: &mut Table, calls: std::ops::Range<u64>| {
        for call in calls {
            let request = table.request(RelayKind::Delete, call, Some(relay));
            table.client.request(table.now, 0, request);
        }
        let sent: Vec<_> = std::iter::from_fn(|| table.client.poll_send()).collect();
        let is_deletion = |send: &Datagram| send.answer == AnswerUse::EndsRetransmission;
        assert!(sent.iter().all(|send| is_deletion(send) == deleted_call(send).is_some()));
        sent
    };
    assert_eq!(sends(&mut table, 0..31).len(), 0);
    let sent = sends(&mut table, 31..33);
    assert_eq!(sent.len(), 32, "so many do not wait");
    sent.iter().for_each(|send| table.answer(send, "6:result2:ok"));
    // A call that is offered again is not deleted.
    let again = table.ask(7, RelayKind::Offer, 32, Some(relay));
    assert_eq!((again.len(), again[0].answer), (1, AnswerUse::Awaited));
    table.answer(&again[0], OK);
    table.pass(1000);
    assert!(table.deleted.is_empty(), "{:?}", table.deleted);
    // An answer that comes as late as before the timeout is in time.
    assert!(sends(&mut table, 33..34).is_empty());
    let due = table.client.next_due().unwrap();
    table.now = due.max(table.now + Duration::from_millis(DELETION_MS));
    table.client.on_timeout(table.now);
    let sent = sends(&mut table, 0..0);
    assert_eq!(sent.len(), 1);
    table.now = table.now + Duration::from_millis(600);
    table.answer(&sent[0], "6:result2:ok");
    table.client.on_timeout(table.now);
    assert!(sends(&mut table, 0..0).iter().all(|send| send.bytes.ends_with(b"pinge")));
    assert_eq!(table.client.counters().relay_timeouts, 0);
}

#[test]
fn an_offer_that_failed_leaves_no_call() {
    let mut table = Table::new(&[FIRST]);
    table.ask(7, RelayKind::Offer, 1, None);
    table.pass(1100);
    assert_eq!(table.done(), Some((7, None)));
    assert_eq!(table.deleted, [(1, FIRST.parse().unwrap())]);
    assert_eq!(table.client.calls_len(), 0);
    // A change that failed leaves the call as it was.
    table.pass(5000);
    let sent = table.ask(8, RelayKind::Offer, 2, None);
    table.answer(&sent[0], OK);
    let relay = table.done().unwrap().1.unwrap().relay;
    table.ask(9, RelayKind::Offer, 2, Some(relay));
    table.pass(1100);
    assert_eq!(table.done(), Some((9, None)));
    assert_eq!((table.deleted.len(), table.client.calls_len()), (1, 1));
}

fn stranger(number: u16) -> RelayHolder {
    RelayHolder::Stranger([0x2001, 0xdb8, 0, number, 0, 0, 0, number].into())
}

/// Offers calls from `first` on until one is refused; returns how many were admitted.
fn admitted(table: &mut Table, holder: RelayHolder, first: u64) -> usize {
    table.holder = holder;
    let mut calls = first..first + 10_000;
    calls
        .by_ref()
        .take_while(|call| {
            let sent = table.ask(1, RelayKind::Offer, *call, None);
            sent.first().inspect(|sent| table.answer(sent, OK));
            table.done().unwrap().1.is_some()
        })
        .count()
}

#[test]
fn a_stranger_holds_few_calls_and_all_strangers_leave_some() {
    let mut table = Table::new(&[FIRST]);
    assert_eq!(admitted(&mut table, stranger(1), 0), STRANGER_STREAMS_MAX);
    let others: usize =
        (2..100).map(|number| admitted(&mut table, stranger(number), u64::from(number) * 100)).sum();
    assert_eq!(others, STRANGERS_STREAMS_MAX - STRANGER_STREAMS_MAX);
    assert_eq!(admitted(&mut table, RelayHolder::User(1), 100_000), USER_STREAMS_MAX);
    assert_eq!(admitted(&mut table, RelayHolder::User(2), 200_000), USER_STREAMS_MAX);
    assert_eq!(admitted(&mut table, RelayHolder::Trusted, 300_000), 10_000);
    assert!(table.client.counters().relay_limited >= 3);
    // A call that ends makes room for one, and the end of all for all.
    table.ask(2, RelayKind::Delete, 0, None);
    assert_eq!(admitted(&mut table, stranger(1), 400_000), 1);
    table.pass(241_000);
    assert_eq!(table.client.calls_len(), 0);
    assert_eq!(admitted(&mut table, stranger(1), 500_000), STRANGER_STREAMS_MAX);
}

#[test]
fn the_streams_of_a_call_count() {
    let mut table = Table::new(&[FIRST]);
    table.sdp = "v=0\r\n".to_owned() + &"m=audio 9 RTP/AVP 0\r\n".repeat(8);
    assert_eq!(admitted(&mut table, stranger(1), 0), STRANGER_STREAMS_MAX / 8);
    table.sdp += "m=audio 9 RTP/AVP 0\n";
    assert_eq!(admitted(&mut table, RelayHolder::Trusted, 100), 0, "too many");
    // A change that adds streams is refused at a higher limit.
    table.sdp = "v=0\r\nm=audio 9 RTP/AVP 0\r\n".to_owned();
    assert_eq!(admitted(&mut table, stranger(2), 200), STRANGER_STREAMS_MAX);
    table.sdp = "v=0\r\n".to_owned() + &"m=audio 9 RTP/AVP 0\r\n".repeat(8);
    let changed = (200..232).filter(|call| {
        let sent = table.ask(1, RelayKind::Offer, *call, Some(RelayId(1)));
        sent.first().inspect(|sent| table.answer(sent, OK));
        table.done().unwrap().1.is_some()
    });
    assert_eq!(changed.count(), (4 * STRANGER_STREAMS_MAX - STRANGER_STREAMS_MAX) / 7);
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

#[test]
fn the_memory_of_requests_that_wait_is_the_published_one_at_most() {
    let mut table = Table::new(&[FIRST]);
    table.sdp = "x".repeat(2000);
    let taken = allocation_counter::measure(|| {
        for call in 0..10_000 {
            let request = table.request(RelayKind::Offer, call, None);
            table.client.request(table.now, 1, request);
            table.client.poll_send();
            table.client.poll_done();
        }
    });
    let (taken, size) = (taken.bytes_current as u64, Client::<u32>::size().bytes);
    assert!((size / 5..=size).contains(&taken), "{taken} of {size}");
}

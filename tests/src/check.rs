//! Checks of the server's packets that apply to every story.

use ringway_sansio::Transport;
use ringway_server::{CallEnd, CallRecord, Config, Network};
use ringway_sim::{Fate, Trace, TracedPacket};
use ringway_sip::{HeaderName, Limits, Message, Method, Start};
use ringway_test_support::host::TestHost;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Panics if the server sent a packet that it must not send.
///
/// Every message is well-formed. No packet goes to an address that is not in `named`. The client of a stateful server
/// gets one final response: no other status and no other To tag follows, except further 2xx to an INVITE. A forwarded
/// request has Max-Forwards reduced by one, and a branch that no other request from the server has. (A stateless server
/// looks the callee up for each message: a retransmission or a CANCEL goes elsewhere if the bindings have changed.) A trunk that must not see
/// the inside gets one Via.
pub fn wire(trace: &Trace, server: SocketAddr, named: &BTreeSet<SocketAddr>, config: &Config) {
    let is_stateful = config.stateful;
    assert_eq!(trace.forgotten(), 0, "the story is too long to be checked");
    let mut answered = BTreeMap::new();
    let mut branches = BTreeMap::new();
    for seen in trace.packets().filter(|seen| is_from(seen, server)) {
        if seen.bytes == b"\r\n" {
            continue;
        }
        let text = String::from_utf8_lossy(&seen.bytes);
        let message = Message::parse(&seen.bytes, &Limits::default()).unwrap_or_else(|rejected| {
            panic!("the server sent an invalid message ({:?}):\n{text}", rejected.reason)
        });
        if seen.transport == Transport::Udp {
            assert!(named.contains(&seen.to), "nobody named {}:\n{text}", seen.to);
        }
        match *message.start() {
            Start::Response { status, .. } if status >= 200 && is_stateful => {
                one_final_answer(&mut answered, seen, &message, status);
            }
            Start::Response { .. } => {}
            Start::Request { .. } => {
                one_request_for_a_branch(&mut branches, seen, &message, config);
            }
        }
    }
}

/// Number of requests with this method that the server sent, without retransmissions.
pub fn forwarded(trace: &Trace, server: SocketAddr, method: &str) -> usize {
    let start = format!("{method} ");
    let sent = trace.packets().filter(|seen| is_from(seen, server) && seen.first_line().starts_with(&start));
    sent.map(|seen| seen.bytes.clone()).collect::<BTreeSet<_>>().len()
}

/// First lines of the packets that arrived at `to`, in the order of sending.
pub fn arrived(trace: &Trace, to: SocketAddr) -> Vec<String> {
    let arrived = trace.packets().filter(|seen| seen.to == to && matches!(seen.fate, Fate::Arrives(_)));
    arrived.map(TracedPacket::first_line).collect()
}

/// Status and To tag of the final response, for each transaction.
type Answered = BTreeMap<(SocketAddr, Vec<u8>, Vec<u8>), (u16, Vec<u8>)>;

fn one_final_answer(answered: &mut Answered, seen: &TracedPacket, message: &Message<'_>, status: u16) {
    let branch = message.via().branch.unwrap_or_default().to_vec();
    let method = message.cseq().method.as_bytes().to_vec();
    let tag = message.to().tag().unwrap_or_default().to_vec();
    let answer = (status, tag);
    let first = answered.entry((seen.to, branch, method)).or_insert_with(|| answer.clone());
    let both_accept = status / 100 == 2 && first.0 / 100 == 2 && message.cseq().method == Method::Invite;
    // The registrar keeps no transactions (RFC 3261 §8.2.7): a retransmission that others have overtaken is out of order, its nonce is too
    // old, or there is room for its contact now.
    let is_late = matches!(status, 401 | 500) || (first.0, status) == (403, 200);
    let is_late = is_late && message.cseq().method == Method::Register;
    // Neither is there one of a call to somebody who is absent: the INVITE that is sent again may find a phone.
    let is_back = matches!(first.0, 404 | 480);
    let text = String::from_utf8_lossy(&seen.bytes);
    assert!(
        *first == answer || both_accept || is_late || is_back,
        "{} was answered {first:?} before:\n{text}",
        seen.to
    );
}

/// URI, Call-ID and CSeq number of a branch's request, which it shares with its ACK and CANCEL.
type Branches = BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>, u32)>;

fn one_request_for_a_branch(
    branches: &mut Branches,
    seen: &TracedPacket,
    message: &Message<'_>,
    config: &Config,
) {
    let text = String::from_utf8_lossy(&seen.bytes);
    let Start::Request { uri, .. } = *message.start() else { return };
    let hops = message.max_forwards();
    // An OPTIONS to a neighbour is the server's own too.
    let is_probe = message.method() == Method::Options && hops == Some(0);
    // So are the NOTIFY of a subscription and a kept MESSAGE, which have one Via.
    let is_begun_here = matches!(message.method(), Method::Notify | Method::Message) && message.has_one_via();
    let is_own = is_probe || is_begun_here || matches!(message.method(), Method::Ack | Method::Cancel);
    assert!(hops.is_some_and(|hops| hops < 70 || is_own), "hops {hops:?} in\n{text}");
    let branch = message.via().branch.unwrap_or_default().to_vec();
    let uri = if config.stateful { uri.as_bytes().to_vec() } else { Vec::new() };
    let what = (uri, message.call_id().to_vec(), message.cseq().number);
    let first = branches.entry(branch).or_insert_with(|| what.clone());
    assert_eq!(*first, what, "two requests with one branch:\n{text}");
    // A trunk with `hide_topology` sees ours alone.
    let is_at = |network: &Network| network.contains(seen.to.ip());
    let mut trunks = config.trunking.trunks.iter();
    let hides = trunks.any(|trunk| trunk.hides_topology && trunk.networks.iter().any(is_at));
    let vias = message.values(HeaderName::Via).count();
    match hides {
        true => assert_eq!(vias, 1, "a Via of the inside in\n{text}"),
        false => assert!(vias >= 2 || is_own, "our Via or the next one is missing in\n{text}"),
    }
}

/// True for a packet of the server.
pub(crate) fn is_from(seen: &TracedPacket, server: SocketAddr) -> bool {
    seen.sender == "server" || seen.from == server
}

/// Panics if a call without an answer is still open, or if a call has two records: one that its callee challenged may have another,
/// and so may a fork to this server itself that arrives after the answer of another one.
pub fn calls(services: &TestHost, server: SocketAddr) {
    let calls = services.calls.lock().expect("no test panicked");
    let mut slot = Some(0);
    while let Some(first) = slot {
        slot = calls.calls(first, 64, |call| {
            let call_id = String::from_utf8_lossy(call.texts.call_id());
            assert!(call.answered.is_some(), "the record of {call_id} has no end");
        });
    }
    let counters = calls.counters();
    let ended = services.ended_calls.lock().expect("no test panicked");
    assert_eq!(counters.records_begun, counters.records_ended + calls.len() as u64);
    assert_eq!(counters.records_ended, ended.len() as u64);
    let mut seen = BTreeMap::new();
    let of_calls = |record: &&CallRecord| !matches!(record.status, 401 | 407) && record.source != server;
    for record in ended.iter().filter(of_calls) {
        let name = (record.texts.call_id().to_vec(), record.texts.from().to_vec());
        let first = *seen.entry(name).or_insert(record);
        let is_one = record.end == CallEnd::Stopped || std::ptr::eq(first, record);
        assert!(is_one, "two records of a call: {first:?} and {record:?}");
    }
}

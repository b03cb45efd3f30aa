//! Registrations that several nodes share: updates, records, targets at other nodes.

use crate::harness::{
    ALICE, BOB, CAROL, Request, Sent, World, forwarded, invite, only, query, register, requests, statuses,
};
use crate::messages;
use ringway_location::{NodeName, Record, RecordEntry, Registrations, Update, UpdateId};
use ringway_sansio::{ConnectionId, Event, Flow, Instant, ListenerId, Transport};
use ringway_server::{Cluster, Config, Hold, NodeState};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Phone behind NAT.
const NAT: &str = "198.51.100.7:31337";
const PRIVATE: &str = "<sip:bob@10.0.0.5:5060>";
const BOBS: &[u8] = b"bob@example.org";
const ROUTE: &str = "\r\nRoute: <sip:";
/// The store's clock is an hour ahead of those of the nodes.
const STORE_AHEAD: Duration = Duration::from_secs(3600);

/// Nodes n1, n2, … at 192.0.2.1, 192.0.2.2, … and the store that they share.
struct Nodes {
    worlds: Vec<World>,
    store: BTreeMap<Vec<u8>, Registrations>,
    calls: u32,
}

fn name(number: usize) -> NodeName {
    NodeName::read(format!("n{number}").as_bytes()).unwrap()
}

fn config_of(config: &mut Config, number: usize, incarnation: u64) {
    for listener in &mut config.listeners[..2] {
        listener.bound = format!("192.0.2.{number}:5060").parse().unwrap();
        listener.advertised = listener.bound;
    }
    config.secret = [number as u8; 32];
    config.cluster = Some(Cluster {
        node: name(number),
        incarnation,
        transport: Transport::Udp,
        link: format!("192.0.2.{number}:5060").parse().unwrap(),
        hold: Hold::All,
    });
}

impl Nodes {
    fn new(count: usize) -> Self {
        Self::with(count, |_| {})
    }

    fn with(count: usize, change: fn(&mut Config)) -> Self {
        let worlds = (1..=count).map(|number| {
            World::with(|config| {
                config_of(config, number, 1);
                change(config);
            })
        });
        Self { worlds: worlds.collect(), store: BTreeMap::new(), calls: 0 }
    }

    fn store_ms(now: Instant) -> u64 {
        (now + STORE_AHEAD).as_nanos() / 1_000_000
    }

    /// Writes what node `from` shared; returns the records.
    fn write(&mut self, from: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let world = &mut self.worlds[from - 1];
        let shared = std::mem::take(&mut *world.memory.shared.lock().unwrap());
        let now_ms = Self::store_ms(world.now);
        let records = shared.into_iter().map(|(aor, update)| {
            let update = Update::read(&update).unwrap();
            let registrations = self.store.entry(aor.clone()).or_default();
            registrations.apply(&update, now_ms);
            let mut record = Vec::new();
            registrations.write_record(
                &UpdateId { node: update.node, incarnation: update.incarnation, number: update.number },
                now_ms,
                &mut record,
            );
            (aor, record)
        });
        records.collect()
    }

    fn read(&mut self, to: usize, records: &[(Vec<u8>, Vec<u8>)]) {
        assert_eq!(self.read_and_write(to, records), 0, "a record is not written again");
    }

    /// Returns the number of updates that the records led to.
    fn read_and_write(&mut self, to: usize, records: &[(Vec<u8>, Vec<u8>)]) -> usize {
        let world = &mut self.worlds[to - 1];
        let before = world.memory.shared.lock().unwrap().len();
        for (aor, record) in records {
            world.server.on_record(world.now, aor, record, Self::store_ms(world.now)).unwrap();
        }
        world.memory.shared.lock().unwrap().len() - before
    }

    /// Writes what all nodes shared, and has all read it.
    fn sync(&mut self) {
        for from in 1..=self.worlds.len() {
            let records = self.write(from);
            (1..=self.worlds.len()).for_each(|to| self.read(to, &records));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.worlds.iter_mut().for_each(|world| drop(world.pass(time)));
    }

    fn node(&mut self, number: usize) -> &mut World {
        &mut self.worlds[number - 1]
    }

    /// Contacts of bob at each node.
    fn contacts(&mut self) -> Vec<usize> {
        self.worlds.iter_mut().map(|world| world.bindings("bob").len()).collect()
    }

    #[track_caller]
    fn registers(&mut self, node: usize, from: &str, request: &Request) {
        let answer = only(self.node(node).udp(from, request));
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }

    #[track_caller]
    fn registers_tcp(&mut self, node: usize, connection: u64, from: &str, request: &Request) {
        let answer = only(self.node(node).tcp(connection, from, &request.clone().tcp()));
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }

    /// Calls bob at a node.
    fn call(&mut self, node: usize) -> Vec<Sent> {
        self.calls += 1;
        let invite = invite("sip:bob@example.org").call_id(&format!("call {}", self.calls));
        requests(self.node(node).udp(ALICE, &invite))
    }

    /// Passes a request that node `from` sent over its link to node `to`; returns what this sends.
    #[track_caller]
    fn over_link(&mut self, from: usize, to: usize, sent: &Sent) -> Vec<Sent> {
        assert_eq!(sent.to(), format!("192.0.2.{to}:5060"));
        let flow = Flow::udp(ListenerId(0), format!("192.0.2.{from}:5060").parse().unwrap());
        self.node(to).message(flow, &sent.bytes)
    }

    fn entries(&self, node: usize) -> usize {
        let registrations = self.store.get(BOBS).cloned().unwrap_or_default();
        let now_ms = Self::store_ms(self.worlds[0].now);
        registrations.entries(now_ms).filter(|entry: &RecordEntry<'_>| entry.node == name(node)).count()
    }
}

/// REGISTER of bob with these ids.
fn bobs(contact: &str, call_id: &str, cseq: u32) -> Request {
    register("bob", contact).call_id(call_id).cseq(cseq)
}

/// The same request as another transaction.
fn again(sent: &Sent) -> Sent {
    let bytes = String::from_utf8_lossy(&sent.bytes).replacen("branch=z9hG4bK", "branch=z9hG4bKx", 1);
    Sent { bytes: bytes.into_bytes(), ..sent.clone() }
}

fn flow_of(contact: &str, reg_id: u32) -> Request {
    let contact = format!("<{contact}>;+sip.instance=\"<urn:x>\";reg-id={reg_id}");
    register("bob", &contact).line("Supported: path, outbound").call_id(&format!("flow {reg_id}"))
}

#[test]
fn a_phone_that_can_be_dialled_is_called_from_every_node() {
    let mut nodes = Nodes::new(3);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    assert_eq!(nodes.contacts(), [1, 0, 0]);
    nodes.sync();
    assert_eq!(nodes.contacts(), [1, 1, 1]);
    for node in 1..=3 {
        let sent = only(nodes.call(node));
        assert_eq!((sent.to().as_str(), sent.uri().as_str()), (BOB, "sip:bob@192.0.2.20"));
        assert!(sent.headers("Route").is_empty());
    }
    let listed = nodes.worlds[1].server.location().iter().next().unwrap().to_owned();
    assert_eq!(listed.node, Some(name(1)));
    assert_eq!(nodes.worlds[0].server.location().iter().next().unwrap().node(), None);
    assert!(nodes.worlds[0].memory.stored().is_empty(), "the journal has no bindings");
}

#[test]
fn a_phone_behind_nat_is_called_over_its_node() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, NAT, &bobs(PRIVATE, "a", 1));
    nodes.sync();
    assert_eq!(only(nodes.call(1)).to(), NAT);
    let sent = only(nodes.call(2));
    let route = sent.header("Route");
    assert!(route.ends_with("@192.0.2.1:5060;lr>") && route.starts_with("<sip:"), "{route}");
    let last = forwarded(nodes.over_link(2, 1, &sent));
    assert_eq!((last.to().as_str(), last.uri().as_str()), (NAT, "sip:bob@10.0.0.5:5060"));
    assert!(last.headers("Route").is_empty());
    // Nobody else's key makes such a token.
    let mut forged = again(&sent);
    let at = String::from_utf8_lossy(&forged.bytes).find(ROUTE).unwrap() + ROUTE.len();
    forged.bytes[at] = if forged.bytes[at] == b'0' { b'1' } else { b'0' };
    assert_eq!(statuses(&nodes.over_link(2, 1, &forged)), [403]);
}

#[test]
fn a_phone_with_a_connection_is_called_over_its_node_until_it_closes() {
    let mut nodes = Nodes::new(2);
    nodes.registers_tcp(1, 7, NAT, &bobs("<sip:bob@10.0.0.5:5060;transport=tcp>", "a", 1));
    nodes.sync();
    let sent = only(nodes.call(2));
    let last = forwarded(nodes.over_link(2, 1, &sent));
    assert_eq!(last.flow.connection, Some(ConnectionId(7)));
    nodes.node(1).event(Event::Closed(ConnectionId(7)));
    // Until the others hear of it: 430, and no other node.
    let late = forwarded(nodes.over_link(2, 1, &again(&sent)));
    assert_eq!(statuses(&nodes.node(1).event(Event::Unreachable(late.token))), [430]);
    nodes.sync();
    assert_eq!(nodes.contacts(), [0, 0]);
    assert!(nodes.call(2).is_empty());
}

#[test]
fn a_phone_that_can_be_dialled_after_its_connection_is_dialled_by_every_node() {
    let mut nodes = Nodes::new(2);
    nodes.registers_tcp(1, 7, "192.0.2.20:40000", &bobs("<sip:bob@192.0.2.20;transport=tcp>", "a", 1));
    nodes.sync();
    assert_eq!(only(nodes.call(2)).to(), "192.0.2.1:5060");
    nodes.node(2).memory.nodes.lock().unwrap().insert(name(1), NodeState::Gone);
    assert_eq!(only(nodes.call(2)).to(), BOB);
    nodes.node(2).memory.nodes.lock().unwrap().clear();
    nodes.node(1).event(Event::Closed(ConnectionId(7)));
    nodes.sync();
    let sent = only(nodes.call(2));
    assert_eq!((sent.to().as_str(), sent.headers("Route").len()), (BOB, 0));
}

#[test]
fn what_only_a_lost_node_reaches_is_not_called() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, NAT, &bobs(PRIVATE, "a", 1));
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "b", 1));
    nodes.sync();
    assert_eq!(nodes.call(2).len(), 2);
    nodes.node(2).memory.nodes.lock().unwrap().insert(name(1), NodeState::Draining);
    assert_eq!(nodes.call(2).len(), 2);
    nodes.node(2).memory.nodes.lock().unwrap().insert(name(1), NodeState::Gone);
    assert_eq!(only(nodes.call(2)).to(), BOB);
    nodes.node(2).memory.nodes.lock().unwrap().clear();
    assert_eq!(nodes.call(2).len(), 2, "it is back");
}

#[test]
fn a_phone_that_moves_to_another_node_is_dropped_by_the_first() {
    let mut nodes = Nodes::new(2);
    nodes.registers_tcp(1, 7, NAT, &bobs(PRIVATE, "a", 1));
    nodes.sync();
    nodes.registers_tcp(2, 9, NAT, &bobs(PRIVATE, "a", 2));
    assert_eq!(nodes.contacts(), [1, 1]);
    nodes.sync();
    assert_eq!((nodes.contacts(), nodes.entries(1), nodes.entries(2)), (vec![1, 1], 0, 1));
    let sent = only(nodes.call(1));
    let last = forwarded(nodes.over_link(1, 2, &sent));
    assert_eq!(last.flow.connection, Some(ConnectionId(9)));
    let events = nodes.node(1).memory.events.lock().unwrap().clone();
    assert!(events.iter().any(|event| event.ends_with("OtherNode")), "{events:?}");
    // The end of the connection that it left changes nothing.
    nodes.node(1).event(Event::Closed(ConnectionId(7)));
    nodes.sync();
    assert_eq!(nodes.contacts(), [1, 1]);
}

#[test]
fn bindings_of_other_nodes_that_a_read_of_all_does_not_confirm_end() {
    let mut nodes = Nodes::new(3);
    let not_read = |_: &[u8], walk: u32| walk >= 1;
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.registers(2, NAT, &bobs(PRIVATE, "b", 1));
    nodes.registers(3, CAROL, &register("carol", "<sip:carol@192.0.2.30>"));
    nodes.sync();
    let all = |nodes: &Nodes| nodes.worlds[1].server.location().bindings_len();
    assert_eq!((nodes.contacts(), all(&nodes)), (vec![2, 2, 2], 3));
    // Node 2 misses that one left, and reads all that is left.
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>;expires=0", "a", 2));
    let _missed = nodes.write(1);
    nodes.node(2).server.begin_walk(1);
    nodes.registers(3, CAROL, &register("carol", "<sip:carol@192.0.2.30>").cseq(2));
    let records = nodes.write(3);
    nodes.read(2, &records);
    let sweep = |nodes: &mut Nodes| {
        let world = nodes.node(2);
        let (now, mut next) = (world.now, Some(0));
        while let Some(from) = next {
            next = world.server.sweep(now, from, 1, not_read);
        }
    };
    // A lost node writes nothing again after a loss of the store.
    nodes.node(2).memory.nodes.lock().unwrap().insert(name(1), NodeState::Gone);
    sweep(&mut nodes);
    assert_eq!(all(&nodes), 3);
    nodes.node(2).memory.nodes.lock().unwrap().clear();
    sweep(&mut nodes);
    assert_eq!((nodes.contacts()[1], all(&nodes)), (1, 2), "its own one and the one that was read stay");
    assert_eq!(only(nodes.call(2)).to(), NAT);
    let events = nodes.node(2).memory.events.lock().unwrap().clone();
    assert_eq!(events.iter().filter(|event| event.ends_with("OtherNode")).count(), 1, "{events:?}");
}

#[test]
fn a_node_that_holds_whom_it_serves_keeps_no_part_of_the_bindings() {
    // With a phone of its own the user is not looked up.
    for (hold, has_own, kept) in
        [(Hold::All, false, 1), (Hold::Served, false, 0), (Hold::All, true, 2), (Hold::Served, true, 2)]
    {
        let mut nodes = Nodes::new(3);
        nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
        nodes.registers(3, NAT, &bobs(PRIVATE, "b", 1));
        if has_own {
            nodes.registers(2, CAROL, &bobs("<sip:bob@192.0.2.40>", "c", 1));
        }
        nodes.sync();
        let world = nodes.node(2);
        let mut config = crate::harness::config();
        config_of(&mut config, 2, 1);
        config.cluster.as_mut().unwrap().hold = hold;
        world.server.reconfigure(config.into());
        world.server.begin_walk(1);
        // The store lost data, and nobody wrote bob's again.
        world.memory.nodes.lock().unwrap().insert(name(1), NodeState::Gone);
        let now = world.now;
        assert_eq!(world.server.sweep(now, 0, 64, |_, walk| walk >= 1), None);
        assert_eq!(nodes.contacts()[1], kept, "{hold:?}, a phone of its own: {has_own}");
    }
}

#[test]
fn a_node_whose_name_is_taken_registers_nobody() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.sync();
    let taken = |nodes: &mut Nodes, is| nodes.node(1).memory.is_name_taken.store(is, Ordering::Relaxed);
    taken(&mut nodes, true);
    let contacts =
        ["<sip:bob@192.0.2.20>", "<sip:bob@192.0.2.20>;expires=0", "*", "<sip:bob@192.0.2.21>;expires=0"];
    for contact in contacts {
        let answer = only(nodes.node(1).udp(BOB, &bobs(contact, "a", 2).line("Expires: 0")));
        assert_eq!((answer.status(), answer.header("Retry-After").as_str()), (503, "5"), "{contact}");
    }
    assert_eq!(nodes.node(1).server.counters().name_taken_registers, 4);
    assert!(nodes.write(1).is_empty(), "nothing is written");
    assert_eq!(only(nodes.call(1)).to(), BOB, "calls go on");
    taken(&mut nodes, false);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 3));
}

#[test]
fn an_update_that_was_taken_as_it_is_needs_no_record() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 2));
    nodes.write(1);
    // The phone moves; until the newest update is answered, its binding here stays.
    nodes.pass(Duration::from_secs(1));
    nodes.registers(2, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 3));
    let moved = nodes.write(2);
    let is_here = |nodes: &Nodes| nodes.worlds[0].server.location().iter().next().unwrap().node().is_none();
    nodes.node(1).server.on_taken(BOBS, 1);
    nodes.read(1, &moved);
    assert!(is_here(&nodes));
    nodes.node(1).server.on_taken(BOBS, 2);
    nodes.read(1, &moved);
    assert!(!is_here(&nodes));
}

#[test]
fn a_node_that_shares_all_again_passes_over_who_registered_after_the_begin() {
    let mut nodes = Nodes::new(1);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.registers(1, CAROL, &register("carol", "<sip:carol@192.0.2.30>").call_id("c").cseq(1));
    nodes.pass(Duration::from_secs(1));
    let begin = nodes.node(1).now;
    nodes.pass(Duration::from_secs(1));
    nodes.registers(1, CAROL, &register("carol", "<sip:carol@192.0.2.30>").call_id("c").cseq(2));
    nodes.write(1);
    let shared = |nodes: &mut Nodes, since| {
        let node = nodes.node(1);
        assert_eq!(node.server.share_from(node.now, since, 0, 100), None);
        let shared = std::mem::take(&mut *node.memory.shared.lock().unwrap());
        let mut users: Vec<_> = shared.into_iter().map(|(aor, _)| String::from_utf8(aor).unwrap()).collect();
        users.sort();
        users
    };
    assert_eq!(shared(&mut nodes, begin), ["bob@example.org"]);
    // The main thread had read the clock before it got the lock.
    nodes.node(1).now = begin + Duration::from_millis(500);
    assert_eq!(shared(&mut nodes, begin), ["bob@example.org"]);
    nodes.node(1).now = begin + Duration::from_secs(1);
    let end = begin + Duration::from_secs(1);
    assert_eq!(shared(&mut nodes, end), ["bob@example.org", "carol@example.org"]);
}

#[test]
fn an_answer_names_the_change_that_it_confirms() {
    let mut nodes = Nodes::new(1);
    let register = bobs("<sip:bob@192.0.2.20>", "a", 1);
    let first = only(nodes.node(1).udp(BOB, &register));
    let second = only(nodes.node(1).udp(BOB, &bobs("<sip:bob@192.0.2.20>", "a", 2)));
    assert_eq!((first.change, second.change), (1, 2));
    // The answer was lost: the phone may get no 200 if the store refused the change.
    let again = only(nodes.node(1).udp(BOB, &bobs("<sip:bob@192.0.2.20>", "a", 2)));
    assert_eq!((again.status(), again.change), (200, 2));
    let removal = only(nodes.node(1).udp(BOB, &bobs("<sip:bob@192.0.2.20>;expires=0", "a", 3)));
    assert_eq!((removal.after_store, removal.change), (true, 3));
    nodes.sync();
    assert_eq!(only(nodes.node(1).udp(BOB, &query("bob"))).change, 0);

    let refused = ringway_server::store_failed_reply(&first.bytes);
    let refused = Sent { bytes: refused, ..first.clone() };
    assert_eq!((refused.status(), refused.header("Retry-After").as_str()), (503, "5"));
    for name in ["Via", "From", "To", "Call-ID", "CSeq"] {
        assert_eq!(refused.headers(name), first.headers(name), "{name}");
    }
    assert!(
        refused.headers("Contact").is_empty() && refused.text().ends_with("\r\nContent-Length: 0\r\n\r\n")
    );
}

#[test]
fn an_older_register_at_another_node_is_refused() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 5));
    nodes.sync();
    let late = bobs("<sip:bob@192.0.2.20>", "a", 4);
    assert_eq!(statuses(&nodes.node(2).udp(BOB, &late)), [500]);
}

#[test]
fn a_binding_is_removed_at_any_node() {
    let removals = ["<sip:bob@192.0.2.20>;expires=0", "*"];
    for removal in removals {
        let mut nodes = Nodes::new(3);
        nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
        nodes.registers(2, NAT, &bobs(PRIVATE, "b", 1));
        nodes.sync();
        nodes.registers(3, BOB, &bobs(removal, "a", 2).line("Expires: 0"));
        nodes.sync();
        let left = if removal == "*" { 0 } else { 1 };
        assert_eq!((nodes.contacts(), nodes.entries(1)), (vec![left; 3], 0), "{removal}");
    }
}

#[test]
fn a_binding_is_removed_at_a_node_that_did_not_hear_of_it() {
    for removal in ["<sip:bob@192.0.2.20>;expires=0", "*"] {
        let mut nodes = Nodes::new(2);
        nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
        nodes.registers(2, BOB, &bobs(removal, "a", 2).line("Expires: 0"));
        nodes.sync();
        assert_eq!(nodes.contacts(), [0, 0], "{removal}");
    }
}

#[test]
fn an_older_record_does_not_end_what_was_just_registered() {
    let mut nodes = Nodes::new(2);
    nodes.registers(2, CAROL, &bobs("<sip:bob@192.0.2.30>", "b", 1));
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    let of_two = nodes.write(2);
    nodes.read(1, &of_two);
    assert_eq!(nodes.contacts(), [2, 1]);
    let first = nodes.write(1);
    nodes.registers(1, NAT, &bobs(PRIVATE, "c", 1));
    nodes.read(1, &first);
    assert_eq!(nodes.contacts(), [3, 1], "the second update did not come back");
    nodes.sync();
    nodes.read(2, &first);
    nodes.sync();
    let latest = nodes.write(1);
    nodes.read(2, &latest);
    assert_eq!(nodes.contacts()[0], 3);
}

#[test]
fn what_comes_back_from_the_store_is_taken_as_it_is() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.sync();
    // The store lost the binding, and the phone of another node registers.
    nodes.store.clear();
    nodes.registers(2, CAROL, &bobs("<sip:bob@192.0.2.30>", "b", 1));
    nodes.sync();
    assert_eq!(nodes.contacts(), [1, 1]);
    // The phone registers again.
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 2));
    nodes.sync();
    assert_eq!(nodes.contacts(), [2, 2]);
}

#[test]
fn a_user_has_so_many_contacts_at_all_nodes_together() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20:5070>", "b", 1));
    nodes.sync();
    nodes.registers(2, BOB, &bobs("<sip:bob@192.0.2.20:5080>", "c", 1));
    nodes.sync();
    for node in 1..=2 {
        let fourth = bobs("<sip:bob@192.0.2.20:5090>", "d", 1);
        assert_eq!(statuses(&nodes.node(node).udp(BOB, &fourth)), [403]);
    }
}

#[test]
fn bindings_end_at_their_time_at_every_node_and_nothing_is_written() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1).line("Expires: 120"));
    nodes.pass(Duration::from_secs(20));
    nodes.sync();
    let expires: Vec<Instant> =
        nodes.worlds.iter().map(|world| world.server.location().iter().next().unwrap().expires()).collect();
    // The model writes without delay, so 20 s more than the phone has.
    assert_eq!(expires[1].since(expires[0]), Duration::from_secs(20));
    nodes.pass(Duration::from_secs(121));
    assert_eq!(nodes.contacts(), [0, 0]);
    assert!(nodes.worlds.iter().all(|world| world.memory.shared.lock().unwrap().is_empty()));
    assert!(nodes.worlds.iter().all(|world| world.memory.stored().is_empty()));
}

#[test]
fn a_flow_at_another_node_is_the_fallback() {
    let mut nodes = Nodes::new(2);
    nodes.registers_tcp(1, 7, NAT, &flow_of("sip:bob@10.0.0.5", 1));
    nodes.pass(Duration::from_secs(5));
    nodes.registers_tcp(2, 9, NAT, &flow_of("sip:bob@10.0.0.5", 2));
    nodes.sync();
    let first = only(nodes.call(1));
    assert_eq!(first.to(), "192.0.2.2:5060", "the flow that was registered last");
    let answer = first.answer(430, &[]);
    let sent = requests(nodes.node(1).udp("192.0.2.2:5060", &answer));
    let second = only(sent.into_iter().filter(|sent| sent.method() == "INVITE").collect());
    assert_eq!(second.flow.connection, Some(ConnectionId(7)));
    assert!(second.headers("Route").is_empty());
}

#[test]
fn a_restarted_node_takes_back_what_needs_no_connection() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.registers(1, NAT, &bobs(PRIVATE, "b", 1));
    nodes.registers_tcp(1, 7, NAT, &bobs("<sip:bob@10.0.0.5:5060;transport=tcp>", "c", 1));
    nodes.sync();
    assert_eq!(nodes.contacts(), [3, 3]);
    nodes.worlds[0] = World::later(Duration::from_secs(2), |config| config_of(config, 1, 2));
    nodes.node(2).pass(Duration::from_secs(2));
    let mut record = Vec::new();
    nodes.store[BOBS].write_record(
        &UpdateId { node: name(1), incarnation: 2, number: 0 },
        Nodes::store_ms(nodes.worlds[0].now),
        &mut record,
    );
    let records = [(BOBS.to_vec(), record)];
    assert_eq!(nodes.read_and_write(1, &records), 1, "the binding of the lost connection is removed");
    assert_eq!(nodes.contacts(), [2, 3]);
    let called: Vec<String> = nodes.call(1).iter().map(Sent::to).collect();
    assert_eq!(called, [BOB, NAT]);
    // The token of the process before is good for an address, and not for a connection.
    let sent = nodes.call(2);
    let over_link: Vec<_> = sent.iter().filter(|sent| sent.to() == "192.0.2.1:5060").collect();
    let ends: Vec<_> = over_link.iter().map(|sent| nodes.over_link(2, 1, sent)).collect();
    let ends: Vec<_> = ends.iter().map(|sent| (requests(sent.clone()).len(), statuses(sent))).collect();
    assert_eq!(ends, [(1, vec![100]), (0, vec![430])]);
    // A REGISTER here ends what an earlier process wrote.
    nodes.registers(1, NAT, &bobs(&format!("{PRIVATE};expires=0"), "b", 2));
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 2));
    nodes.sync();
    let incarnations: Vec<u64> = {
        let now_ms = Nodes::store_ms(nodes.worlds[0].now);
        nodes.store[BOBS].entries(now_ms).map(|entry| entry.incarnation).collect()
    };
    assert_eq!(incarnations, [2]);
    assert_eq!(nodes.contacts(), [1, 1]);
}

#[test]
fn the_end_of_a_lost_connection_keeps_out_nothing_that_the_phone_did_since() {
    let mut nodes = Nodes::new(2);
    let contact = "<sip:bob@10.0.0.5:5060;transport=tcp>";
    nodes.registers_tcp(1, 7, NAT, &bobs(contact, "a", 1));
    nodes.sync();
    nodes.worlds[0] = World::later(Duration::from_secs(2), |config| config_of(config, 1, 2));
    let mut record = Vec::new();
    nodes.store[BOBS].write_record(
        &UpdateId { node: name(1), incarnation: 2, number: 0 },
        Nodes::store_ms(nodes.worlds[0].now),
        &mut record,
    );
    assert_eq!(nodes.read_and_write(1, &[(BOBS.to_vec(), record)]), 1);
    nodes.write(1);
    assert_eq!(nodes.entries(1), 0);
    // The phone registered at the other node before that, whose update comes later.
    nodes.pass(Duration::from_secs(1));
    nodes.registers_tcp(2, 9, NAT, &bobs(contact, "b", 1));
    nodes.write(2);
    assert_eq!(nodes.entries(2), 1);
}

#[test]
fn records_of_the_nodes_are_distinguished_from_hostile_ones() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, NAT, &bobs(PRIVATE, "a", 1));
    let (_, record) = nodes.write(1).pop().unwrap();
    let body_at = record.len() - Record::read(&record).unwrap().entries().next().unwrap().body.len();
    let world = nodes.node(2);
    let store_ms = Nodes::store_ms(world.now);
    for len in 0..record.len() {
        assert!(world.server.on_record(world.now, BOBS, &record[..len], store_ms).is_err());
    }
    for at in 0..record.len() {
        for bit in 0..8 {
            let mut changed = record.clone();
            changed[at] ^= 1 << bit;
            let _ = world.server.on_record(world.now, BOBS, &changed, store_ms);
            world.pass(Duration::from_millis(1));
        }
    }
    let before = world.server.counters().shared_entries_passed_over;
    let mut later = record.clone();
    later[body_at] = 99;
    world.server.on_record(world.now, BOBS, &later, store_ms).unwrap();
    assert_eq!(world.server.counters().shared_entries_passed_over, before + 1, "of a later version");
    assert_eq!(world.bindings("bob").len(), 0);
}

#[test]
fn what_no_register_could_have_made_is_passed_over() {
    let mut nodes = Nodes::new(2);
    nodes.worlds[1] = World::with(|config| {
        config_of(config, 2, 1);
        config.registrar.max_expires_s = 60;
    });
    nodes.registers(1, NAT, &bobs(PRIVATE, "a", 1));
    let (_, record) = nodes.write(1).pop().unwrap();
    let at = |part: &[u8]| record.windows(part.len()).position(|text| text == part).unwrap();
    let world = nodes.node(2);
    let store_ms = Nodes::store_ms(world.now);
    let (path, lr) = (at(b"<sip:"), at(b";lr>"));
    for (aor, at, byte) in [
        (BOBS, lr, b'\n'),
        (BOBS, lr, b'\r'),
        (BOBS, lr, 0),
        (BOBS, path, b' '),
        (BOBS, lr + 1, b'x'),
        (BOBS, at(b"sip:"), b'\n'),
        (BOBS, at(b"sip:"), b' '),
        (b"bob@example.com", 0, record[0]),
    ] {
        let mut changed = record.clone();
        changed[at] = byte;
        let before = world.server.counters().shared_entries_passed_over;
        world.server.on_record(world.now, aor, &changed, store_ms).unwrap();
        let passed_over = world.server.counters().shared_entries_passed_over - before;
        assert_eq!((passed_over, world.bindings("bob").len()), (1, 0), "{byte} at {at}");
        assert_eq!(world.server.location().bindings_len(), 0);
    }
    world.server.on_record(world.now, BOBS, &record, store_ms).unwrap();
    assert_eq!(world.bindings("bob").len(), 1);
    world.pass(Duration::from_secs(61));
    assert_eq!(world.bindings("bob").len(), 0, "it has the longest expiry of this node");
}

#[test]
fn without_a_cluster_bindings_are_stored_here() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    assert!(world.memory.shared.lock().unwrap().is_empty());
    assert_eq!(world.memory.stored().len(), 1);
}

#[test]
fn an_administrator_ends_the_registrations_of_all_nodes() {
    for is_removed in [false, true] {
        let mut nodes = Nodes::new(2);
        nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
        nodes.registers(2, NAT, &bobs(PRIVATE, "b", 1));
        nodes.sync();
        let world = nodes.node(2);
        match is_removed {
            true => world.server.remove_user(BOBS),
            false => assert_eq!(world.server.end_registrations(world.now, BOBS), 2),
        }
        nodes.sync();
        assert_eq!((nodes.contacts(), nodes.entries(1), nodes.entries(2)), (vec![0, 0], 0, 0));
    }
}

#[test]
fn a_message_is_kept_until_its_phone_registers_at_another_node() {
    let mut nodes = Nodes::with(2, messages::on);
    assert_eq!(messages::say(nodes.node(1), "bob", 1), 202);
    nodes.registers(2, BOB, &bobs("<sip:bob@192.0.2.20>", "a", 1));
    nodes.sync();
    let sent = only(requests(nodes.node(1).pass(Duration::from_millis(1))));
    assert_eq!((sent.method().as_str(), sent.to().as_str()), ("MESSAGE", BOB));
}

#[test]
fn a_query_lists_the_bindings_of_all_nodes() {
    let mut nodes = Nodes::new(2);
    nodes.registers(1, BOB, &bobs("<sip:bob@192.0.2.20>;q=0.5", "a", 1));
    nodes.registers(2, NAT, &bobs(PRIVATE, "b", 1));
    nodes.sync();
    for node in 1..=2 {
        let answer = only(nodes.node(node).udp(ALICE, &query("bob")));
        let contacts = answer.headers("Contact");
        assert_eq!(contacts.len(), 2);
        assert!(
            contacts.iter().any(|contact| contact == "<sip:bob@192.0.2.20>;q=0.500;expires=3600"),
            "{contacts:?}"
        );
        assert!(!answer.text().contains("192.0.2.2:5060;lr"), "the way is no concern of the phone");
    }
}

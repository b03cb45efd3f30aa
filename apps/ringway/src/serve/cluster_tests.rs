//! Two nodes in one process, with real sockets and a link between them.

use super::Running;
use super::settings::tests::config;
use ringway_linux::Listen;
use ringway_location::NodeName;
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_server::{ClusterSecret, LinkedNode};
use ringway_store::Store;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Everybody may register, also by a Path: a node writes it for phones of another one.
const TEXT: &str = "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\nworkers = 1\n[store]\nurl = \"memory:\"\n\
                    [auth]\nenabled = false\ntrusted = [\"127.0.0.1\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = \"off\"\n";

fn start(text: &str, name: &str) -> Running {
    let config = config(text, name, "127.0.0.1:0");
    let store = Store::open(&config.store.url).unwrap();
    Running::start(config, store, channel().0, None).unwrap()
}

fn address(node: &Running, transport: Transport) -> SocketAddr {
    let is_it = |listen: &&Listen| listen.transport == transport;
    node.listeners().iter().find(is_it).unwrap().address
}

fn node(name: &str, running: &Running) -> LinkedNode {
    LinkedNode { name: NodeName::read(name.as_bytes()).unwrap(), address: address(running, Transport::Tls) }
}

/// Waits until a node has this number of links that are up.
#[track_caller]
fn has_links(node: &Running, up: usize) {
    for _ in 0..2000 {
        let mut counts = (0, 0);
        node.host.each_neighbour(|_, _, _, is_up| {
            counts.0 += 1;
            counts.1 += usize::from(is_up);
        });
        if counts == (up, up) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it has no {up} links");
}

/// Nodes `a` and `b` with this configuration, and a link between them.
#[track_caller]
fn linked(text: &str) -> (Running, Running) {
    let (mut a, mut b) = (start(text, "a"), start(text, "b"));
    // Each list has the node itself too.
    let nodes = vec![node("a", &a), node("b", &b)];
    a.set_nodes(nodes.clone());
    b.set_nodes(nodes);
    has_links(&a, 1);
    has_links(&b, 1);
    (a, b)
}

struct Phone {
    socket: UdpSocket,
    server: SocketAddr,
}

impl Phone {
    fn new(server: &Running) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket, server: address(server, Transport::Udp) }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn send(&self, text: &str) {
        self.socket.send_to(text.as_bytes(), self.server).unwrap();
    }

    /// Sends a request with these header lines.
    fn request(&self, start: &str, (from, to): (&str, &str), cseq: u32, lines: &str) {
        let (address, method) = (self.address(), start.split(' ').next().unwrap());
        self.send(&format!(
            "{start} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bK{method}{cseq};rport\r\nMax-Forwards: 70\r\n\
             From: {from}\r\nTo: {to}\r\nCall-ID: {method_group}\r\nCSeq: {cseq} {method}\r\n{lines}Content-Length: 0\r\n\r\n",
            method_group = if method == "REGISTER" { "registers" } else { "call" },
        ));
    }

    /// True if a message that begins with `start` comes soon.
    fn receives_soon(&self, start: &str) -> bool {
        let mut buffer = [0; 4096];
        self.socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            if buffer[..length].starts_with(start.as_bytes()) {
                return true;
            }
        }
        false
    }

    /// Next message that begins with `start`.
    #[track_caller]
    fn receive(&self, start: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let (length, _) = self.socket.recv_from(&mut buffer).unwrap_or_else(|_| panic!("no {start}"));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.starts_with(start) {
                return text;
            }
        }
    }
}

fn header(message: &str, name: &str) -> String {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned);
    message.lines().find_map(value).unwrap()
}

/// Route lines of a message's Record-Route lines, in the order of the callee, or of the caller.
fn routes(message: &str, is_caller: bool) -> String {
    let mut routes: Vec<_> = message.lines().filter_map(|line| line.strip_prefix("Record-Route: ")).collect();
    if is_caller {
        routes.reverse();
    }
    routes.iter().map(|route| format!("Route: {route}\r\n")).collect()
}

/// Makes the binding of bob, who is at node `a`, as the node of `alice` has it. Returns its contact.
fn register_at_other(a: &Running, alice: &Phone, bob: &Phone, cseq: u32) -> String {
    let flow = Flow::udp(ListenerId(0), bob.address());
    let now = a.clock.now();
    let path = a.runtime.shards().with_shard(0, |node| node.link_path(&flow, now)).unwrap();
    let path = String::from_utf8(path).unwrap();
    let contact = format!("<sip:bob@{}>", bob.address());
    let of_bob = ("<sip:bob@example.org>;tag=b", "<sip:bob@example.org>");
    let lines = format!("Contact: {contact}\r\nPath: {path}\r\nSupported: path\r\n");
    alice.request("REGISTER sip:example.org", of_bob, cseq, &lines);
    alice.receive("SIP/2.0 200");
    contact
}

/// Reloads a node with these secrets.
fn change_secrets(node: &mut Running, name: &str, (current, accepted): (u8, Option<u8>)) {
    let secret = |byte: u8| ClusterSecret::new(&[byte; 32]);
    let mut config = config(TEXT, name, "127.0.0.1:0");
    config.cluster.as_mut().unwrap().secrets = (secret(current), accepted.map(secret));
    let prepared = node.prepare(config).unwrap();
    node.commit(prepared);
}

#[test]
fn calls_go_over_links_after_the_secret_has_changed() {
    let (mut a, mut b) = linked(TEXT);
    let (alice, bob) = (Phone::new(&b), Phone::new(&a));
    let (from, to) = ("<sip:alice@example.org>;tag=a", "<sip:bob@example.org>");
    let mut cseq = 0;
    // The order of docs/recipes/scale.md; the one of the start is 7.
    for steps in [&[(7, Some(8)), (8, Some(7))][..], &[(8, None)]] {
        for &secrets in steps {
            change_secrets(&mut a, "a", secrets);
            change_secrets(&mut b, "b", secrets);
        }
        cseq += 1;
        register_at_other(&a, &alice, &bob, cseq);
        // The links are dialled again after a back-off.
        let arrives = (0..300).any(|_| {
            cseq += 1;
            alice.request("MESSAGE sip:bob@example.org", (from, to), cseq, "");
            bob.receives_soon("MESSAGE")
        });
        assert!(arrives, "with {steps:?}");
    }
    has_links(&a, 1);
    has_links(&b, 1);
    a.stop();
    b.stop();
}

#[test]
fn a_request_that_grows_beyond_the_limit_of_messages_goes_over_the_link() {
    let text = format!("{TEXT}[limits]\nmax_message_bytes = 1300\n");
    let (a, b) = linked(&text);
    let (alice, bob) = (Phone::new(&b), Phone::new(&a));
    register_at_other(&a, &alice, &bob, 1);
    let lines = format!("X-Padding: {}\r\n", "x".repeat(900));
    alice.request(
        "MESSAGE sip:bob@example.org",
        ("<sip:alice@example.org>;tag=a", "<sip:bob@example.org>"),
        1,
        &lines,
    );
    let message = bob.receive("MESSAGE");
    assert!(message.len() > 1300, "it has grown to {} bytes only", message.len());
    assert_eq!(message.matches("SIP/2.0/TLS").count(), 1, "one link: {message}");
    a.stop();
    b.stop();
}

#[test]
fn a_call_goes_over_the_link_to_the_node_of_the_phone() {
    let (a, mut b) = linked(TEXT);
    let (alice, bob) = (Phone::new(&b), Phone::new(&a));
    let contact = register_at_other(&a, &alice, &bob, 1);

    let of_alice = "<sip:alice@example.org>;tag=a";
    let lines = format!("Contact: <sip:alice@{}>\r\n", alice.address());
    alice.request("INVITE sip:bob@example.org", (of_alice, "<sip:bob@example.org>"), 1, &lines);
    let invite = bob.receive("INVITE");
    assert!(!invite.contains("Route: <sip:") || invite.contains("Record-Route: <sip:"), "{invite}");
    assert_eq!(invite.matches("SIP/2.0/TLS").count(), 1, "one link: {invite}");
    let copied =
        |name: &str| invite.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("\r\n");
    let (vias, recorded) = (copied("Via:"), copied("Record-Route:"));
    bob.send(&format!(
        "SIP/2.0 200 OK\r\n{vias}\r\n{recorded}\r\nFrom: {}\r\nTo: {};tag=b\r\nCall-ID: call\r\nCSeq: 1 INVITE\r\n\
         Contact: {contact}\r\nContent-Length: 0\r\n\r\n",
        header(&invite, "From"),
        header(&invite, "To"),
    ));
    let answer = alice.receive("SIP/2.0 200");
    let to_bob = header(&answer, "To");
    alice.request(&format!("ACK sip:bob@{}", bob.address()), (of_alice, &to_bob), 1, &routes(&answer, true));
    bob.receive("ACK");
    let bye = format!("BYE sip:alice@{}", alice.address());
    bob.request(&bye, (&to_bob, of_alice), 2, &routes(&invite, false));
    let bye = alice.receive("BYE");
    assert_eq!(bye.matches("SIP/2.0/TLS").count(), 1, "over the link of the other node: {bye}");

    // Without the node nothing is dialled.
    b.set_nodes(Vec::new());
    has_links(&b, 0);
    alice.request("MESSAGE sip:bob@example.org", (of_alice, "<sip:bob@example.org>"), 9, "");
    let refused = alice.receive("SIP/2.0 4");
    assert!(refused.contains("9 MESSAGE"), "{refused}");
    a.stop();
    b.stop();
}

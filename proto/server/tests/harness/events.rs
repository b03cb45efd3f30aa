//! Any bytes as a datagram for a server with presence and messages, which has a subscription and a kept message.

#[path = "settings.rs"]
mod settings;

use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received, Seed};
use ringway_server::{PresenceConfig, Server};
use ringway_sip::{Limits, Message};
use ringway_test_support::host::{HostLimits, TestHost};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const START: Instant = Instant::from_secs(1_800_000_000);
const WATCHER: &str = "192.0.2.10:5060";
const SENDER: &str = "192.0.2.20:5060";
const REGISTER: &str = "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.20:5060;branch=z9hG4bKr\r\n\
    From: <sip:bob@example.org>;tag=r\r\nTo: <sip:bob@example.org>\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\n\
    Contact: <sip:bob@192.0.2.20>\r\nExpires: 600\r\n\r\n";
const SUBSCRIBE: &str = "SUBSCRIBE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bKs\r\n\
    From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>\r\nCall-ID: s\r\nCSeq: 1 SUBSCRIBE\r\n\
    Contact: <sip:alice@192.0.2.10>\r\nEvent: dialog\r\nExpires: 600\r\n\r\n";

const MESSAGE: &str = "MESSAGE sip:alice@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.20:5060;branch=z9hG4bKm\r\n\
    From: <sip:bob@example.org>;tag=m\r\nTo: <sip:alice@example.org>\r\nCall-ID: m\r\nCSeq: 1 MESSAGE\r\n\
    Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi";

/// The requests that the server sends can be parsed. A subscription reaches its own subscriber only, and everything that began has ended after
/// its time.
pub(crate) fn run(data: &[u8]) {
    let seed = Seed::from_number(1);
    let limits = HostLimits {
        nonce_lifetime: Duration::from_secs(300),
        nonces_max: 100,
        proofs_max: 100,
        per_second: 0,
        record_bytes_max: 1 << 20,
    };
    let services = Arc::new(TestHost::new(limits, &seed, START));
    let mut config = settings::config();
    let on = PresenceConfig { enabled: true, messages: true, ..PresenceConfig::default() };
    config.presence = PresenceConfig { message_keep_days: 1, ..on };
    for user in ["alice", "bob"] {
        services.subscribe(user, "example.org", "example.org", "password");
    }
    let server = Server::new(Arc::new(config), Arc::clone(&services) as _, services.tables(), 0, seed, START);
    let (out, reached) = (Outbox::new(), BTreeSet::new());
    let mut world = World { server, now: START, out, reached };
    world.datagram(SENDER, REGISTER.as_bytes());
    world.datagram(WATCHER, SUBSCRIBE.as_bytes());
    world.datagram(SENDER, MESSAGE.as_bytes());
    assert_eq!(world.server.messages_len(), 1);
    let watched = world.server.subscriptions_len();
    assert_eq!(watched, 1);
    world.reached.clear();
    world.datagram(SENDER, data);
    // Other methods are forwarded, wherever their URI leads.
    if [&b"SUBSCRIBE"[..], b"PUBLISH", b"REGISTER"].iter().any(|method| data.starts_with(method)) {
        let mut addresses = world.reached.iter();
        let known = [WATCHER, SENDER].map(|address| address.parse::<SocketAddr>().expect("an address").ip());
        let is_known = |address: &SocketAddr| known.contains(&address.ip());
        assert!(addresses.all(is_known) || world.server.contexts_len() > 0, "{:?}", world.reached);
    }
    world.pass(Duration::from_secs(90_000));
    assert_eq!((world.server.subscriptions_len(), world.server.publications_len()), (0, 0));
    assert_eq!(world.server.messages_len(), 0);
    assert_eq!(world.server.transactions_len(), (0, 0));
    let used = services.tables().reserved_bytes();
    assert_eq!(used, 0, "memory is reserved");
}

struct World {
    server: Server,
    now: Instant,
    out: Outbox,
    /// Addresses that got a message.
    reached: BTreeSet<SocketAddr>,
}

impl World {
    fn datagram(&mut self, from: &str, bytes: &[u8]) {
        let flow = Flow::udp(ListenerId(0), from.parse().expect("an address"));
        let mut actions = Vec::new();
        let cx = &mut Context::new(self.now, &mut self.out, &mut actions);
        self.server.on_message(cx, Received::new(flow, bytes));
        self.look();
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.server.next_deadline().filter(|due| due.at <= end) {
            self.now = due.at.max(self.now);
            self.server.on_timeout(&mut Context::new(self.now, &mut self.out, &mut Vec::new()));
            self.look();
        }
    }

    fn look(&mut self) {
        for (packet, bytes) in self.out.packets() {
            // A response repeats the header of its request, which may be malformed.
            let is_sound = bytes.starts_with(b"SIP/") || Message::parse(bytes, &Limits::default()).is_ok();
            assert!(is_sound, "{}", String::from_utf8_lossy(bytes));
            self.reached.insert(packet.flow.remote);
        }
        self.out.clear();
    }
}

//! Server on a virtual clock, and the messages that the tests send to it.

use ringway_sansio::{
    ConnectionId, Context, Dialler, Event, Flow, HostNameId, Instant, ListenerId, LocatedServer, Node,
    NumberTarget, Outbox, PeerNames, Queue, Received, RelayRequest, Seed, Shedding, Target, Token, Transport,
};
use ringway_server::{Action, Aor, Config, Server};
use ringway_sip::{Field, HeaderName, Limits, Message};
use ringway_test_support::host::{HostLimits, TestHost};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

#[path = "../harness/settings.rs"]
mod settings;

pub(crate) use settings::config;

/// Addresses of the phones.
pub(crate) const ALICE: &str = "192.0.2.10:5060";
pub(crate) const BOB: &str = "192.0.2.20:5060";
pub(crate) const CAROL: &str = "192.0.2.30:5060";
/// Trusted proxy: its contacts and identities are believed.
pub(crate) const EDGE: &str = "192.0.2.99:5060";
/// Host outside the server's domains.
pub(crate) const STRANGER: &str = "203.0.113.66:5060";

/// Start time of a server.
const START: Instant = Instant::from_secs(1_800_000_000);

/// Server, its services, and the packets that it sent.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) memory: Arc<TestHost>,
    pub(crate) now: Instant,
    /// Pending lookups.
    pub(crate) lookups: Vec<(u64, Target)>,
    /// Lookups of telephone numbers.
    pub(crate) numbers: Vec<(u64, NumberTarget)>,
    /// Certificates that are to be fetched.
    pub(crate) signers: Vec<(u64, Box<str>)>,
    /// Requests to media relays.
    pub(crate) relays: Vec<(u64, RelayRequest)>,
    /// Users whose calls changed: their shard gets the event, unless it is lost.
    pub(crate) changed_calls: Vec<Aor>,
    /// Read-throughs that were requested.
    pub(crate) locates: Vec<(u64, Aor)>,
    pub(crate) loses_changed_calls: bool,
    /// Connections in use, each with the end of its use.
    pub(crate) kept: Vec<(ConnectionId, Instant)>,
    /// Flows whose connections were to be closed.
    pub(crate) disconnected: Vec<Flow>,
    /// Flows for which no connection was to be dialled any longer.
    pub(crate) given_up: Vec<(Flow, Token)>,
    /// Messages that it received and sent so far.
    pub(crate) traffic: Traffic,
    out: Outbox,
    actions: Vec<Action>,
    /// Queue of each listener that late messages came from.
    queues: BTreeMap<ListenerId, Queue>,
}

/// Numbers of messages and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
}

/// Message that the server sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) flow: Flow,
    pub(crate) token: Token,
    pub(crate) after_store: bool,
    pub(crate) change: u64,
    /// Sender who caused it.
    pub(crate) dialler: Dialler,
    pub(crate) bytes: Vec<u8>,
}

impl World {
    /// Server for `example.org` at 192.0.2.1 (and 2001:db8::1), UDP and TCP, without passwords.
    pub(crate) fn open() -> Self {
        Self::with(|_| {})
    }

    /// The same server with passwords, which alice, bob and carol have.
    pub(crate) fn closed() -> Self {
        Self::with(|config| config.auth.enabled = true)
    }

    /// Server with a changed configuration.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config();
        change(&mut config);
        Self::at(config, 0)
    }

    /// Server that accepts at most `per_second` requests from a source.
    pub(crate) fn limited(per_second: u32) -> Self {
        Self::at(config(), per_second)
    }

    /// The same server after a restart: with its secret, and without its state.
    pub(crate) fn restarted() -> Self {
        Self::seeded(config(), 0, 2, START)
    }

    /// Server with passwords, with its clock at `now`.
    pub(crate) fn closed_restarted(now: Instant) -> Self {
        let mut config = config();
        config.auth.enabled = true;
        Self::seeded(config, 0, 2, now)
    }

    /// Server that starts `after` the others.
    pub(crate) fn later(after: Duration, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config();
        change(&mut config);
        Self::seeded(config, 0, 2, START + after)
    }

    pub(crate) fn at(config: Config, per_second: u32) -> Self {
        Self::seeded(config, per_second, 1, START)
    }

    fn seeded(config: Config, per_second: u32, seed: u64, now: Instant) -> Self {
        let seed = Seed::from_number(seed);
        let limits = HostLimits {
            nonce_lifetime: config.auth.nonce_lifetime,
            nonces_max: 1000,
            proofs_max: 1000,
            per_second,
            record_bytes_max: 1 << 20,
        };
        let memory = Arc::new(TestHost::new(limits, &seed, now));
        let server = Server::new(Arc::new(config), Arc::clone(&memory) as _, memory.tables(), 0, seed, now);
        let mut world = Self {
            server,
            memory,
            now,
            lookups: Vec::new(),
            numbers: Vec::new(),
            signers: Vec::new(),
            relays: Vec::new(),
            changed_calls: Vec::new(),
            locates: Vec::new(),
            loses_changed_calls: false,
            kept: Vec::new(),
            disconnected: Vec::new(),
            given_up: Vec::new(),
            traffic: Traffic::default(),
            out: Outbox::new(),
            actions: Vec::new(),
            queues: BTreeMap::new(),
        };
        for user in ["alice", "bob", "carol"] {
            world.add_user(user, "example.org", &format!("{user}'s password"));
        }
        world
    }

    /// Adds a subscriber whose realm is `example.org`.
    pub(crate) fn add_user(&mut self, user: &str, domain: &str, password: &str) {
        self.memory.subscribe(user, domain, "example.org", password);
    }

    /// Receives `message` as a datagram from `from`.
    pub(crate) fn udp(&mut self, from: &str, message: &impl Wire) -> Vec<Sent> {
        self.message(udp_flow(from), &message.wire())
    }

    /// Receives a message on a connection from `from`.
    pub(crate) fn tcp(&mut self, connection: u64, from: &str, message: &impl Wire) -> Vec<Sent> {
        self.message(tcp_flow(connection, from), &message.wire())
    }

    /// Receives a message on a flow.
    pub(crate) fn message(&mut self, flow: Flow, bytes: &[u8]) -> Vec<Sent> {
        self.message_of(flow, bytes, None)
    }

    /// Receives a datagram that waited so long.
    pub(crate) fn late(&mut self, from: &str, message: &impl Wire, waited: Duration) -> Vec<Sent> {
        self.late_on(udp_flow(from), message, waited)
    }

    /// Receives a message on a connection that waited so long.
    pub(crate) fn late_tcp(
        &mut self,
        connection: u64,
        from: &str,
        message: &impl Wire,
        waited: Duration,
    ) -> Vec<Sent> {
        self.late_on(tcp_flow(connection, from), message, waited)
    }

    /// Receives a message on a flow that waited so long in the queue of its listener.
    pub(crate) fn late_on(&mut self, flow: Flow, message: &impl Wire, waited: Duration) -> Vec<Sent> {
        self.late_of(flow, message, waited, None)
    }

    /// The same of a peer that presented a certificate with these names.
    pub(crate) fn late_of(
        &mut self,
        flow: Flow,
        message: &impl Wire,
        waited: Duration,
        peer: Option<&PeerNames>,
    ) -> Vec<Sent> {
        let bytes = message.wire();
        self.count_received(&bytes);
        let queue = self.queues.entry(flow.listener).or_default();
        let received = Received { peer, ..Received::new(flow, &bytes).after(waited, queue) };
        self.server.on_message(&mut Context::new(self.now, &mut self.out, &mut self.actions), received);
        self.drain()
    }

    /// Takes the datagrams that the server wants the driver to drop; `None`: it said nothing since the last call.
    pub(crate) fn take_shedding(&self) -> Option<Shedding> {
        self.queues.values().find_map(Queue::take_shedding).map(|shedding| *shedding)
    }

    /// Receives a message on a flow whose peer presented a certificate with these names.
    pub(crate) fn message_of(&mut self, flow: Flow, bytes: &[u8], peer: Option<&PeerNames>) -> Vec<Sent> {
        self.count_received(bytes);
        let received = Received { peer, ..Received::new(flow, bytes) };
        self.server.on_message(&mut Context::new(self.now, &mut self.out, &mut self.actions), received);
        self.drain()
    }

    /// Reports an event of the transport.
    pub(crate) fn event(&mut self, event: Event) -> Vec<Sent> {
        self.server.on_event(&mut Context::new(self.now, &mut self.out, &mut self.actions), event);
        self.drain()
    }

    /// Advances the clock; timers fire at their time.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(due) = self.server.next_deadline().filter(|due| due.at <= end) {
            self.now = due.at.max(self.now);
            self.server.on_timeout(&mut Context::new(self.now, &mut self.out, &mut self.actions));
            sent.extend(self.drain());
        }
        self.now = end;
        sent
    }

    /// Calls the timers that are due now, once.
    pub(crate) fn due(&mut self) -> Vec<Sent> {
        self.server.on_timeout(&mut Context::new(self.now, &mut self.out, &mut self.actions));
        self.drain()
    }

    /// Answers the oldest lookup, which must be for `host`.
    pub(crate) fn resolve(&mut self, host: &str, address: Option<&str>) -> Vec<Sent> {
        let (query, asked) = self.lookups.remove(0);
        assert_eq!(&*asked.host, host);
        let ip = address.map(|address| address.parse().unwrap());
        let servers = ip.map(|ip| asked.server_at(ip, HostNameId::NONE)).into_iter().collect();
        self.event(Event::Resolved { query, servers })
    }

    /// Answers the oldest lookup, which must be for `host`, with UDP servers.
    #[track_caller]
    pub(crate) fn resolve_to(&mut self, host: &str, addresses: &[&str]) -> Vec<Sent> {
        let (query, asked) = self.lookups.remove(0);
        assert_eq!(&*asked.host, host);
        let server = |address: &&str| LocatedServer {
            transport: Transport::Udp,
            address: address.parse().unwrap(),
            host: HostNameId::NONE,
        };
        self.event(Event::Resolved { query, servers: addresses.iter().map(server).collect() })
    }

    /// Answers the oldest lookup of a number, which must be of these digits.
    #[track_caller]
    pub(crate) fn resolve_number(&mut self, digits: &str, uris: &[&str]) -> Vec<Sent> {
        let (query, asked) = self.numbers.remove(0);
        assert_eq!(&*asked.digits, digits);
        let uris = uris.iter().map(|&uri| uri.into()).collect();
        self.event(Event::NumberResolved { query, uris })
    }

    /// Registers `contact` of `user` by UDP from `from`; only for a server without passwords.
    #[track_caller]
    pub(crate) fn register(&mut self, user: &str, from: &str, contact: &str) {
        let sent = self.udp(from, &register(user, contact).call_id(&format!("{contact}-registers")));
        assert_eq!(only(sent).status(), 200);
    }

    /// Like [`World::register`], over a connection.
    #[track_caller]
    pub(crate) fn register_tcp(&mut self, connection: u64, user: &str, from: &str, contact: &str) {
        let request = register(user, contact).tcp().call_id(&format!("{contact}-registers"));
        assert_eq!(only(self.tcp(connection, from, &request)).status(), 200);
    }

    /// Contact lines of the response to a query for `user`.
    #[track_caller]
    pub(crate) fn bindings(&mut self, user: &str) -> Vec<String> {
        let request = query(user).call_id("a query");
        let answer = only(self.udp(ALICE, &Request { cseq: 1, ..request }));
        assert_eq!(answer.status(), 200);
        answer.headers("Contact")
    }

    /// Asserts that the server still works after any message (RFC 4475).
    #[track_caller]
    pub(crate) fn still_answers(&mut self) {
        let options = request("OPTIONS", "sip:192.0.2.1:5060").call_id("still-there");
        assert_eq!(only(self.udp(CAROL, &options)).status(), 200);
    }

    fn count_received(&mut self, bytes: &[u8]) {
        self.traffic.received += 1;
        self.traffic.received_bytes += bytes.len() as u64;
    }

    fn drain(&mut self) -> Vec<Sent> {
        for action in self.actions.drain(..) {
            match action {
                Action::Resolve { query, target } => self.lookups.push((query, target)),
                Action::ResolveNumber { query, target } => self.numbers.push((query, target)),
                Action::FindSigner { query, url } => self.signers.push((query, url)),
                Action::Relay { query, request } => self.relays.push((query, request)),
                Action::Locate { query, aor } => self.locates.push((query, aor)),
                Action::CallsChanged { user } => self.changed_calls.push(user),
            }
        }
        let mut sent: Vec<_> = self
            .out
            .packets()
            .map(|(packet, bytes)| Sent {
                flow: packet.flow,
                token: packet.token,
                after_store: packet.is_after_store(),
                change: packet.change(),
                dialler: packet.dialler(),
                bytes: bytes.to_vec(),
            })
            .collect();
        self.kept.extend_from_slice(self.out.kept());
        self.disconnected.extend_from_slice(self.out.disconnected());
        self.given_up.extend_from_slice(self.out.given_up());
        self.out.clear();
        self.traffic.sent += sent.len() as u64;
        self.traffic.sent_bytes += sent.iter().map(|one| one.bytes.len() as u64).sum::<u64>();
        for user in std::mem::take(&mut self.changed_calls) {
            if self.loses_changed_calls {
                continue;
            }
            sent.extend(self.event(Event::StateChanged { name: user.as_bytes().into() }));
        }
        sent
    }
}

/// Flow of datagrams.
pub(crate) fn udp_flow(from: &str) -> Flow {
    Flow::udp(ListenerId(0), from.parse().unwrap())
}

/// Flow of a connection.
pub(crate) fn tcp_flow(connection: u64, from: &str) -> Flow {
    let connection = Some(ConnectionId(connection));
    Flow { connection, ..Flow::dial(ListenerId(1), from.parse().unwrap()) }
}

/// Message that can be sent.
pub(crate) trait Wire {
    fn wire(&self) -> Vec<u8>;
}

impl Wire for Vec<u8> {
    fn wire(&self) -> Vec<u8> {
        self.clone()
    }
}

impl Wire for &[u8] {
    fn wire(&self) -> Vec<u8> {
        self.to_vec()
    }
}

/// Request in its parts.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) via: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) call_id: String,
    pub(crate) cseq: u32,
    pub(crate) max_forwards: Option<u32>,
    /// Further header lines.
    pub(crate) lines: Vec<String>,
}

/// Request of alice to `uri`.
pub(crate) fn request(method: &str, uri: &str) -> Request {
    Request {
        method: method.into(),
        uri: uri.into(),
        via: format!("SIP/2.0/UDP {ALICE};rport;branch=z9hG4bK"),
        from: "<sip:alice@example.org>;tag=from-alice".into(),
        to: format!("<{uri}>"),
        call_id: "call".into(),
        cseq: 1,
        max_forwards: Some(70),
        lines: Vec::new(),
    }
}

/// INVITE of alice.
pub(crate) fn invite(uri: &str) -> Request {
    request("INVITE", uri).line(&format!("Contact: <sip:alice@{ALICE}>"))
}

/// REGISTER of a contact.
pub(crate) fn register(user: &str, contact: &str) -> Request {
    query(user).line(&format!("Contact: {contact}"))
}

/// REGISTER without a contact: a query.
pub(crate) fn query(user: &str) -> Request {
    let mut request = request("REGISTER", "sip:example.org");
    request.from = format!("<sip:{user}@example.org>;tag=from-{user}");
    request.to = format!("<sip:{user}@example.org>");
    request
}

impl Request {
    pub(crate) fn line(mut self, line: &str) -> Self {
        self.lines.push(line.into());
        self
    }

    pub(crate) fn from(mut self, uri: &str) -> Self {
        self.from = format!("<{uri}>;tag=from");
        self
    }

    pub(crate) fn to(mut self, to: &str) -> Self {
        self.to = to.into();
        self
    }

    pub(crate) fn call_id(mut self, call_id: &str) -> Self {
        self.call_id = call_id.replace(' ', "-");
        self
    }

    pub(crate) fn cseq(mut self, cseq: u32) -> Self {
        self.cseq = cseq;
        self
    }

    pub(crate) fn via(mut self, via: &str) -> Self {
        self.via = via.into();
        self
    }

    pub(crate) fn tcp(self) -> Self {
        let via = self.via.replace("/UDP", "/TCP");
        self.via(&via)
    }

    /// CANCEL of this INVITE.
    pub(crate) fn cancel(&self) -> Self {
        Self { method: "CANCEL".into(), lines: self.routes(), via: self.whole_via(), ..self.clone() }
    }

    /// ACK of the failure of this INVITE, with the response's To.
    pub(crate) fn ack_of(&self, failure: &Sent) -> Self {
        let to = failure.header("To");
        Self { method: "ACK".into(), to, lines: self.routes(), via: self.whole_via(), ..self.clone() }
    }

    fn routes(&self) -> Vec<String> {
        self.lines.iter().filter(|line| line.starts_with("Route:")).cloned().collect()
    }

    /// Via; its branch is unique to the transaction, unless the test sets one.
    fn whole_via(&self) -> String {
        match self.via.ends_with("branch=z9hG4bK") {
            true => {
                let call: String = self.call_id.chars().filter(char::is_ascii_alphanumeric).collect();
                format!("{}{call}-{}-{}", self.via, self.cseq, self.method)
            }
            false => self.via.clone(),
        }
    }
}

impl Wire for Request {
    fn wire(&self) -> Vec<u8> {
        let Self { method, uri, from, to, call_id, cseq, .. } = self;
        let mut text = format!("{method} {uri} SIP/2.0\r\nVia: {}\r\n", self.whole_via());
        if let Some(hops) = self.max_forwards {
            write!(text, "Max-Forwards: {hops}\r\n").unwrap();
        }
        write!(text, "From: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n").unwrap();
        for line in &self.lines {
            write!(text, "{line}\r\n").unwrap();
        }
        write!(text, "Content-Length: 0\r\n\r\n").unwrap();
        text.into_bytes()
    }
}

impl Sent {
    /// Text; bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// First line.
    pub(crate) fn start(&self) -> String {
        self.text().split("\r\n").next().unwrap().into()
    }

    /// Status code, or 0 for a request.
    pub(crate) fn status(&self) -> u16 {
        match self.start().strip_prefix("SIP/2.0 ") {
            Some(rest) => rest[..3].parse().unwrap(),
            None => 0,
        }
    }

    /// Method of a request; empty for a response.
    pub(crate) fn method(&self) -> String {
        match self.status() {
            0 => self.start().split(' ').next().unwrap().into(),
            _ => String::new(),
        }
    }

    /// Request-URI.
    pub(crate) fn uri(&self) -> String {
        self.start().split(' ').nth(1).unwrap().into()
    }

    /// Values of all lines of this name.
    pub(crate) fn headers(&self, name: &str) -> Vec<String> {
        let message = Message::parse(&self.bytes, &Limits::default()).unwrap();
        let known = HeaderName::from_bytes(name.as_bytes());
        let is_it = |field: &Field<'_>| match known {
            HeaderName::Other => field.name.eq_ignore_ascii_case(name.as_bytes()),
            known => HeaderName::from_bytes(field.name) == known,
        };
        message.iter().filter(is_it).map(|field| String::from_utf8_lossy(field.value).into_owned()).collect()
    }

    /// Value of the only line of this name.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> String {
        let mut all = self.headers(name);
        assert_eq!(all.len(), 1, "{name} in\n{}", self.text());
        all.remove(0)
    }

    /// Destination address.
    pub(crate) fn to(&self) -> String {
        self.flow.remote.to_string()
    }

    /// Response of the peer to this request, with further header lines.
    pub(crate) fn answer(&self, status: u16, lines: &[&str]) -> Vec<u8> {
        self.answer_tagged(status, &format!("tag-of-{}", self.to().replace([':', '.'], "-")), lines)
    }

    /// Like [`Sent::answer`], with this To tag if To has none.
    pub(crate) fn answer_tagged(&self, status: u16, tag: &str, lines: &[&str]) -> Vec<u8> {
        let mut text = format!("SIP/2.0 {status} Because\r\n");
        for via in self.headers("Via") {
            write!(text, "Via: {via}\r\n").unwrap();
        }
        let mut to = self.header("To");
        if status > 100 && !to.contains(";tag=") {
            write!(to, ";tag={tag}").unwrap();
        }
        for route in self.headers("Record-Route") {
            write!(text, "Record-Route: {route}\r\n").unwrap();
        }
        write!(text, "From: {}\r\nTo: {to}\r\n", self.header("From")).unwrap();
        write!(text, "Call-ID: {}\r\nCSeq: {}\r\n", self.header("Call-ID"), self.header("CSeq")).unwrap();
        for line in lines {
            write!(text, "{line}\r\n").unwrap();
        }
        text.push_str("Content-Length: 0\r\n\r\n");
        text.into_bytes()
    }
}

/// The only message of `sent`.
#[track_caller]
pub(crate) fn only(sent: Vec<Sent>) -> Sent {
    let [one] = <[Sent; 1]>::try_from(sent).unwrap_or_else(|sent| {
        let texts: Vec<_> = sent.iter().map(Sent::text).collect();
        panic!("{} were sent:\n{}", sent.len(), texts.join("\n"))
    });
    one
}

/// The only request of `sent`.
#[track_caller]
pub(crate) fn forwarded(sent: Vec<Sent>) -> Sent {
    only(requests(sent))
}

/// Requests of `sent`.
pub(crate) fn requests(sent: Vec<Sent>) -> Vec<Sent> {
    sent.into_iter().filter(|one| one.status() == 0).collect()
}

/// Status codes of the responses, in order.
pub(crate) fn statuses(sent: &[Sent]) -> Vec<u16> {
    sent.iter().map(Sent::status).filter(|&status| status != 0).collect()
}

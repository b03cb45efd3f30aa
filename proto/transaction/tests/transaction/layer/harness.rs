//! Transaction layer with a clock that the test advances, and the messages for it.

use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Context, Flow, IcmpError, Instant, ListenerId, Outbox, Token};
use ringway_sip::{Message, MessageWriter, Start};
use ringway_transaction::{
    Answer, BranchKey, ClientId, Incoming, Limits, Notice, Outgoing, ServerId, Timers, Transactions,
};

/// One shard under test.
pub(crate) struct Line {
    pub(crate) layer: Transactions<u64, u64>,
    /// Packets sent since the last call of a `take` function.
    sent: Vec<Sent>,
    notices: Vec<(u64, Notice<u64>)>,
    now: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Milliseconds since the beginning of the test.
    pub(crate) at_ms: u64,
    pub(crate) flow: Flow,
    pub(crate) token: Token,
    pub(crate) text: String,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::with(0, Timers::default(), Limits::default())
    }

    pub(crate) fn with(shard: u16, timers: Timers, limits: Limits) -> Self {
        let layer = Transactions::new(shard, timers, limits, [1; 16], BranchKey::new([2; 16]), BEGIN);
        Self { layer, sent: Vec::new(), notices: Vec::new(), now: BEGIN }
    }

    /// Layer with a T1 other than 500 ms.
    pub(crate) fn with_t1(milliseconds: u64) -> Self {
        let timers = Timers { t1: Duration::from_millis(milliseconds), ..Timers::default() };
        Self::with(0, timers, Limits::default())
    }

    /// Milliseconds since the beginning.
    pub(crate) fn ms(&self) -> u64 {
        self.now.as_millis() - BEGIN.as_millis()
    }

    /// Advances the clock by `milliseconds`; timers fire at their time.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        while let Some(deadline) = self.layer.next_deadline().filter(|deadline| deadline.at <= until) {
            self.now = self.now.max(deadline.at);
            let mut notices = Vec::new();
            self.with_context(|layer, cx| layer.on_timeout(cx, &mut notices));
            let at = self.ms();
            self.notices.extend(notices.into_iter().map(|notice| (at, notice)));
        }
        self.now = until;
    }

    /// Starts a client transaction with owner 7; its branch replaces `BRANCH` in the text.
    pub(crate) fn send(&mut self, flow: Flow, text: &str) -> Option<ClientId> {
        let outgoing = Outgoing { flow, is_invite: text.starts_with("INVITE"), owner: 7 };
        self.with_context(|layer, cx| {
            layer.start_client(cx, outgoing, |arena, branch| {
                arena.extend_from_slice(text.replace("BRANCH", &as_text(branch)).as_bytes());
            })
        })
    }

    pub(crate) fn send_udp(&mut self, text: &str) -> ClientId {
        self.send(udp(), text).expect("there is room")
    }

    pub(crate) fn cancel(&mut self, client: ClientId) {
        self.with_context(|layer, cx| layer.cancel(cx, client));
    }

    /// Receives a response.
    pub(crate) fn answer(&mut self, text: &str) -> Answer<u64> {
        let message = parse(text);
        let Start::Response { status, .. } = *message.start() else { panic!("no response: {text}") };
        self.with_context(|layer, cx| layer.receive_response(cx, &message, status, |_| true))
    }

    /// Receives a request.
    pub(crate) fn request(&mut self, text: &str) -> Incoming<u64> {
        let message = parse(text);
        self.with_context(|layer, cx| layer.receive_request(cx, &message))
    }

    /// Receives a request and starts a server transaction with owner 9.
    pub(crate) fn serve(&mut self, flow: Flow, text: &str) -> ServerId {
        let Incoming::New(key) = self.request(text) else { panic!("not new: {text}") };
        let invite = text.starts_with("INVITE");
        self.layer.start_server(key, invite, flow, 5070, 9).expect("there is room")
    }

    /// Sends a response of the user; true if it was sent.
    pub(crate) fn respond(&mut self, server: ServerId, request: &str, status: u16) -> bool {
        let text = response(request, status);
        self.with_context(|layer, cx| {
            layer.respond(cx, server, status, |arena| arena.extend_from_slice(text.as_bytes()))
        })
    }

    /// Reports that the packet with `token` could not be sent.
    pub(crate) fn unreachable(&mut self, token: Token) {
        let mut notices = Vec::new();
        self.with_context(|layer, cx| layer.unreachable(cx, token, &mut notices));
        let at = self.ms();
        self.notices.extend(notices.into_iter().map(|notice| (at, notice)));
    }

    /// Receives an ICMP error.
    pub(crate) fn icmp(&mut self, flow: Flow, quoted: &[u8]) {
        let mut notices = Vec::new();
        self.with_context(|layer, cx| layer.icmp_error(cx, IcmpError { flow, quoted }, &mut notices));
        let at = self.ms();
        self.notices.extend(notices.into_iter().map(|notice| (at, notice)));
    }

    /// Packets sent since the last call.
    pub(crate) fn take_sent(&mut self) -> Vec<Sent> {
        core::mem::take(&mut self.sent)
    }

    /// Times of the packets sent since the last call, in milliseconds since the beginning.
    pub(crate) fn take_times(&mut self) -> Vec<u64> {
        self.take_sent().into_iter().map(|sent| sent.at_ms).collect()
    }

    /// The only packet sent since the last call.
    pub(crate) fn take_one(&mut self) -> Sent {
        let sent = self.take_sent();
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.into_iter().next().expect("there is one packet")
    }

    /// First lines of the packets sent since the last call, without the version.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.take_sent().iter().map(|sent| first_line(&sent.text)).collect()
    }

    /// Notices since the last call, with their times.
    pub(crate) fn take_notices(&mut self) -> Vec<(u64, Notice<u64>)> {
        core::mem::take(&mut self.notices)
    }

    /// Owners of the server transactions that ended since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        core::iter::from_fn(|| self.layer.take_gone()).collect()
    }

    /// Fails if a transaction or a timer is left.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.layer.len(), (0, 0), "transactions are left");
        assert_eq!(self.layer.next_deadline(), None, "a timer is left");
    }

    fn with_context<T>(
        &mut self,
        run: impl FnOnce(&mut Transactions<u64, u64>, &mut Context<'_, ()>) -> T,
    ) -> T {
        let mut out = Outbox::new();
        let result = run(&mut self.layer, &mut Context::new(self.now, &mut out, &mut Vec::new()));
        let at_ms = self.ms();
        for (packet, bytes) in out.packets() {
            let text = as_text(bytes);
            parse(&text);
            self.sent.push(Sent { at_ms, flow: packet.flow, token: packet.token, text });
        }
        result
    }
}

/// Datagram flow to the peer.
pub(crate) fn udp() -> Flow {
    Flow::udp(ListenerId(0), peer())
}

/// Connection with the peer.
pub(crate) fn tcp() -> Flow {
    Flow { connection: Some(ConnectionId(3)), ..Flow::dial(ListenerId(0), peer()) }
}

pub(crate) fn peer() -> SocketAddr {
    "192.0.2.1:40000".parse().expect("an address")
}

/// Request of a local client; the layer replaces the branch.
pub(crate) fn outgoing(method: &str) -> String {
    incoming(method, "BRANCH")
}

/// Request with a branch of the peer.
pub(crate) fn incoming(method: &str, branch: &str) -> String {
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP 198.51.100.1:5070;branch={branch}\r\n\
         Max-Forwards: 69\r\n\
         From: Alice <sip:alice@example.org>;tag=a1\r\n\
         To: <sip:bob@example.org>\r\n\
         Call-ID: call-1\r\n\
         CSeq: 1 {method}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// ACK of the request, with a tag in To.
pub(crate) fn ack_of(invite: &str) -> String {
    invite.replace("INVITE", "ACK").replace("To: <sip:bob@example.org>", "To: <sip:bob@example.org>;tag=b1")
}

/// Response to `request` with a tag in To.
pub(crate) fn response(request: &str, status: u16) -> String {
    let request = parse(request);
    let mut out = Vec::new();
    let writer = MessageWriter::response(&mut out, &request, status, "Reason", None, Some(b"b1"));
    writer.finish().expect("the header values are valid");
    as_text(&out)
}

pub(crate) fn parse(text: &str) -> Message<'_> {
    Message::parse(text.as_bytes(), &ringway_sip::Limits::default())
        .unwrap_or_else(|rejected| panic!("{:?} in {text}", rejected.reason))
}

/// Value of a header line that must occur once.
pub(crate) fn header<'t>(text: &'t str, name: &str) -> &'t str {
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let value = values.next().unwrap_or_else(|| panic!("no {name} in {text}"));
    assert_eq!(values.next(), None, "a second {name} in {text}");
    value
}

/// `INVITE`, or `SIP/2.0 200`.
pub(crate) fn first_line(text: &str) -> String {
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    if first == "SIP/2.0" { format!("{first} {}", words.next().unwrap_or_default()) } else { first.into() }
}

pub(crate) fn as_text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("tests write text")
}

/// A whole millisecond, like timers.
const BEGIN: Instant = Instant::from_secs(1_700_000_000);

/// Time in milliseconds after the end of timers D and I to M within which a transaction is removed.
pub(crate) const REMOVAL_MS: u64 = 32;

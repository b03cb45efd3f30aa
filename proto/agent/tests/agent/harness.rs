//! Agent with its input, its packets and its events.

use ringway_agent::{
    Account, AccountId, Action, AgentEvent, CallId, Config, Listener, ServerAddress, UserAgent,
};
use ringway_sansio::{
    Context, Event, Flow, HostNameId, Instant, ListenerId, LocatedServer, LocatedServers, Node, Outbox,
    Received, Seed, Transport,
};
use ringway_sdp::{Codec, LocalMedia, SecurityPolicy};
use std::net::SocketAddr;
use std::time::Duration;

/// Address of the agent.
pub(crate) const OWN: &str = "10.0.0.1:5060";
/// Address of its server.
pub(crate) const SERVER: &str = "10.0.0.9:5060";
/// Address of another host.
pub(crate) const PEER: &str = "10.0.0.2:5060";

pub(crate) const ALICE: AccountId = AccountId(0);

pub(crate) struct Table {
    pub(crate) agent: UserAgent,
    pub(crate) now: Instant,
    pub(crate) out: Outbox,
    pub(crate) actions: Vec<Action>,
}

/// Packet that the agent sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) flow: Flow,
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
}

impl Sent {
    pub(crate) fn line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// First value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.text
            .lines()
            .take_while(|line| !line.is_empty())
            .find_map(|line| line.strip_prefix(start.as_str()))
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default()
    }

    pub(crate) fn to(&self) -> String {
        self.flow.remote.to_string()
    }
}

impl Table {
    /// Account without a server.
    pub(crate) fn direct() -> Self {
        Self::with(Account::direct("sip:alice@example.org"), |_| {})
    }

    /// Account at a server, not registered yet.
    pub(crate) fn at_server() -> Self {
        Self::with(account_at_server(), |_| {})
    }

    pub(crate) fn with(account: Account, configure: impl FnOnce(&mut Config)) -> Self {
        let listener = |transport| Listener { transport, address: OWN.parse().unwrap() };
        let mut config = Config::new(vec![account], vec![listener(Transport::Udp), listener(Transport::Tcp)]);
        configure(&mut config);
        let now = Instant::from_secs(1_700_000_000);
        let agent = UserAgent::new(config, Seed::from_number(7), now).unwrap();
        Self { agent, now, out: Outbox::new(), actions: Vec::new() }
    }

    /// Calls the agent, and stores its packets and events.
    pub(crate) fn ask<R>(&mut self, run: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> R) -> R {
        run(&mut self.agent, &mut Context::new(self.now, &mut self.out, &mut self.actions))
    }

    pub(crate) fn receive(&mut self, from: &str, text: &str) {
        self.receive_bytes(udp(from), text.as_bytes());
    }

    pub(crate) fn receive_bytes(&mut self, flow: Flow, bytes: &[u8]) {
        self.ask(|agent, cx| agent.on_message(cx, Received::new(flow, bytes)));
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.ask(|agent, cx| agent.on_event(cx, event));
    }

    /// Advances the clock, deadline by deadline.
    pub(crate) fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.agent.next_deadline().filter(|due| due.at <= until) {
            self.now = self.now.max(due.at);
            self.ask(|agent, cx| agent.on_timeout(cx));
        }
        self.now = until;
    }

    pub(crate) fn pass_s(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    /// Packets since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let sent = self
            .out
            .packets()
            .map(|(packet, bytes)| Sent { flow: packet.flow, text: text(bytes), bytes: bytes.to_vec() })
            .collect();
        self.out.clear();
        sent
    }

    /// The only packet since the last call.
    pub(crate) fn only(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// First lines of the packets since the last call.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        self.sent().iter().map(|sent| sent.line().to_string()).collect()
    }

    /// Events since the last call.
    pub(crate) fn events(&mut self) -> Vec<AgentEvent> {
        let events = self.actions.drain(..).filter_map(|action| match action {
            Action::Event(event) => Some(event),
            Action::Resolve { .. } => None,
        });
        events.collect()
    }

    /// Starts a call to `target`, and returns the INVITE.
    pub(crate) fn call(&mut self, target: &str) -> (CallId, Sent) {
        let call = self.ask(|agent, cx| agent.call(cx, ALICE, target, media())).unwrap();
        (call, self.only())
    }

    /// Establishes an outgoing call, and returns the INVITE.
    pub(crate) fn established(&mut self, target: &str) -> (CallId, Sent) {
        let (call, invite) = self.call(target);
        let from = invite.to();
        let contact = format!("Contact: <sip:bob@{from}>\r\n");
        self.receive(&from, &answer(&invite, 200, "bob", &contact, Some(&sdp("10.0.0.2", 7000))));
        assert!(self.only().line().starts_with("ACK "));
        assert!(matches!(self.events().as_slice(), [AgentEvent::Answered { .. }]));
        (call, invite)
    }

    /// Receives a call that rings.
    pub(crate) fn ringing(&mut self, text: &str) -> CallId {
        self.receive(PEER, text);
        assert_eq!(self.only().line(), "SIP/2.0 100 Trying");
        let events = self.events();
        let [AgentEvent::Incoming { call, .. }] = events.as_slice() else { panic!("{events:?}") };
        *call
    }

    /// Establishes an incoming call, and returns its 200.
    pub(crate) fn answered(&mut self) -> (CallId, Sent) {
        let call = self.ringing(&invite("in1", 1, Some(&sdp("10.0.0.2", 7000))));
        self.ask(|agent, cx| agent.answer(cx, call, media())).unwrap();
        let ok = self.only();
        self.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
        assert!(self.sent().is_empty());
        assert!(matches!(self.events().as_slice(), [AgentEvent::Answered { .. }]));
        (call, ok)
    }
}

/// Result of a lookup.
pub(crate) fn resolved(address: &str) -> LocatedServers {
    let address: SocketAddr = address.parse().unwrap();
    LocatedServer { transport: Transport::Udp, address, host: HostNameId::NONE }.into()
}

pub(crate) fn udp(from: &str) -> Flow {
    Flow::udp(ListenerId(0), from.parse::<SocketAddr>().unwrap())
}

pub(crate) fn account_at_server() -> Account {
    Account::at_server("sip:alice@example.org", "secret", server_address())
}

pub(crate) fn server_address() -> ServerAddress {
    ServerAddress { host: "10.0.0.9".into(), port: None, transport: Transport::Udp }
}

/// Local media without protection.
pub(crate) fn media() -> LocalMedia {
    media_with(SecurityPolicy::None)
}

pub(crate) fn media_with(policy: SecurityPolicy) -> LocalMedia {
    LocalMedia {
        rtp: "10.0.0.1:4000".parse().unwrap(),
        rtcp_port: 4001,
        codecs: vec![Codec::Pcmu, Codec::Pcma],
        ptime_ms: 20,
        telephone_event: true,
        policy,
        rtcp_mux: false,
    }
}

/// Session description with PCMU only.
pub(crate) fn sdp(address: &str, port: u16) -> String {
    sdp_with(address, port, "a=sendrecv\r\n")
}

pub(crate) fn sdp_with(address: &str, port: u16, attributes: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\n{attributes}"
    )
}

/// Response to a packet of the agent. `fields` are whole lines.
pub(crate) fn answer(request: &Sent, status: u16, tag: &str, fields: &str, body: Option<&str>) -> String {
    let mut text = format!("SIP/2.0 {status} Reason {status}\r\n");
    for line in request.text.lines().skip(1).take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default();
        if matches!(name, "Via" | "From" | "Call-ID" | "CSeq") {
            text.push_str(line);
            text.push_str("\r\n");
        }
        if name == "To" {
            text.push_str(line);
            if !line.contains(";tag=") && !tag.is_empty() {
                text.push_str(&format!(";tag={tag}"));
            }
            text.push_str("\r\n");
        }
    }
    text.push_str(fields);
    finish(text, body)
}

/// INVITE of the peer for alice.
pub(crate) fn invite(call_id: &str, cseq: u32, body: Option<&str>) -> String {
    invite_with(call_id, cseq, "", body)
}

pub(crate) fn invite_with(call_id: &str, cseq: u32, fields: &str, body: Option<&str>) -> String {
    let text = format!(
        "INVITE sip:alice@{OWN} SIP/2.0\r\nVia: SIP/2.0/UDP {PEER};rport;branch=z9hG4bK{call_id}{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: \"Bob\" <sip:bob@example.net>;tag=b\r\nTo: <sip:alice@example.org>\r\n\
         Call-ID: {call_id}\r\nCSeq: {cseq} INVITE\r\nContact: <sip:bob@{PEER}>\r\n{fields}"
    );
    finish(text, body)
}

/// In-dialog request of the peer. The dialog is that of this message of the agent: a request that was answered with tag
/// `bob`, or a response.
pub(crate) fn in_dialog(method: &str, cseq: u32, of: &Sent, fields: &str, body: Option<&str>) -> String {
    let is_response = of.line().starts_with("SIP/2.0");
    let (ours, theirs) = if is_response { ("To", "From") } else { ("From", "To") };
    let (ours, mut theirs) = (of.field(ours).unwrap().to_string(), of.field(theirs).unwrap().to_string());
    if !theirs.contains(";tag=") {
        theirs.push_str(";tag=bob");
    }
    let call_id = of.field("Call-ID").unwrap();
    let text = format!(
        "{method} sip:alice@{OWN} SIP/2.0\r\nVia: SIP/2.0/UDP {PEER};rport;branch=z9hG4bK{method}{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: {theirs}\r\nTo: {ours}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:bob@{PEER}>\r\n{fields}"
    );
    finish(text, body)
}

fn finish(mut text: String, body: Option<&str>) -> String {
    if body.is_some() && !text.contains("Content-Type:") {
        text.push_str("Content-Type: application/sdp\r\n");
    }
    let body = body.unwrap_or_default();
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    text
}

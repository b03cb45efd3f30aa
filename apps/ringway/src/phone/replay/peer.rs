//! A scripted SIP peer that is registrar, caller and callee: text in, text out.

use ringway_sansio::{Context, Deadline, Event, Node, Received, ShardKey, Token};
use std::net::SocketAddr;

/// The peer. It accepts every REGISTER and every call but one to `busy`.
pub(super) struct Peer {
    address: SocketAddr,
    /// Contact of the phone.
    phone: String,
    calls: u32,
    cseq: u32,
    /// Call-ID, our From or To, and the phone's.
    dialog: [String; 3],
    target: String,
}

impl Peer {
    pub(super) fn new(address: SocketAddr) -> Self {
        let (phone, target, dialog) = Default::default();
        Self { address, phone, calls: 0, cseq: 0, dialog, target }
    }

    /// Takes a message; returns the responses, or the ACK.
    pub(super) fn on_message(&mut self, text: &str) -> Vec<String> {
        match text.split(' ').next().unwrap_or_default() {
            "REGISTER" => {
                self.phone = uri(&header(text, "Contact"));
                let contact = format!("Contact: <{}>;expires=3600\r\n", self.phone);
                vec![respond(text, "200 OK", &contact, "")]
            }
            "INVITE" if text.starts_with("INVITE sip:busy@") => vec![respond(text, "486 Busy Here", "", "")],
            "INVITE" => self.on_invite(text),
            "BYE" => vec![respond(text, "200 OK", "", "")],
            "SIP/2.0" => self.on_response(text),
            _ => Vec::new(),
        }
    }

    /// INVITE.
    pub(super) fn call(&mut self) -> Vec<String> {
        self.calls += 1;
        let own = format!("<sip:bob@example.org>;tag=call{}", self.calls);
        self.dialog = [format!("call-{}", self.calls), own, "<sip:alice@example.org>".to_owned()];
        self.target.clone_from(&self.phone);
        vec![self.request("INVITE", &self.sdp("sendrecv"))]
    }

    /// INVITE with `sendonly`.
    pub(super) fn hold(&mut self) -> Vec<String> {
        vec![self.request("INVITE", &self.sdp("sendonly"))]
    }

    /// BYE.
    pub(super) fn hang_up(&mut self) -> Vec<String> {
        vec![self.request("BYE", "")]
    }

    fn on_invite(&mut self, text: &str) -> Vec<String> {
        let direction = if text.contains("a=sendonly") { "recvonly" } else { "sendrecv" };
        let own = format!("Contact: <sip:bob@{}>\r\n", self.address);
        let answer = respond(text, "200 OK", &own, &self.sdp(direction));
        if header(text, "To").contains(";tag=") {
            return vec![answer];
        }
        self.dialog = [header(text, "Call-ID"), header(&answer, "To"), header(text, "From")];
        self.target = uri(&header(text, "Contact"));
        vec![respond(text, "180 Ringing", &own, ""), answer]
    }

    fn on_response(&mut self, text: &str) -> Vec<String> {
        let status = text.split(' ').nth(1).unwrap_or_default();
        let cseq = header(text, "CSeq");
        if !cseq.ends_with("INVITE") || status < "200" {
            return Vec::new();
        }
        self.dialog[2] = header(text, "To");
        if status < "300" {
            self.target = uri(&header(text, "Contact"));
        }
        let number = cseq.split(' ').next().unwrap_or_default().to_owned();
        vec![self.message("ACK", &number, if status < "300" { "ack" } else { "INVITE" }, "")]
    }

    fn request(&mut self, method: &str, body: &str) -> String {
        self.cseq += 1;
        self.message(method, &self.cseq.to_string(), method, body)
    }

    fn message(&self, method: &str, cseq: &str, branch: &str, body: &str) -> String {
        let Self { address, target, dialog: [call_id, own, phone], .. } = self;
        let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bK{branch}{cseq}{call_id}\r\n\
             Max-Forwards: 70\r\nFrom: {own}\r\nTo: {phone}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
             Contact: <sip:bob@{address}>\r\n{content}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn sdp(&self, direction: &str) -> String {
        let (ip, version) = (self.address.ip(), self.cseq + 1);
        format!(
            "v=0\r\no=- 1 {version} IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0 101\r\n\
             a=rtpmap:101 telephone-event/8000\r\na={direction}\r\n"
        )
    }
}

/// The peer as a node of a station.
pub(super) struct PeerNode(pub(super) Peer);

impl Node for PeerNode {
    type Action = ();
    type Framer = ringway_agent::SipFramer;

    fn shard_of(_: &ShardKey, _: &[u8], _: u16) -> u16 {
        0
    }

    fn on_message(&mut self, cx: &mut Context<'_, ()>, received: Received<'_>) {
        for response in self.0.on_message(&String::from_utf8_lossy(received.bytes)) {
            cx.out.send(received.flow, Token::NONE, response.as_bytes());
        }
    }

    fn on_event(&mut self, _: &mut Context<'_, ()>, _: Event) {}

    fn on_timeout(&mut self, _: &mut Context<'_, ()>) {}

    fn next_deadline(&self) -> Option<Deadline> {
        None
    }
}

fn respond(request: &str, status: &str, fields: &str, body: &str) -> String {
    let copied = |name| format!("{name}: {}\r\n", header(request, name));
    let to = header(request, "To");
    let tag = if to.contains(";tag=") { "" } else { ";tag=peer" };
    let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "SIP/2.0 {status}\r\n{}To: {to}{tag}\r\n{fields}{content}Content-Length: {}\r\n\r\n{body}",
        ["Via", "From", "Call-ID", "CSeq"].map(copied).concat(),
        body.len()
    )
}

/// The value of a header field.
fn header(message: &str, name: &str) -> String {
    let of = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned());
    message.lines().find_map(of).unwrap_or_default()
}

/// The URI between `<` and `>`.
fn uri(value: &str) -> String {
    value.split(['<', '>']).nth(1).unwrap_or(value).to_owned()
}

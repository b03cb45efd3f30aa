//! Outgoing requests of a phone (REGISTER, INVITE, CANCEL, BYE) as text, with its credentials for a digest challenge by
//! the first supported algorithm.

use super::{Account, Call, CallState, Due, Phone, PhoneEvent, Request};
use base16ct::lower::encode_string as hex;
use md5::Md5;
use ringway_sansio::{Context, Flow, Instant, TimerKey, Token};
use ringway_sim::Effects;
use ringway_sip::grammar::{trim, unquote};
use ringway_sip::{Fields, HeaderName, Message, NameAddr};
use ringway_transaction::Outgoing;
use sha2::{Digest, Sha256};
use std::time::Duration;

impl Phone {
    /// Registers its contact for `seconds`; 0 removes it.
    pub fn register(&mut self, now: Instant, seconds: u32, effects: &mut Effects) {
        let contact = format!("Contact: <{}>\r\nExpires: {seconds}\r\n", self.contact_uri());
        self.register_with(now, &contact, effects);
    }

    /// Registers with these header lines instead of its own contact. The last REGISTER must have its response (RFC 3261
    /// §10.2).
    pub fn register_with(&mut self, now: Instant, extra: &str, effects: &mut Effects) {
        if self.is_registering {
            return;
        }
        self.is_registering = true;
        self.register_cseq += 1;
        let request = Request {
            method: "REGISTER",
            uri: format!("{}:{}", self.scheme, self.account.domain),
            to: format!("<{}>", self.aor()),
            from: format!("<{}>", self.aor()),
            from_tag: self.new_tag(),
            call_id: self.register_call_id.clone(),
            cseq: self.register_cseq,
            routes: Vec::new(),
            extra: extra.into(),
            body: String::new(),
            client: None,
            challenged: 0,
            is_cancelled: false,
        };
        self.send(now, request, effects);
    }

    /// Calls `uri`.
    pub fn call(&mut self, now: Instant, uri: &str, effects: &mut Effects) {
        let contact = format!("Contact: <{}>\r\n", self.contact_uri());
        self.request_outside(now, "INVITE", uri, &contact, effects);
    }

    /// Sends an out-of-dialog request with further header lines.
    pub fn request_outside(
        &mut self,
        now: Instant,
        method: &'static str,
        uri: &str,
        extra: &str,
        effects: &mut Effects,
    ) {
        self.send_outside(now, (method, uri), (extra, ""), effects);
    }

    /// Sends a text to `uri` in a MESSAGE.
    pub fn send_text(&mut self, now: Instant, uri: &str, text: &str, effects: &mut Effects) {
        self.send_outside(now, ("MESSAGE", uri), ("Content-Type: text/plain\r\n", text), effects);
    }

    fn send_outside(
        &mut self,
        now: Instant,
        (method, uri): (&'static str, &str),
        (extra, body): (&str, &str),
        effects: &mut Effects,
    ) {
        let call_id = format!("{:x}@{}", self.rng.next_u64(), self.address.ip());
        let request = Request {
            method,
            uri: uri.into(),
            to: format!("<{uri}>"),
            from: format!("<{}>", self.aor()),
            from_tag: self.new_tag(),
            call_id,
            cseq: 1,
            routes: Vec::new(),
            extra: extra.into(),
            body: body.into(),
            client: None,
            challenged: 0,
            is_cancelled: false,
        };
        self.send(now, request, effects);
    }

    /// Cancels its last outgoing call, or ends it if it was answered meanwhile.
    pub fn cancel(&mut self, now: Instant, effects: &mut Effects) {
        self.hang_up(now, effects);
        let Some(request) = self.requests.iter_mut().rev().find(|request| request.method == "INVITE") else {
            return;
        };
        request.is_cancelled = true;
        if let Some(client) = request.client {
            self.layer.cancel(&mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()), client);
        }
    }

    /// Ends its last established call.
    pub fn hang_up(&mut self, now: Instant, effects: &mut Effects) {
        let is_up = |call: &Call| matches!(call.state, CallState::Established | CallState::Unconfirmed);
        if let Some(index) = self.calls.iter().rposition(is_up) {
            self.bye(now, index, effects);
        }
    }

    /// Sends an UPDATE with its Contact in its last established call (RFC 3311).
    pub fn refresh(&mut self, now: Instant, effects: &mut Effects) {
        let extra = format!("Contact: <{}>\r\n", self.contact_uri());
        let is_up = |call: &Call| call.state == CallState::Established;
        if let Some(index) = self.calls.iter().rposition(is_up) {
            self.send_inside(now, index, ("UPDATE", &extra), effects);
        }
    }

    pub(super) fn bye(&mut self, now: Instant, index: usize, effects: &mut Effects) {
        self.calls[index].state = CallState::Over;
        self.send_inside(now, index, ("BYE", ""), effects);
    }

    fn send_inside(
        &mut self,
        now: Instant,
        index: usize,
        (method, extra): (&'static str, &str),
        effects: &mut Effects,
    ) {
        let call = &mut self.calls[index];
        call.cseq += 1;
        let request = Request {
            method,
            uri: call.target.clone(),
            to: format!("{};tag={}", call.remote, call.remote_tag),
            from: call.local.clone(),
            from_tag: call.local_tag.clone(),
            call_id: call.call_id.clone(),
            cseq: call.cseq,
            routes: call.routes.clone(),
            extra: extra.into(),
            body: String::new(),
            client: None,
            challenged: 0,
            is_cancelled: false,
        };
        self.send(now, request, effects);
    }

    fn send(&mut self, now: Instant, mut request: Request, effects: &mut Effects) {
        let next = request.routes.first().map_or_else(|| request.uri.clone(), |route| uri_of(route));
        let flow = self.flow_to(&next);
        let owner = self.requests.len();
        if request.method == "INVITE" {
            self.wheel.arm(now + PATIENCE, Due::GiveUp(self.requests.len()));
        }
        let outgoing = Outgoing { flow, is_invite: request.method == "INVITE", owner };
        let unfinished = self.request_text(&request, &flow, "BRANCH");
        request.client = self.layer.start_client(
            &mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()),
            outgoing,
            |arena, branch| {
                arena.extend_from_slice(unfinished.replacen("BRANCH", &text(branch), 1).as_bytes());
            },
        );
        self.requests.push(request);
    }

    /// Handles a response to the request with number `owner`.
    pub(super) fn on_response(
        &mut self,
        now: Instant,
        owner: usize,
        message: &Message<'_>,
        status: u16,
        effects: &mut Effects,
    ) {
        let request = &self.requests[owner];
        match (status, request.method) {
            (100, _) => {}
            (101..=199, _) => self.events.push(PhoneEvent::Progress(status)),
            (200..=299, "INVITE") => self.on_answered(now, owner, message, effects),
            (200..=299, "REGISTER") => {
                let contacts = values(message, HeaderName::Contact);
                self.is_registering = false;
                self.events.push(PhoneEvent::Registered { contacts });
            }
            (200..=299, method) => self.events.push(PhoneEvent::Accepted(method)),
            (401 | 407, _) if request.challenged < 2 && !request.is_cancelled => {
                self.try_again(now, owner, message, effects);
            }
            (_, method) => {
                self.is_registering &= method != "REGISTER";
                self.events.push(PhoneEvent::Refused(method, status));
            }
        }
    }

    /// Sends the request again with credentials (RFC 3261 §22.2), in a new transaction with the next CSeq.
    fn try_again(&mut self, now: Instant, owner: usize, message: &Message<'_>, effects: &mut Effects) {
        let request = &self.requests[owner];
        let method = request.method;
        let line = answer(&self.account, message, method, &request.uri, request.challenged + 1);
        let Some(line) = line else {
            self.is_registering &= method != "REGISTER";
            self.events.push(PhoneEvent::Refused(method, 401));
            return;
        };
        let own_lines = request.extra.split_inclusive("\r\n").filter(|line| !line.contains("uthorization: "));
        let again = Request {
            method,
            uri: request.uri.clone(),
            to: request.to.clone(),
            from: request.from.clone(),
            from_tag: request.from_tag.clone(),
            call_id: request.call_id.clone(),
            cseq: request.cseq + 1,
            routes: request.routes.clone(),
            extra: own_lines.collect::<String>() + &line,
            body: request.body.clone(),
            client: None,
            challenged: request.challenged + 1,
            is_cancelled: false,
        };
        if method == "REGISTER" {
            self.register_cseq = self.register_cseq.max(again.cseq);
        }
        self.send(now, again, effects);
    }

    /// Handles a 2xx: the first creates the dialog, each further one with its tag is acknowledged again, and one with
    /// another tag is from a second phone.
    fn on_answered(&mut self, now: Instant, owner: usize, message: &Message<'_>, effects: &mut Effects) {
        let remote_tag = text(message.to().tag().unwrap_or_default());
        let request = &self.requests[owner];
        let of_call = |call: &&Call| call.call_id == request.call_id && call.local_tag == request.from_tag;
        if let Some(call) = self.calls.iter().filter(of_call).find(|call| call.remote_tag == remote_tag) {
            let flow = self.flow_to(&next_hop(call));
            effects.out.send(flow, Token::NONE, &call.last);
            return;
        }
        let is_second = self.calls.iter().any(|call| of_call(&call));
        let is_cancelled = request.is_cancelled;
        let mut routes = values(message, HeaderName::RecordRoute);
        routes.reverse();
        let contact = values(message, HeaderName::Contact);
        let cseq = request.cseq;
        let mut call = Call {
            call_id: request.call_id.clone(),
            local: request.from.clone(),
            local_tag: request.from_tag.clone(),
            remote_tag,
            remote: request.to.clone(),
            target: contact.first().map(|value| uri_of(value)).expect("a 200 has a Contact"),
            routes,
            cseq,
            state: CallState::Established,
            invite: Vec::new(),
            server: None,
            source: self.flow_to(&request.uri),
            last: Vec::new(),
            repeat: TimerKey::NONE,
            repeat_interval: Duration::ZERO,
        };
        let flow = self.flow_to(&next_hop(&call));
        let branch = format!("z9hG4bKack{:x}", self.rng.next_u64());
        call.last = self.ack_text(&call, cseq, &flow, &branch).into_bytes();
        effects.out.send(flow, Token::NONE, &call.last);
        self.calls.push(call);
        self.events.push(if is_second { PhoneEvent::AnsweredTwice } else { PhoneEvent::Answered });
        if is_second || is_cancelled {
            self.bye(now, self.calls.len() - 1, effects);
        }
    }
}

fn next_hop(call: &Call) -> String {
    call.routes.first().map_or_else(|| call.target.clone(), |route| uri_of(route))
}

/// URI of a Contact, Route or Record-Route value.
pub(super) fn uri_of(value: &str) -> String {
    text(NameAddr::parse(value.as_bytes()).expect("our server writes well-formed values").uri.as_bytes())
}

impl Phone {
    fn request_text(&self, request: &Request, flow: &Flow, branch: &str) -> String {
        let mut text = format!("{} {} SIP/2.0\r\n", request.method, request.uri);
        text.push_str(&self.via(flow, branch));
        for route in &request.routes {
            text.push_str(&format!("Route: {route}\r\n"));
        }
        let (from, tag) = (&request.from, &request.from_tag);
        text.push_str(&format!("Max-Forwards: {}\r\nFrom: {from};tag={tag}\r\n", self.hops));
        text.push_str(&format!("To: {}\r\nCall-ID: {}\r\n", request.to, request.call_id));
        text.push_str(&format!("CSeq: {} {}\r\n{}", request.cseq, request.method, request.extra));
        text.push_str(&format!("Content-Length: {}\r\n\r\n{}", request.body.len(), request.body));
        text
    }

    /// ACK of a 2xx, which is a request of its own (RFC 3261 §13.2.2.4).
    fn ack_text(&self, call: &Call, cseq: u32, flow: &Flow, branch: &str) -> String {
        let request = Request {
            method: "ACK",
            uri: call.target.clone(),
            to: format!("{};tag={}", call.remote, call.remote_tag),
            from: call.local.clone(),
            from_tag: call.local_tag.clone(),
            call_id: call.call_id.clone(),
            cseq,
            routes: call.routes.clone(),
            extra: String::new(),
            body: String::new(),
            client: None,
            challenged: 0,
            is_cancelled: false,
        };
        self.request_text(&request, flow, branch)
    }

    fn via(&self, flow: &Flow, branch: &str) -> String {
        let transport = flow.transport.via_token();
        format!("Via: SIP/2.0/{transport} {};rport;branch={branch}\r\n", self.address)
    }
}

/// Values of a header field as text.
pub(super) fn values(message: &Message<'_>, name: HeaderName) -> Vec<String> {
    message.values(name).map(text).collect()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Header line with credentials for the challenge in a 401 or 407; `None` without a supported challenge.
pub(super) fn answer(
    account: &Account,
    response: &Fields<'_>,
    method: &str,
    uri: &str,
    count: u32,
) -> Option<String> {
    let pairs = [
        (HeaderName::WwwAuthenticate, "Authorization"),
        (HeaderName::ProxyAuthenticate, "Proxy-Authorization"),
    ];
    for (asked, given) in pairs {
        for value in response.lines_of(asked) {
            let value = std::str::from_utf8(value).expect("our server writes text");
            let (realm, nonce) = (param(value, "realm")?, param(value, "nonce")?);
            let algorithm = param(value, "algorithm").unwrap_or_else(|| "MD5".into());
            let hash: fn(&str) -> String = match algorithm.as_str() {
                "MD5" => |text| hex(&Md5::digest(text)),
                "SHA-256" => |text| hex(&Sha256::digest(text)),
                _ => continue,
            };
            let ha1 = hash(&format!("{}:{realm}:{}", account.user, account.password));
            let ha2 = hash(&format!("{method}:{uri}"));
            let proof = hash(&format!("{ha1}:{nonce}:{count:08x}:cnonce:auth:{ha2}"));
            return Some(format!(
                "{given}: Digest username=\"{}\",realm=\"{realm}\",nonce=\"{nonce}\",uri=\"{uri}\",\
                 response=\"{proof}\",algorithm={algorithm},cnonce=\"cnonce\",qop=auth,nc={count:08x}\r\n",
                account.user
            ));
        }
    }
    None
}

/// Challenge of a phone that wants the credentials of its own account.
pub(super) fn challenge() -> String {
    format!("Digest realm=\"trunk\",nonce=\"{NONCE}\",algorithm=MD5,qop=\"auth\"")
}

/// True for a request with credentials of this account for that challenge.
pub(super) fn is_proven(account: &Account, request: &Message<'_>) -> bool {
    request.lines_of(HeaderName::ProxyAuthorization).any(|value| {
        let value = String::from_utf8_lossy(value);
        let given = |name| param(&value, name).unwrap_or_default();
        let hash = |text: String| hex(&Md5::digest(text));
        let ha1 = hash(format!("{}:trunk:{}", account.user, account.password));
        let method = String::from_utf8_lossy(request.method().as_bytes());
        let ha2 = hash(format!("{method}:{}", given("uri")));
        let proof = format!("{ha1}:{NONCE}:{}:{}:auth:{ha2}", given("nc"), given("cnonce"));
        given("response") == hash(proof)
    })
}

fn param(challenge: &str, name: &str) -> Option<String> {
    let params = challenge.strip_prefix("Digest ")?;
    params.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = unquote(trim(value.as_bytes()));
        (key.trim() == name).then(|| String::from_utf8_lossy(value).into_owned())
    })
}

/// Time until a caller cancels; longer than timer C of the server.
const PATIENCE: Duration = Duration::from_secs(210);
/// Nonce of the challenges.
const NONCE: &str = "nonce-of-the-trunk";

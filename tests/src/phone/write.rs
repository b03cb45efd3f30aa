//! Messages of a phone as text.

use super::{Call, Phone, Request};
use ringway_sansio::Flow;
use ringway_sip::{HeaderName, Message};

impl Phone {
    pub(super) fn request_text(&self, request: &Request, flow: &Flow, branch: &str) -> String {
        let mut text = format!("{} {} SIP/2.0\r\n", request.method, request.uri);
        text.push_str(&self.via(flow, branch));
        for route in &request.routes {
            text.push_str(&format!("Route: {route}\r\n"));
        }
        let (aor, tag) = (self.aor(), &request.from_tag);
        text.push_str(&format!("Max-Forwards: {}\r\nFrom: <{aor}>;tag={tag}\r\n", self.hops));
        text.push_str(&format!("To: {}\r\nCall-ID: {}\r\n", request.to, request.call_id));
        text.push_str(&format!("CSeq: {} {}\r\n{}", request.cseq, request.method, request.extra));
        text.push_str(&format!("Content-Length: {}\r\n\r\n{}", request.body.len(), request.body));
        text
    }

    /// ACK of a 2xx, which is a request of its own (RFC 3261 §13.2.2.4).
    pub(super) fn ack_text(&self, call: &Call, cseq: u32, flow: &Flow, branch: &str) -> String {
        let request = Request {
            method: "ACK",
            uri: call.target.clone(),
            to: format!("{};tag={}", call.remote, call.remote_tag),
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

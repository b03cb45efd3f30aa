//! Responses that leave no state: to messages that the parser rejects (RFC 3261 §16.3 step 1); their To tags (RFC 3261
//! §8.2.7).

use crate::via::reply_flow;
use core::hash::Hasher;
use ringway_sansio::{Flow, Outbox, PartHasher, Token};
use ringway_sip::{HeaderName, Message, MessageWriter, Rejected, Via, grammar};
use siphasher::sip::SipHasher13;

/// Answers a rejected request without a transaction. Responses, ACKs and requests without a Via are dropped. `flow` is
/// the flow of the request; `to_tag` is added if its To has no tag.
pub fn answer_rejected(rejected: &Rejected<'_>, flow: Flow, to_tag: &[u8], out: &mut Outbox) {
    let fields = &rejected.fields;
    let Some(via_line) = fields.first(HeaderName::Via) else { return };
    if fields.is_response() || fields.as_bytes().starts_with(b"ACK ") {
        return;
    }
    let via = Via::parse(grammar::split_value(via_line).0);
    let flow = via.map_or(flow, |via| reply_flow(&via, flow));
    let phrase = alloc::format!("{}", rejected.reason);
    let status = rejected.reason.status();
    out.send_with(flow, Token::NONE, |arena| {
        let response =
            MessageWriter::response(arena, fields, status, &phrase, Some(flow.remote), Some(to_tag));
        let _ = response.finish();
    });
}

/// The To tag of a response without a transaction. It follows from the request, so that a retransmitted request gets it again and
/// the ACK of the response is recognized.
pub fn to_tag(key: &[u8; 16], message: &Message<'_>) -> [u8; 16] {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    let (call_id, from_tag) = (message.call_id(), message.from().tag().unwrap_or_default());
    // Both are parts of one message and shorter than 65,536 bytes.
    let lengths = (call_id.len() as u64) << 16 | from_tag.len() as u64;
    hash.fixed(&(u64::from(message.cseq().number) << 32 | lengths).to_le_bytes());
    hash.bytes(call_id);
    hash.bytes(from_tag);
    ringway_sip::hex16(hash.hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use ringway_sansio::ListenerId;
    use ringway_sip::{Limits, Message};

    /// Destination and text of the response to `message`, which must lack mandatory header fields.
    fn answer(message: &str) -> Option<(String, String)> {
        let bytes = message.replace('\n', "\r\n").into_bytes();
        let rejected = Message::parse(&bytes, &Limits::default()).unwrap_err();
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), "192.0.2.1:40000".parse().unwrap());
        answer_rejected(&rejected, flow, b"t", &mut out);
        let (packet, bytes) = out.packets().next()?;
        Some((packet.flow.remote.to_string(), String::from_utf8(bytes.to_vec()).unwrap()))
    }

    #[test]
    fn only_requests_with_a_via_are_answered() {
        let (to, text) =
            answer("BYE sip:b@h SIP/2.0\nVia: SIP/2.0/UDP h:5070;branch=z9hG4bKa\nTo: <sip:b@h>\n\n")
                .unwrap();
        assert_eq!(to, "192.0.2.1:5070");
        assert!(text.starts_with("SIP/2.0 400 ") && text.contains("\r\nTo: <sip:b@h>;tag=t\r\n"), "{text}");
        for message in [
            "ACK sip:b@h SIP/2.0\nVia: SIP/2.0/UDP h;branch=z9hG4bKa\n\n",
            "SIP/2.0 200 OK\nVia: SIP/2.0/UDP h;branch=z9hG4bKa\n\n",
            "BYE sip:b@h SIP/2.0\nTo: <sip:b@h>\n\n",
        ] {
            assert_eq!(answer(message), None, "{message}");
        }
    }
}

//! To tags of responses that leave no state (RFC 3261 §8.2.7).

use core::hash::Hasher;
use ringway_sansio::PartHasher;
use ringway_sip::Message;
use siphasher::sip::SipHasher13;

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

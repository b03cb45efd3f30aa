//! Selection of the records that reach the handshake.
//!
//! Before the keys are agreed on, everybody who can send from the peer's address can forge records of epoch 0. `rtc-dtls`
//! ends the handshake at an alert, at application data and at a record that it cannot read. Such records are invalid
//! and are discarded silently (RFC 6347 §4.1.2.7). A refusal of the peer in epoch 0 therefore ends the handshake at its
//! deadline; alerts under the new keys are authenticated and still count.

/// The records of a datagram that may take part in a handshake: encrypted ones, handshake messages, and
/// ChangeCipherSpec. What follows a broken record is left out.
pub(crate) fn usable(datagram: &[u8]) -> Vec<u8> {
    let mut usable = Vec::with_capacity(datagram.len());
    let mut rest = datagram;
    while let Some((record, behind)) = split_record(rest) {
        if is_usable(record) {
            usable.extend_from_slice(record);
        }
        rest = behind;
    }
    usable
}

/// Splits the first record, with its header, from what follows it; `None` if it is not complete.
fn split_record(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let &[length_high, length_low] = datagram.get(LENGTH_AT..HEADER_BYTES)? else { return None };
    datagram.split_at_checked(HEADER_BYTES + usize::from(u16::from_be_bytes([length_high, length_low])))
}

fn is_usable(record: &[u8]) -> bool {
    let is_encrypted = record.get(3..5).is_some_and(|epoch| epoch != [0, 0]);
    let content = record.get(HEADER_BYTES..).unwrap_or_default();
    match record.first() {
        _ if is_encrypted => true,
        Some(&HANDSHAKE) => true,
        Some(&CHANGE_CIPHER_SPEC) => content == [1],
        Some(_) | None => false,
    }
}

/// Offset of the length in a record's header (RFC 6347 §4.1).
const LENGTH_AT: usize = 11;
const HEADER_BYTES: usize = 13;

/// Content types (RFC 5246 §6.2.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, epoch: u8, content: &[u8]) -> Vec<u8> {
        let header = [kind, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 9, 0, content.len() as u8];
        [&header, content].concat()
    }

    #[test]
    fn only_handshake_messages_and_encrypted_records_are_used() {
        let handshake = record(22, 0, &[1; 12]);
        let cipher = record(20, 0, &[1]);
        let encrypted_alert = record(21, 1, &[7; 30]);
        for used in [&handshake, &cipher, &encrypted_alert] {
            assert_eq!(&usable(used), used);
        }
        let alert = record(21, 0, &[2, 40]);
        for left_out in [alert.clone(), record(23, 0, &[7]), record(20, 0, &[2]), record(99, 0, &[1; 4])] {
            assert_eq!(usable(&left_out), []);
        }
        assert_eq!(
            usable(&[&alert[..], &handshake, &alert, &cipher].concat()),
            [handshake.clone(), cipher].concat()
        );
        assert_eq!(
            usable(&[&handshake[..], &encrypted_alert[..20]].concat()),
            handshake,
            "the second is cut off"
        );
        assert_eq!(usable(&[]), []);
    }
}

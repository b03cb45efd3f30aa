//! Contents of a client's plaintext flights, before they are processed: a worker processes only those whose cost has a bound.

/// True for one record with one ClientHello, and nothing after it (RFC 8446 §5.1, §4).
pub(crate) fn is_client_hello(bytes: &[u8]) -> bool {
    let [RECORD_HANDSHAKE, 3, _, high, low, CLIENT_HELLO, a, b, c, ..] = *bytes else { return false };
    let record = usize::from(u16::from_be_bytes([high, low]));
    let message = u32::from_be_bytes([0, a, b, c]) as usize;
    bytes.len() == record + 5 && record == message + 4
}

/// True if the bytes begin with a Certificate message of TLS 1.2 (RFC 5246 §7.4.2) with at most [`CERTIFICATES_MAX`]
/// certificates. A path of so few has some signatures at most, while a longer chain can have a hundred paths. A handshake has one
/// Certificate message, so it does not matter what follows.
pub(crate) fn has_few_certificates(bytes: &[u8]) -> bool {
    let [RECORD_HANDSHAKE, 3, _, high, low, ref record @ ..] = *bytes else { return false };
    let record = record.get(..usize::from(u16::from_be_bytes([high, low])));
    let message = record.and_then(|record| record.strip_prefix(&[CERTIFICATE])).and_then(prefixed);
    let Some((mut list, [])) = message.and_then(|(message, _)| prefixed(message)) else { return false };
    for _ in 0..CERTIFICATES_MAX {
        let Some((_, rest)) = prefixed(list) else { break };
        list = rest;
    }
    list.is_empty()
}

/// Splits off a vector with a length of 24 bits (RFC 8446 §3.4).
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let ([a, b, c], rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes([0, *a, *b, *c]) as usize)
}

/// True for the beginning of a TLS handshake record (RFC 8446 §5.1).
pub(crate) fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [RECORD_HANDSHAKE, 3, ..] | [RECORD_HANDSHAKE])
}

/// Record type (RFC 8446 §5.1), and message types (§4).
pub(crate) const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const CERTIFICATE: u8 = 11;
/// Number of certificates for which a worker has time: the client's, and one of an authority between.
const CERTIFICATES_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hello_is_alone_in_its_record() {
        let hello = [22, 3, 1, 0, 6, 1, 0, 0, 2, 9, 9];
        assert!(is_client_hello(&hello));
        assert!(!is_client_hello(&hello[..10]), "incomplete");
        assert!(!is_client_hello(&[&hello[..], &[22]].concat()), "something after it");
        let two = [22, 3, 1, 0, 8, 1, 0, 0, 2, 9, 9, 11, 0];
        assert!(!is_client_hello(&two), "another message in the record");
        assert!(!is_client_hello(&[22, 3, 1, 0, 6, 11, 0, 0, 2, 9, 9]), "a certificate");
    }

    /// A Certificate message with `count` certificates in a record of its own.
    fn certificates(count: u8) -> Vec<u8> {
        let list = [0, 0, 2, 9, 9].repeat(usize::from(count));
        let length = list.len() as u8;
        [&[22, 3, 3, 0, length + 7, 11, 0, 0, length + 3, 0, 0, length], list.as_slice()].concat()
    }

    #[test]
    fn few_certificates_are_counted_in_a_complete_message() {
        for (count, is_few) in [(0, true), (1, true), (2, true), (3, false), (9, false)] {
            assert_eq!(has_few_certificates(&certificates(count)), is_few, "{count}");
        }
        let two = certificates(2);
        assert!((0..two.len()).all(|end| !has_few_certificates(&two[..end])), "incomplete");
        assert!(has_few_certificates(&[two.as_slice(), &[22, 3, 3, 0, 9, 16]].concat()), "ClientKeyExchange");
        let mut one_record = [certificates(1), vec![16, 0, 0, 0]].concat();
        one_record[4] += 4;
        assert!(has_few_certificates(&one_record), "with the next message in its record");
        let mut other = certificates(1);
        other[5] = 16;
        assert!(!has_few_certificates(&other), "another message");
        let mut long = certificates(1);
        long[11] += 1;
        assert!(!has_few_certificates(&long), "a list that is longer than its message");
        let mut short = certificates(1);
        short[11] -= 1;
        assert!(!has_few_certificates(&short), "a list that is shorter than its message");
        assert!(!has_few_certificates(&[23, 3, 3, 0, 9, 11]), "an encrypted record");
    }
}

//! The vectors of RFC 5769, and truncated and modified messages.

use super::*;
use core::net::SocketAddr;
use ringway_sansio::{Entropy, Seed};

const REQUEST: &[u8] = include_bytes!("../../../testdata/stun/rfc5769-2.1.bin");
const RESPONSE_IPV4: &[u8] = include_bytes!("../../../testdata/stun/rfc5769-2.2.bin");
const RESPONSE_IPV6: &[u8] = include_bytes!("../../../testdata/stun/rfc5769-2.3.bin");
const REQUEST_LONG_TERM: &[u8] = include_bytes!("../../../testdata/stun/rfc5769-2.4.bin");

#[test]
fn the_check_value_of_crc_32() {
    assert_eq!(CRC32.checksum(b"123456789"), 0xcbf4_3926);
}

#[test]
fn the_sample_request_is_parsed() {
    let message = Message::parse(REQUEST).unwrap();
    assert_eq!((message.class(), message.is_binding()), (Class::Request, true));
    assert_eq!(
        message.id(),
        TransactionId([0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae])
    );
    assert_eq!(message.attribute(attribute::SOFTWARE), Some(&b"STUN test client"[..]));
    assert_eq!(message.attribute(attribute::USERNAME), Some(&b"evtj:h6vY"[..]));
    assert_eq!(message.unknown_required().count(), 0);
}

#[test]
fn the_sample_responses_give_their_addresses() {
    let message = Message::parse(RESPONSE_IPV4).unwrap();
    assert_eq!(message.class(), Class::Success);
    assert_eq!(message.xor_mapped_address(), "192.0.2.1:32853".parse().ok());
    assert_eq!((message.mapped_address(), message.unknown_required().count()), (None, 0));

    let message = Message::parse(RESPONSE_IPV6).unwrap();
    assert_eq!(message.xor_mapped_address(), "[2001:db8:1234:5678:11:2233:4455:6677]:32853".parse().ok());
}

#[test]
fn the_sample_request_with_long_term_credentials() {
    let message = Message::parse(REQUEST_LONG_TERM).unwrap();
    assert_eq!(message.attribute(attribute::USERNAME), Some("マトリックス".as_bytes()));
    assert_eq!(message.attribute(attribute::REALM), Some(&b"example.org"[..]));
}

#[test]
fn one_flipped_bit_is_detected_by_the_fingerprint() {
    for bit in 0..RESPONSE_IPV4.len() * 8 {
        let mut bytes = RESPONSE_IPV4.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // If the message is still valid, the flipped bit has hidden FINGERPRINT.
        let fingerprint = |message: Message<'_>| message.attribute(attribute::FINGERPRINT).is_some();
        assert!(!Message::parse(&bytes).is_ok_and(fingerprint), "bit {bit}");
    }
}

#[test]
fn every_truncation_is_rejected() {
    for whole in [REQUEST, RESPONSE_IPV4, RESPONSE_IPV6, REQUEST_LONG_TERM] {
        for end in 0..whole.len() {
            assert!(Message::parse(&whole[..end]).is_err(), "{end}");
        }
        assert_eq!(Message::parse(&[whole, &[0; 4]].concat()).err(), Some(StunError::Length));
    }
}

#[test]
fn random_bytes_never_panic_and_are_hardly_ever_a_message() {
    let mut entropy = Entropy::new(&Seed::from_number(1));
    for length in 0..300 {
        let mut bytes = alloc::vec![0; length];
        entropy.fill(&mut bytes);
        assert!(Message::parse(&bytes).is_err());
        // The same with a valid header, so that the attributes are parsed.
        if length >= 20 && length % 4 == 0 {
            bytes[..8].copy_from_slice(&[1, 1, 0, (length - 20) as u8, 0x21, 0x12, 0xa4, 0x42]);
            bytes[2] = ((length - 20) >> 8) as u8;
            if let Ok(message) = Message::parse(&bytes) {
                let _ =
                    (message.xor_mapped_address(), message.error_code(), message.unknown_required().count());
            }
        }
    }
}

#[test]
fn attributes_after_the_integrity_are_ignored_and_none_may_follow_the_fingerprint() {
    let id = TransactionId([7; 12]);
    let mut bytes = MessageWriter::new(Class::Success, METHOD_BINDING, id).finish();
    bytes.extend_from_slice(&[0, 8, 0, 20]);
    bytes.extend_from_slice(&[0; 20]);
    bytes.extend_from_slice(&[0, 1, 0, 8, 0, 1, 3, 232, 192, 0, 2, 9]);
    bytes[3] = (bytes.len() - 20) as u8;
    let message = Message::parse(&bytes).unwrap();
    assert!(message.attribute(attribute::MESSAGE_INTEGRITY).is_some());
    assert_eq!(message.mapped_address(), None);

    let mut bytes = MessageWriter::new(Class::Success, METHOD_BINDING, id).finish_with_fingerprint();
    bytes.extend_from_slice(&[0x80, 0x22, 0, 0]);
    bytes[3] += 4;
    assert!(matches!(Message::parse(&bytes), Err(StunError::Fingerprint | StunError::Attribute)));
}

#[test]
fn a_written_message_is_parsed_again() {
    let id = TransactionId([0xa5; 12]);
    for address in ["192.0.2.1:1", "[2001:db8::1]:65535"] {
        let address: SocketAddr = address.parse().unwrap();
        let bytes = MessageWriter::new(Class::Success, METHOD_BINDING, id)
            .mapped_address(address)
            .xor_mapped_address(address)
            .finish_with_fingerprint();
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.class(), message.method(), message.id()), (Class::Success, METHOD_BINDING, id));
        assert_eq!(message.mapped_address(), Some(address));
        assert_eq!(message.xor_mapped_address(), Some(address));
    }
    let bytes =
        MessageWriter::new(Class::Error, METHOD_BINDING, id).error_code(420, "Unknown Attribute").finish();
    let message = Message::parse(&bytes).unwrap();
    assert_eq!(message.error_code(), Some((420, &b"Unknown Attribute"[..])));
    let all_methods = [0, 1, 2, 0x7f, 0x80, 0xfff];
    for (class, method) in [Class::Request, Class::Indication, Class::Success, Class::Error]
        .into_iter()
        .flat_map(|class| all_methods.map(|method| (class, method)))
    {
        let bytes = MessageWriter::new(class, method, id).finish();
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.class(), message.method()), (class, method));
    }
}

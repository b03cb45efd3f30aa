//! Tests of the server's answers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use alloc::vec::Vec;

const ID: TransactionId = TransactionId(*b"abcdefghijkl");

fn answer(request: &[u8], source: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let result = write_answer(request, source.parse().unwrap(), &mut out);
    assert_eq!(result.is_err(), out.is_empty());
    result.ok().map(|()| out)
}

fn request() -> MessageWriter {
    MessageWriter::new(Class::Request, METHOD_BINDING, ID)
}

#[test]
fn a_binding_request_gets_its_address() {
    for (source, longer) in [("198.51.100.7:31337", 12), ("[2001:db8::7]:1", 24)] {
        for with_fingerprint in [false, true] {
            let request = match with_fingerprint {
                true => request().finish_with_fingerprint(),
                false => request().finish(),
            };
            let bytes = answer(&request, source).unwrap();
            assert_eq!(bytes.len(), request.len() + longer);
            let message = Message::parse(&bytes).unwrap();
            assert_eq!((message.class(), message.id()), (Class::Success, ID));
            assert_eq!(message.xor_mapped_address(), Some(source.parse().unwrap()));
            assert_eq!(message.attribute(attribute::FINGERPRINT).is_some(), with_fingerprint);
        }
    }
}

#[test]
fn an_unknown_required_attribute_gets_420() {
    let request = request().attribute(0x7f01, b"abc").attribute(0x8001, b"abc").finish();
    let bytes = answer(&request, "198.51.100.7:31337").unwrap();
    let message = Message::parse(&bytes).unwrap();
    assert_eq!(message.error_code(), Some((420, &b""[..])));
    assert_eq!(message.attribute(attribute::UNKNOWN_ATTRIBUTES), Some(&[0x7f, 0x01][..]));
    assert!(bytes.len() <= request.len() + 8);
}

#[test]
fn an_answer_is_at_most_24_bytes_longer_than_its_request() {
    for count in 0..300_u16 {
        let request = (0..count).fold(request(), |request, kind| request.attribute(0x4000 + kind, b""));
        let request = request.finish();
        let bytes = answer(&request, "[2001:db8::7]:1").unwrap();
        assert!(bytes.len() <= request.len() + 24, "{} for {}", bytes.len(), request.len());
    }
}

#[test]
fn responses_indications_and_other_bytes_get_no_answer() {
    let source = "198.51.100.7:31337";
    for class in [Class::Indication, Class::Success, Class::Error] {
        assert_eq!(answer(&MessageWriter::new(class, METHOD_BINDING, ID).finish(), source), None);
    }
    assert_eq!(
        answer(&MessageWriter::new(Class::Request, 0x003, ID).finish(), source),
        None,
        "TURN's Allocate"
    );
    let request = request().finish();
    for len in 0..request.len() {
        assert_eq!(answer(&request[..len], source), None, "{len}");
    }
    for bytes in [&b"\r\n\r\n"[..], b"\0", &[0; 20], &[0xff; 20]] {
        assert_eq!(answer(bytes, source), None);
    }
}

//! All vectors of `testdata/srtp/vectors.json`, and RFC 7714 §16 and §17.
//!
//! Tested: key derivation, key streams, whole packets both ways, MKI, session keys given directly, SRTCP.
//! F8 and encrypted header extensions (RFC 6904) are not implemented; this file
//! checks their vectors with AES and the key derivation, and the packet of the latter then with the real
//! sender.

use crate::key::tests::of_session_keys;
use crate::transforms::tests::derive_any;
use crate::transforms::{AesCounter, SessionKeys};
use crate::*;
use aes::Aes128Enc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ctr::cipher::{BlockCipherEncrypt, KeyInit};
use ringway_sdp::{CryptoSuite, MasterKey};
use serde_json::Value;

const VECTORS: &str = include_str!("../../../testdata/srtp/vectors.json");

fn vectors(kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(VECTORS).unwrap();
    all[kind].as_array().unwrap().clone()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    base16ct::mixed::decode_vec(digits).unwrap()
}

fn field(vector: &Value, name: &str) -> Vec<u8> {
    hex(vector[name].as_str().unwrap_or_else(|| panic!("{name} of {vector}")))
}

fn name(vector: &Value) -> String {
    String::from(vector["name"].as_str().unwrap())
}

/// Counter-mode suite with this key length.
fn counter_mode(key: &[u8]) -> CryptoSuite {
    match key.len() {
        16 => CryptoSuite::AesCm128HmacSha1_80,
        24 => CryptoSuite::AesCm192HmacSha1_80,
        _ => CryptoSuite::AesCm256HmacSha1_80,
    }
}

fn master(vector: &Value) -> (CryptoSuite, MasterKey) {
    let (key, salt) = (field(vector, "master_key"), field(vector, "master_salt"));
    let suite = if salt.len() == 12 { CryptoSuite::AeadAes128Gcm } else { counter_mode(&key) };
    let mki = vector["mki"].as_str().map(hex).unwrap_or_default();
    (suite, MasterKey { key, salt, lifetime_packets: None, mki })
}

#[test]
fn session_keys_are_derived() {
    let vectors = vectors("kdf");
    assert_eq!(vectors.len(), 9);
    for vector in &vectors {
        let (suite, master) = master(vector);
        let label = u8::try_from(vector["label"].as_u64().unwrap()).unwrap();
        let expected = field(vector, "value");
        let mut derived = vec![0; expected.len()];
        derive_any(suite, &master.key, &master.salt, label, &mut derived);
        assert_eq!(derived, expected, "{}", name(vector));
        let keys = SessionKeys::derive(suite, &master, crate::transforms::Labels::RTP).unwrap();
        let part: &[u8] = match label {
            0 => &keys.encryption,
            1 => &keys.authentication,
            _ => &keys.salt,
        };
        let common = part.len().min(expected.len());
        assert_eq!(part[..common], expected[..common], "{}", name(vector));
    }
}

#[test]
fn key_streams_are_right() {
    let vectors = vectors("keystream");
    assert_eq!(vectors.len(), 18);
    for vector in &vectors {
        let key = field(vector, "session_key");
        let counter = u128::from_be_bytes(field(vector, "counter_block").try_into().unwrap());
        let mut stream = [0; 16];
        AesCounter::new(counter_mode(&key), &key).unwrap().apply(counter, &mut stream);
        assert_eq!(stream[..], field(vector, "keystream"), "{}", name(vector));
    }
}

/// The key stream of a vector's first counter block includes those of all blocks that follow.
#[test]
fn a_key_stream_counts_its_blocks_over_a_whole_packet() {
    let key = hex("2b7e151628aed2a6abf7158809cf4f3c");
    let cipher = AesCounter::new(CryptoSuite::AesCm128HmacSha1_80, &key).unwrap();
    let first = u128::from_be_bytes(hex("f0f1f2f3f4f5f6f7f8f9fafbfcfd0000").try_into().unwrap());
    let mut stream = vec![0; 16 * 0xff02];
    cipher.apply(first, &mut stream);
    for vector in vectors("keystream").iter().filter(|vector| field(vector, "session_key") == key) {
        let counter = u128::from_be_bytes(field(vector, "counter_block").try_into().unwrap());
        let at = usize::try_from(counter - first).unwrap() * 16;
        assert_eq!(stream[at..at + 16], field(vector, "keystream"), "{}", name(vector));
    }
}

#[test]
fn packets_are_protected_and_unprotected() {
    let vectors = vectors("packets");
    assert_eq!(vectors.len(), 10);
    for vector in &vectors {
        match (vector["rtp"].as_str(), vector["session_key"].as_str()) {
            _ if name(vector).contains("RFC6904") => {}
            (Some(_), None) => check_rtp(vector),
            (Some(_), Some(_)) => check_session_key(vector),
            (None, _) => check_rtcp(vector),
        }
    }
}

fn check_rtp(vector: &Value) {
    let (suite, key) = master(vector);
    let (rtp, srtp) = (field(vector, "rtp"), field(vector, "srtp"));
    let mut sender = SrtpSender::new(suite, &key).unwrap();
    let mut receiver = SrtpReceiver::new(suite, &key).unwrap();
    let mut packet = rtp.clone();
    packet.resize(rtp.len() + SrtpSender::OVERHEAD_BYTES_MAX, 0xee);
    let len = sender.protect_rtp(&mut packet, rtp.len()).unwrap();
    assert_eq!(packet[..len], srtp, "{}", name(vector));
    let len = receiver.unprotect_rtp(&mut packet[..len]).unwrap();
    assert_eq!(packet[..len], rtp, "{}", name(vector));
}

fn check_rtcp(vector: &Value) {
    let (suite, key) = master(vector);
    let (rtcp, srtcp) = (field(vector, "rtcp"), field(vector, "srtcp"));
    let mut sender = SrtpSender::new(suite, &key).unwrap();
    let mut receiver = SrtpReceiver::new(suite, &key).unwrap();
    let mut packet = rtcp.clone();
    packet.resize(rtcp.len() + SrtpSender::OVERHEAD_BYTES_MAX, 0xee);
    // The vector has index 1, which is a sender's second packet.
    sender.protect_rtcp(&mut packet.clone(), rtcp.len()).unwrap();
    let len = sender.protect_rtcp(&mut packet, rtcp.len()).unwrap();
    assert_eq!(packet[..len], srtcp, "{}", name(vector));
    let len = receiver.unprotect_rtcp(&mut packet[..len]).unwrap();
    assert_eq!(packet[..len], rtcp, "{}", name(vector));
}

/// Contexts with a given session key: the vectors of RFC 7714 give it instead of the master key.
fn session(suite: CryptoSuite, key: &[u8], rtcp_index: u64) -> (SrtpSender, SrtpReceiver) {
    let mut keys = SessionKeys { encryption: [0; 32], authentication: [0; 20], salt: [0; 14] };
    keys.encryption[..key.len()].copy_from_slice(key);
    keys.salt[..12].copy_from_slice(&hex("517569642070726f2071756f"));
    let some = MasterKey { key: key.into(), salt: vec![0; 12], lifetime_packets: None, mki: vec![] };
    let mut sender = SrtpSender::new(suite, &some).unwrap();
    let mut receiver = SrtpReceiver::new(suite, &some).unwrap();
    sender.set_key(of_session_keys(suite, &keys));
    sender.set_next_rtcp_index(RTCP_SSRC, rtcp_index);
    receiver.set_key(of_session_keys(suite, &keys));
    (sender, receiver)
}

/// SSRC of the packet in RFC 7714 §17.
const RTCP_SSRC: u32 = 0x4d61_7273;

fn check_session_key(vector: &Value) {
    let key = field(vector, "session_key");
    let suite = if key.len() == 16 { CryptoSuite::AeadAes128Gcm } else { CryptoSuite::AeadAes256Gcm };
    let (mut sender, mut receiver) = session(suite, &key, 0);
    let (rtp, srtp) = (field(vector, "rtp"), field(vector, "srtp"));
    let mut packet = rtp.clone();
    packet.resize(rtp.len() + 16, 0);
    assert_eq!(sender.protect_rtp(&mut packet, rtp.len()), Ok(srtp.len()), "{}", name(vector));
    assert_eq!(packet, srtp, "{}", name(vector));
    assert_eq!(receiver.unprotect_rtp(&mut packet), Ok(rtp.len()), "{}", name(vector));
    assert_eq!(packet[..rtp.len()], rtp, "{}", name(vector));
}

/// RFC 7714 §17.1 and §17.2: 128 and 256 bits.
#[test]
fn rtcp_of_rfc_7714_is_protected_and_unprotected() {
    let key = hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
    let rtcp = hex("81c8000d 4d617273 4e545031 4e545032 52545020 0000042a 0000e930 4c756e61
        deadbeef deadbeef deadbeef deadbeef deadbeef");
    let cases = [
        (
            CryptoSuite::AeadAes128Gcm,
            "81c8000d 4d617273 63e94885 dcdab67c a727d766 2f6b7e99 7ff5c0f7 6c06f32d
            c676a5f1 730d6fda 4ce09b46 86303ded 0bb9275b c84aa458 96cf4d2f c5abf872 45d9eade 800005d4",
        ),
        (
            CryptoSuite::AeadAes256Gcm,
            "81c8000d 4d617273 d50ae4d1 f5ce5d30 4ba297e4 7d470c28 2c3ece5d bffe0a50
            a2eaa5c1 110555be 8415f658 c61de047 6f1b6fad 1d1eb30c 4446839f 57ff6f6c b26ac3be 800005d4",
        ),
    ];
    for (suite, srtcp) in cases {
        let (mut sender, mut receiver) = session(suite, &key[..suite.key_bytes()], 0x5d4);
        let mut packet = rtcp.clone();
        packet.resize(rtcp.len() + 20, 0);
        assert_eq!(sender.protect_rtcp(&mut packet, rtcp.len()), Ok(rtcp.len() + 20));
        assert_eq!(packet, hex(srtcp), "{suite:?}");
        assert_eq!(receiver.unprotect_rtcp(&mut packet), Ok(rtcp.len()));
        assert_eq!(packet[..rtcp.len()], rtcp, "{suite:?}");
    }
}

/// RFC 6904: the test encrypts the elements 1, 3 and 4 with keys of the labels 6 and 7; the sender does the
/// rest.
#[test]
fn an_encrypted_header_extension_is_authenticated_as_it_is() {
    let vectors = vectors("packets");
    let vector = vectors.iter().find(|vector| name(vector).contains("RFC6904")).unwrap();
    let (suite, key) = master(vector);
    let (mut packet, srtp) = (field(vector, "rtp"), field(vector, "srtp"));
    let (mut extension_key, mut extension_salt) = ([0; 16], [0; 14]);
    derive_any(suite, &key.key, &key.salt, 6, &mut extension_key);
    derive_any(suite, &key.key, &key.salt, 7, &mut extension_salt);
    let mut block = [0; 16];
    block[..14].copy_from_slice(&extension_salt);
    // SSRC cafebabe, index 1234.
    let counter = u128::from_be_bytes(block) ^ (0xcafe_babe << 64) ^ (0x1234 << 16);
    let elements = 16..16 + 4 * usize::from(packet[15]);
    let mut stream = vec![0; elements.len()];
    AesCounter::new(suite, &extension_key).unwrap().apply(counter, &mut stream);
    let mut at = 0;
    while at < elements.len() {
        let (id, len) =
            (packet[elements.start + at] >> 4, 1 + usize::from(packet[elements.start + at] & 0x0f));
        if id == 0 {
            at += 1;
            continue;
        }
        for position in at + 1..at + 1 + len {
            if [1, 3, 4].contains(&id) {
                packet[elements.start + position] ^= stream[position];
            }
        }
        at += 1 + len;
    }
    let len = packet.len();
    packet.resize(len + 10, 0);
    SrtpSender::new(suite, &key).unwrap().protect_rtp(&mut packet, len).unwrap();
    assert_eq!(packet, srtp);
}

/// RFC 3711 §4.1.2, implemented in this test only: no supported suite uses F8.
#[test]
fn the_f8_vector_follows_from_aes() {
    for vector in vectors("f8") {
        let (key, salt) = (field(&vector, "key"), field(&vector, "salt"));
        let encrypt = |key: &[u8], block: [u8; 16]| -> [u8; 16] {
            let mut block = block.into();
            Aes128Enc::new_from_slice(key).unwrap().encrypt_block(&mut block);
            block.into()
        };
        let xor = |a: [u8; 16], b: [u8; 16]| (u128::from_be_bytes(a) ^ u128::from_be_bytes(b)).to_be_bytes();
        // IV' is the IV encrypted under the key XORed with the salt, padded with 0x55.
        let mut mask = [0x55; 16];
        mask[..salt.len()].copy_from_slice(&salt);
        let masked = xor(key.clone().try_into().unwrap(), mask);
        // IV: a zero byte, the header without its first byte, the rollover counter.
        let mut iv = [0; 16];
        iv[1..12].copy_from_slice(&field(&vector, "rtp_header")[1..]);
        iv[12..].copy_from_slice(&field(&vector, "roc"));
        let iv = encrypt(&masked, iv);
        let mut text = field(&vector, "payload");
        let mut last = [0; 16];
        for (number, chunk) in (0u128..).zip(text.chunks_mut(16)) {
            last = encrypt(&key, xor(xor(last, iv), number.to_be_bytes()));
            chunk.iter_mut().zip(last).for_each(|(byte, stream)| *byte ^= stream);
        }
        assert_eq!(text, field(&vector, "ciphertext"));
    }
}

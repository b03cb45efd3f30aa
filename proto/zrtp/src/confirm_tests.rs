//! Cipher feedback of NIST SP 800-38A, and modified Confirms.

use super::*;
use crate::algorithm::{Algorithms, Chosen, CipherType};
use crate::secrets::{KdfInput, Role, SessionKeys};

fn bytes(hex: &str) -> Vec<u8> {
    base16ct::mixed::decode_vec(hex).unwrap()
}

fn keys(cipher: CipherType) -> SessionKeys {
    let chosen = Chosen { cipher, ..Chosen::from_lists(&Algorithms::default(), &Algorithms::default()) };
    SessionKeys::derive(&KdfInput {
        chosen,
        dh_result: &[1; 32],
        zid_initiator: [2; 12],
        zid_responder: [3; 12],
        messages: [b"hello", b"commit", b"part1", b"part2"],
        s1: None,
    })
}

const CONFIRM: Confirm =
    Confirm { h0: [0x42; 32], sas_verified: true, discloses: false, cache_interval_s: 0x0102_0304 };

#[test]
fn the_vectors_of_sp_800_38a_f_3_13_to_f_3_18() {
    let iv: [u8; 16] = core::array::from_fn(|index| index as u8);
    let plain = bytes(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
    );
    let vectors = [
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b\
             26751f67a3cbb140b1808cf187a4f4dfc04b05357c5d1c0eeac4c66f9ff7f2e6",
        ),
        (
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "cdc80d6fddf18cab34c25909c99a417467ce7f7f81173621961a2b70171d3d7a\
             2e1e8a1dd59b88b1c8e60fed1efac4c9c05f9f9ca9834fa042ae8fba584b09ff",
        ),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "dc7e84bfda79164b7ecd8486985d386039ffed143b28b1c832113c6331e5407b\
             df10132415e54b92a13ed0a8267ae2f975a385741ab9cef82031623d55b1e471",
        ),
    ];
    for (key, expected) in vectors {
        for length in [64, 40, 16, 1, 0] {
            let mut text = plain[..length].to_vec();
            cfb(&bytes(key), iv, &mut text, Feedback::Written);
            assert_eq!(text, bytes(expected)[..length]);
            cfb(&bytes(key), iv, &mut text, Feedback::Read);
            assert_eq!(text, plain[..length]);
        }
    }
}

#[test]
fn a_confirm_has_19_words_and_is_parsed_with_the_keys() {
    for cipher in [CipherType::Aes1, CipherType::Aes2, CipherType::Aes3] {
        let keys = keys(cipher);
        let ends = [keys.of(Role::Initiator), keys.of(Role::Responder)];
        let message = CONFIRM.write(MessageType::Confirm1, HashType::S256, ends[0], [7; 16]);
        assert_eq!((message.len(), message[3]), (76, 19));
        assert_eq!(Confirm::parse(&message, HashType::S256, ends[0]), Some(CONFIRM));
        assert_eq!(Confirm::parse(&message, HashType::S256, ends[1]), None);
        assert!(!message.windows(32).any(|window| window == [0x42; 32]), "H0 is hidden");
    }
}

#[test]
fn a_modified_confirm_is_rejected_or_has_another_h0() {
    let keys = keys(CipherType::Aes1);
    let end = keys.of(Role::Initiator);
    let message = CONFIRM.write(MessageType::Confirm2, HashType::S256, end, [7; 16]);
    for bit in 12 * 8..message.len() * 8 {
        let mut changed = message.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        // The MAC does not cover the initialisation vector (bytes 20 to 35); changing it changes H0.
        let read = Confirm::parse(&changed, HashType::S256, end);
        assert!(read.is_none_or(|read| (20..36).contains(&(bit / 8)) && read.h0 != CONFIRM.h0), "bit {bit}");
    }
    for end_at in 0..message.len() {
        assert_eq!(Confirm::parse(&message[..end_at], HashType::S256, end), None);
    }
}

/// A Confirm whose signature length field is `said` words and whose signature has `sent` bytes.
fn signed(end: &EndKeys, said: u16, sent: usize) -> Vec<u8> {
    let [high, low] = said.to_be_bytes();
    let mut text = [&CONFIRM.h0[..], &[0xff, 0xfe | high, low, FLAG_VERIFIED | 0xf0], &[1, 2, 3, 4]].concat();
    text.resize(text.len() + sent, 0x55);
    cfb(&end.zrtp, [7; 16], &mut text, Feedback::Written);
    let mac: [u8; 8] = HashType::S256.mac(&end.mac, &[&text]).leftmost();
    write_message(MessageType::Confirm1, &[&mac, &[7; 16], &text])
}

#[test]
fn a_signature_is_ignored_and_its_length_must_match() {
    let keys = keys(CipherType::Aes3);
    let end = keys.of(Role::Responder);
    for words in [0, 1, 255, 256, 511] {
        let parse = |sent| Confirm::parse(&signed(end, words, sent), HashType::S256, end);
        let expected = Confirm { discloses: false, ..CONFIRM };
        assert_eq!(parse(usize::from(words) * 4), Some(expected), "unused bits are ignored too");
        assert_eq!(parse(usize::from(words) * 4 + 4), None);
    }
}

#[test]
fn a_go_clear_is_authenticated_by_its_mac() {
    let keys = keys(CipherType::Aes1);
    let end = keys.of(Role::Initiator);
    let mac: [u8; 8] = HashType::S256.mac(&end.mac, &[b"GoClear "]).leftmost();
    let message = write_message(MessageType::GoClear, &[&mac]);
    assert_eq!(message.len(), 20);
    assert!(is_go_clear(&message, HashType::S256, end));
    assert!(!is_go_clear(&message, HashType::S256, keys.of(Role::Responder)));
    assert!(!is_go_clear(&message[..16], HashType::S256, end));
}

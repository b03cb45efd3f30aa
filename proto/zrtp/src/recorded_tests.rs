//! Two recorded calls with another implementation: packets, results of Diffie-Hellman, and the string that
//! both ends displayed.

use crate::algorithm::{Algorithms, AuthTag, CipherType, HashType, KeyAgreement, SasType};
use crate::confirm::Confirm;
use crate::hash::sha256;
use crate::message::{Commit, DhPart, Hello, is_sealed_with};
use crate::packet::{MessageType, Packet};
use crate::sas::render;
use crate::secrets::{KdfInput, Role, SessionKeys};
use alloc::vec::Vec;

struct Recorded(&'static str);

impl Recorded {
    fn field(&self, name: &str) -> &'static str {
        let field = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        field.unwrap_or_else(|| panic!("no {name}"))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        base16ct::mixed::decode_vec(self.field(name)).unwrap()
    }

    /// The message of a packet with a valid CRC.
    fn message(&self, name: &str, kind: MessageType) -> Vec<u8> {
        let bytes = self.bytes(name);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.kind, kind);
        packet.message.to_vec()
    }
}

/// Recomputes a call from its messages as the opposite of `peer`.
fn replay(recorded: &Recorded, peer: Role) -> Commit {
    let hello = recorded.message("hello_responder", MessageType::Hello);
    let commit_message = recorded.message("commit", MessageType::Commit);
    let part1_message = recorded.message("dhpart1", MessageType::DhPart1);
    let part2_message = recorded.message("dhpart2", MessageType::DhPart2);
    let responder = Hello::parse(&hello).unwrap();
    let commit = Commit::parse(&commit_message, &Algorithms::default().completed()).unwrap();
    let part1 = DhPart::parse(&part1_message, commit.chosen.key_agreement).unwrap();
    let part2 = DhPart::parse(&part2_message, commit.chosen.key_agreement).unwrap();

    assert_eq!(sha256(&[&part2.h1]), commit.h2);
    assert!(is_sealed_with(&part2.h1, &commit_message));
    let h2 = sha256(&[&part1.h1]);
    assert_eq!(sha256(&[&h2]), responder.h3);
    assert!(is_sealed_with(&h2, &hello));
    assert_eq!(commit.chosen.hash.digest(&[&part2_message, &hello]).leftmost::<32>(), commit.hvi);

    let keys = SessionKeys::derive(&KdfInput {
        chosen: commit.chosen,
        dh_result: &recorded.bytes("dh_result"),
        zid_initiator: commit.zid,
        zid_responder: responder.zid,
        messages: [&hello, &commit_message, &part1_message, &part2_message],
        s1: None,
    });
    assert_eq!(render(commit.chosen.sas, keys.sas_value), recorded.field("sas"));
    let (kind, h1, part) = match peer {
        Role::Responder => (MessageType::Confirm1, part1.h1, &part1_message),
        Role::Initiator => (MessageType::Confirm2, part2.h1, &part2_message),
    };
    let confirm =
        Confirm::parse(&recorded.message("confirm", kind), commit.chosen.hash, keys.of(peer)).unwrap();
    assert_eq!(sha256(&[&confirm.h0]), h1);
    assert!(is_sealed_with(&confirm.h0, part));
    assert!(!confirm.sas_verified && !confirm.discloses);
    commit
}

#[test]
fn a_call_that_we_initiated_with_aes_256() {
    let recorded = Recorded(include_str!("../../../testdata/zrtp/bzrtp-responder.txt"));
    let chosen = replay(&recorded, Role::Responder).chosen;
    assert_eq!((chosen.key_agreement, chosen.cipher), (KeyAgreement::Dh3k, CipherType::Aes3));
    assert_eq!((chosen.hash, chosen.auth_tag), (HashType::S256, AuthTag::Hs80));
}

#[test]
fn a_call_that_the_peer_initiated_with_aes_128() {
    let recorded = Recorded(include_str!("../../../testdata/zrtp/bzrtp-initiator.txt"));
    let chosen = replay(&recorded, Role::Initiator).chosen;
    assert_eq!((chosen.key_agreement, chosen.cipher), (KeyAgreement::Dh3k, CipherType::Aes1));
    assert_eq!(chosen.sas, SasType::B32);
}

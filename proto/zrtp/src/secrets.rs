//! Key schedule: s1, s0 and the keys derived from s0 (RFC 6189 §4.3 to §4.5).

use crate::algorithm::{Chosen, HashType};
use crate::cache::{Retained, Zid};
use crate::event::Continuity;
use crate::hash::{Digest, is_equal};
use crate::message::SecretIds;
use alloc::vec::Vec;
use ringway_sansio::Entropy;
use ringway_sdp::MasterKey;

/// Role of an end in the agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

impl Role {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Initiator => "Initiator",
            Self::Responder => "Responder",
        }
    }
}

/// Identifiers that we send in `role` for the retained secrets of the peer. A missing secret gets a random
/// identifier, so that an eavesdropper cannot see which secrets exist (RFC 6189 §4.3). Auxiliary and PBX
/// secrets are always missing.
pub(crate) fn secret_ids(
    hash: HashType,
    role: Role,
    retained: Option<&Retained>,
    entropy: &mut Entropy,
) -> SecretIds {
    let mut id = |secret: Option<&[u8; 32]>| match secret {
        Some(secret) => secret_id(hash, role, secret),
        None => entropy.bytes(),
    };
    SecretIds {
        rs1: id(retained.map(|retained| &retained.rs1)),
        rs2: id(retained.and_then(|retained| retained.rs2.as_ref())),
        aux: id(None),
        pbx: id(None),
    }
}

/// s1: the initiator's newest secret that the responder has too (RFC 6189 §4.3). `ids` are the peer's.
pub(crate) fn common_secret<'a>(
    hash: HashType,
    peer_role: Role,
    retained: &'a Retained,
    ids: &SecretIds,
) -> Option<&'a [u8; 32]> {
    let ours = || [Some(&retained.rs1), retained.rs2.as_ref()].into_iter().flatten();
    let fits = |secret: &[u8; 32], id: &[u8; 8]| is_equal(&secret_id(hash, peer_role, secret), id);
    match peer_role {
        Role::Responder => ours().find(|secret| fits(secret, &ids.rs1) || fits(secret, &ids.rs2)),
        Role::Initiator => {
            [&ids.rs1, &ids.rs2].into_iter().find_map(|id| ours().find(|secret| fits(secret, id)))
        }
    }
}

/// Continuity that follows from the search for a common secret.
pub(crate) fn continuity(is_expected: bool, is_common: bool) -> Continuity {
    match (is_common, is_expected) {
        (true, _) => Continuity::Continued,
        (false, true) => Continuity::Broken,
        (false, false) => Continuity::FirstCall,
    }
}

fn secret_id(hash: HashType, role: Role, secret: &[u8; 32]) -> [u8; 8] {
    hash.mac(secret, &[role.label().as_bytes()]).leftmost()
}

/// Input of the computation of s0 (RFC 6189 §4.4.1.4).
pub(crate) struct KdfInput<'a> {
    pub(crate) chosen: Chosen,
    pub(crate) dh_result: &'a [u8],
    pub(crate) zid_initiator: Zid,
    pub(crate) zid_responder: Zid,
    /// Hello of the responder, Commit, DHPart1, DHPart2.
    pub(crate) messages: [&'a [u8]; 4],
    pub(crate) s1: Option<&'a [u8; 32]>,
}

/// Keys derived from s0, which is erased by then. Erased when dropped.
pub(crate) struct SessionKeys {
    initiator: EndKeys,
    responder: EndKeys,
    /// SAS hash, truncated to the 32 bits of the SAS value.
    pub(crate) sas_value: [u8; 4],
    /// Secret to retain.
    pub(crate) rs1: Digest,
}

pub(crate) struct EndKeys {
    /// MAC key of Confirm, GoClear and SASrelay.
    pub(crate) mac: Digest,
    /// Cipher key of Confirm and SASrelay.
    pub(crate) zrtp: Digest,
    srtp_key: Digest,
    srtp_salt: Digest,
}

impl EndKeys {
    /// Master key of the SRTP that this end sends: no MKI, the suite's maximum lifetime (RFC 6189 §4.5.3).
    pub(crate) fn master_key(&self) -> MasterKey {
        MasterKey {
            key: self.srtp_key.to_vec(),
            salt: self.srtp_salt.to_vec(),
            lifetime_packets: None,
            mki: Vec::new(),
        }
    }
}

impl SessionKeys {
    pub(crate) fn derive(from: &KdfInput<'_>) -> Self {
        let hash = from.chosen.hash;
        let total_hash = hash.digest(&from.messages);
        let s1: &[u8] = from.s1.map_or(&[], |secret| secret);
        let s1_length = (s1.len() as u32).to_be_bytes();
        let absent = [0; 4];
        let s0 = hash.digest(&[
            &[0, 0, 0, 1],
            from.dh_result,
            b"ZRTP-HMAC-KDF",
            &from.zid_initiator,
            &from.zid_responder,
            &total_hash,
            &s1_length,
            s1,
            &absent,
            &absent,
        ]);
        let context: [&[u8]; 3] = [&from.zid_initiator, &from.zid_responder, &total_hash];
        let derive = |label: &str, bytes: usize| hash.kdf(&s0, label, &context, bytes as u32 * 8);
        let key_bytes = from.chosen.cipher.key_bytes();
        Self {
            initiator: EndKeys {
                mac: derive("Initiator HMAC key", hash.bytes()),
                zrtp: derive("Initiator ZRTP key", key_bytes),
                srtp_key: derive("Initiator SRTP master key", key_bytes),
                srtp_salt: derive("Initiator SRTP master salt", SALT_BYTES),
            },
            responder: EndKeys {
                mac: derive("Responder HMAC key", hash.bytes()),
                zrtp: derive("Responder ZRTP key", key_bytes),
                srtp_key: derive("Responder SRTP master key", key_bytes),
                srtp_salt: derive("Responder SRTP master salt", SALT_BYTES),
            },
            sas_value: derive("SAS", 32).leftmost(),
            rs1: derive("retained secret", 32),
        }
    }

    pub(crate) const fn of(&self, role: Role) -> &EndKeys {
        match role {
            Role::Initiator => &self.initiator,
            Role::Responder => &self.responder,
        }
    }
}

const SALT_BYTES: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithms;
    use ringway_sansio::{Instant, Seed};

    fn retained(rs1: u8, rs2: Option<u8>) -> Retained {
        Retained {
            zid: [0; 12],
            rs1: [rs1; 32],
            rs2: rs2.map(|byte| [byte; 32]),
            sas_verified: false,
            expires_at: Instant::FAR,
            used_at: Instant::default(),
        }
    }

    /// Result of the search at both ends, the initiator first.
    fn found(initiator: &Retained, responder: &Retained) -> (Option<u8>, Option<u8>) {
        let mut entropy = Entropy::new(&Seed::from_number(1));
        let mut of = |role, retained| secret_ids(HashType::S256, role, Some(retained), &mut entropy);
        let (sent_i, sent_r) = (of(Role::Initiator, initiator), of(Role::Responder, responder));
        let first = |secret: Option<&[u8; 32]>| secret.map(|secret| secret[0]);
        (
            first(common_secret(HashType::S256, Role::Responder, initiator, &sent_r)),
            first(common_secret(HashType::S256, Role::Initiator, responder, &sent_i)),
        )
    }

    #[test]
    fn both_ends_find_the_newest_secret_of_the_initiator_that_both_have() {
        assert_eq!(found(&retained(1, Some(2)), &retained(1, Some(2))), (Some(1), Some(1)));
        assert_eq!(found(&retained(2, Some(3)), &retained(1, Some(2))), (Some(2), Some(2)));
        assert_eq!(found(&retained(1, Some(2)), &retained(2, Some(3))), (Some(2), Some(2)));
        assert_eq!(found(&retained(1, Some(2)), &retained(2, Some(1))), (Some(1), Some(1)));
        assert_eq!(found(&retained(1, None), &retained(9, Some(1))), (Some(1), Some(1)));
        assert_eq!(found(&retained(1, Some(2)), &retained(3, Some(4))), (None, None));
        assert_eq!(continuity(true, false), Continuity::Broken);
        assert_eq!(continuity(false, false), Continuity::FirstCall);
        assert_eq!(continuity(false, true), Continuity::Continued);
    }

    #[test]
    fn a_missing_secret_gets_a_random_identifier() {
        let mut entropy = Entropy::new(&Seed::from_number(1));
        let mut ids = || secret_ids(HashType::S256, Role::Initiator, None, &mut entropy);
        let (one, two) = (ids(), ids());
        assert!(one.rs1 != two.rs1 && one.rs2 != one.aux && one.pbx != two.pbx);
    }

    #[test]
    fn every_input_changes_every_key_and_the_lengths_match_the_suite() {
        let chosen = Chosen::from_lists(&Algorithms::default(), &Algorithms::default());
        let plain = || KdfInput {
            chosen,
            dh_result: &[1; 32],
            zid_initiator: [2; 12],
            zid_responder: [3; 12],
            messages: [b"hello", b"commit", b"part1", b"part2"],
            s1: None,
        };
        let keys = SessionKeys::derive(&plain());
        let others = [
            SessionKeys::derive(&KdfInput { dh_result: &[2; 32], ..plain() }),
            SessionKeys::derive(&KdfInput { zid_initiator: [3; 12], ..plain() }),
            SessionKeys::derive(&KdfInput { s1: Some(&[0; 32]), ..plain() }),
            SessionKeys::derive(&KdfInput { messages: [b"hello", b"commit", b"part1", b"part3"], ..plain() }),
            SessionKeys::derive(&KdfInput { chosen: Chosen { hash: HashType::S384, ..chosen }, ..plain() }),
        ];
        for other in &others {
            assert_ne!(keys.sas_value, other.sas_value);
            assert_ne!(*keys.rs1, *other.rs1);
            assert_ne!(keys.of(Role::Initiator).master_key(), other.of(Role::Initiator).master_key());
        }
        let (ours, theirs) = (keys.of(Role::Initiator), keys.of(Role::Responder));
        assert_ne!(*ours.mac, *theirs.mac);
        assert_ne!(*ours.zrtp, *theirs.zrtp);
        assert_ne!(ours.master_key(), theirs.master_key());
        let key = ours.master_key();
        assert_eq!(
            (key.key.len(), key.salt.len()),
            (chosen.suite().key_bytes(), chosen.suite().salt_bytes())
        );
    }

    #[test]
    fn s0_is_the_hash_of_its_inputs_in_the_order_of_the_rfc() {
        let from = KdfInput {
            chosen: Chosen::from_lists(&Algorithms::default(), &Algorithms::default()),
            dh_result: b"result",
            zid_initiator: *b"initiator-id",
            zid_responder: *b"responder-id",
            messages: [b"a", b"b", b"c", b"d"],
            s1: Some(b"0123456789abcdef0123456789abcdef"),
        };
        let total_hash = HashType::S256.digest(&[b"abcd"]);
        let s0 = HashType::S256.digest(&[
            b"\0\0\0\x01resultZRTP-HMAC-KDFinitiator-idresponder-id",
            &total_hash,
            b"\0\0\0\x200123456789abcdef0123456789abcdef\0\0\0\0\0\0\0\0",
        ]);
        let mac = HashType::S256
            .mac(&s0, &[b"\0\0\0\x01SAS\0initiator-idresponder-id", &total_hash, b"\0\0\x01\0"]);
        assert_eq!(SessionKeys::derive(&from).sas_value, mac.leftmost::<4>());
    }
}

//! Messages written, parsed, truncated and modified.

use super::*;
use crate::algorithm::{AuthTag, CipherType, HashType, SasType};

fn hello() -> Hello {
    Hello {
        version: VERSION,
        client_id: *b"Ringway 0.1     ",
        h3: [3; 32],
        zid: [9; 12],
        is_passive: false,
        algorithms: Algorithms::default().completed(),
    }
}

fn chosen() -> Chosen {
    Chosen {
        hash: HashType::S384,
        cipher: CipherType::Aes3,
        auth_tag: AuthTag::Hs32,
        key_agreement: KeyAgreement::Ec25,
        sas: SasType::B256,
    }
}

#[test]
fn a_hello_has_the_layout_of_figure_3() {
    let message = hello().write(&[2; 32]);
    assert_eq!(&message[..4], [0x50, 0x5a, 0, (message.len() / 4) as u8]);
    assert_eq!(&message[4..16], b"Hello   1.10");
    assert_eq!(&message[16..32], b"Ringway 0.1     ");
    assert_eq!((&message[32..64], &message[64..76]), (&[3; 32][..], &[9; 12][..]));
    assert_eq!(message[76..80], [0x00, 0x02, 0x22, 0x22]);
    assert_eq!(&message[80..120], b"S256S384AES3AES1HS80HS32EC25DH3kB32 B256");
    assert_eq!(message.len(), 128);
    assert!(is_sealed_with(&[2; 32], &message) && !is_sealed_with(&[1; 32], &message));
    assert_eq!(Hello::parse(&message), Some(hello()));
    let passive = Hello { is_passive: true, ..hello() };
    assert_eq!(Hello::parse(&passive.write(&[2; 32])), Some(passive));
}

#[test]
fn an_empty_list_means_the_mandatory_algorithms_and_unknown_ones_are_skipped() {
    let mut message = write_message(
        MessageType::Hello,
        &[&VERSION, &[b' '; 16], &[3; 32], &[9; 12], &[0, 0, 0, 0], &[0; 8]],
    );
    let read = Hello::parse(&message).unwrap();
    assert_eq!(read.algorithms.key_agreements, [KeyAgreement::Dh3k]);
    assert_eq!(read.algorithms.auth_tags, [AuthTag::Hs32, AuthTag::Hs80]);
    message = write_message(
        MessageType::Hello,
        &[&VERSION, &[b' '; 16], &[3; 32], &[9; 12], &[0, 0, 0x20, 0], b"2FS3AES3", &[0; 8]],
    );
    assert_eq!(Hello::parse(&message).unwrap().algorithms.ciphers, [CipherType::Aes3, CipherType::Aes1]);
    message = write_message(
        MessageType::Hello,
        &[&VERSION, &[b' '; 16], &[3; 32], &[9; 12], &[0, 8, 0, 0], &[b'x'; 32], &[0; 8]],
    );
    assert_eq!(Hello::parse(&message), None, "no list is longer than seven");
}

#[test]
fn a_commit_has_29_words_and_chooses_only_what_we_listed() {
    let commit = Commit { h2: [2; 32], zid: [9; 12], chosen: chosen(), hvi: [7; 32] };
    let message = commit.write(&[1; 32]);
    assert_eq!((message.len(), message[3]), (116, 29));
    assert_eq!(&message[56..76], b"S384AES3HS32EC25B256");
    assert!(is_sealed_with(&[1; 32], &message));
    assert_eq!(Commit::h2(&message), Some([2; 32]));
    let all = Algorithms::default().completed();
    assert_eq!(Commit::parse(&message, &all), Ok(commit));
    let refusal = |at: usize, block: &[u8; 4]| {
        let mut message = message.clone();
        message[at..at + 4].copy_from_slice(block);
        Commit::parse(&message, &all).err()
    };
    assert_eq!(refusal(56, b"N256"), Some(CommitRefusal::Hash));
    assert_eq!(refusal(60, b"2FS1"), Some(CommitRefusal::Cipher));
    assert_eq!(refusal(60, b"AES2"), Some(CommitRefusal::Cipher), "known, but not listed");
    assert_eq!(refusal(64, b"SK32"), Some(CommitRefusal::AuthTag));
    assert_eq!(refusal(68, b"EC38"), Some(CommitRefusal::KeyAgreement));
    assert_eq!(refusal(72, b"B999"), Some(CommitRefusal::SasType));
    assert_eq!(refusal(68, b"Prsh"), Some(CommitRefusal::KeyAgreement), "not with this length");
    let head: [&[u8]; 3] = [&[2; 32], &[9; 12], b"S256AES1HS32PrshB32 "];
    let preshared = write_message(MessageType::Commit, &[head[0], head[1], head[2], &[0; 32]]);
    assert_eq!((preshared.len(), Commit::parse(&preshared, &all)), (108, Err(CommitRefusal::Preshared)));
    let multistream =
        write_message(MessageType::Commit, &[head[0], head[1], b"S256AES1HS32MultB32 ", &[0; 24]]);
    assert_eq!(
        (multistream.len(), Commit::parse(&multistream, &all)),
        (100, Err(CommitRefusal::Multistream))
    );
}

#[test]
fn a_dh_part_has_the_words_of_table_5() {
    for (key_agreement, words) in [(KeyAgreement::Dh3k, 117), (KeyAgreement::Ec25, 37)] {
        let public = alloc::vec![0x77; key_agreement.public_bytes()];
        let ids = SecretIds { rs1: [1; 8], rs2: [2; 8], aux: [3; 8], pbx: [4; 8] };
        let part = DhPart { h1: [1; 32], ids, public: &public };
        let message = part.write(MessageType::DhPart1, &[0; 32]);
        assert_eq!(message.len(), words * 4);
        assert!(is_sealed_with(&[0; 32], &message));
        assert_eq!(DhPart::parse(&message, key_agreement), Some(part));
        let other = if words == 37 { KeyAgreement::Dh3k } else { KeyAgreement::Ec25 };
        assert_eq!(DhPart::parse(&message, other), None);
    }
}

#[test]
fn no_truncated_message_is_parsed() {
    let all = Algorithms::default().completed();
    let hello = hello().write(&[2; 32]);
    let commit = Commit { h2: [2; 32], zid: [9; 12], chosen: chosen(), hvi: [7; 32] }.write(&[1; 32]);
    let ids = SecretIds { rs1: [1; 8], rs2: [2; 8], aux: [3; 8], pbx: [4; 8] };
    let part = DhPart { h1: [1; 32], ids, public: &[1; 64] }.write(MessageType::DhPart2, &[0; 32]);
    for end in 0..hello.len() {
        assert_eq!(Hello::parse(&hello[..end]), None);
    }
    for end in 0..commit.len() {
        assert_eq!(Commit::parse(&commit[..end], &all), Err(CommitRefusal::Malformed));
    }
    for end in 0..part.len() {
        assert_eq!(DhPart::parse(&part[..end], KeyAgreement::Ec25), None);
    }
}

#[test]
fn a_ping_is_answered_with_its_own_endpoint_hash_and_source() {
    let ping = write_message(MessageType::Ping, &[b"1.10", b"endpoint"]);
    let ack = ping_ack(&ping, 0x0a0b_0c0d, &[5; 12]).unwrap();
    assert_eq!((ack.len(), &ack[12..16], &ack[16..24]), (36, &b"1.10"[..], &[5; 8][..]));
    assert_eq!((&ack[24..32], &ack[32..]), (&b"endpoint"[..], &[0x0a, 0x0b, 0x0c, 0x0d][..]));
    assert_eq!(ping_ack(&ping[..20], 1, &[5; 12]), None);
    assert_eq!(error_code(&error(0x63)), Some(0x63));
    assert_eq!(error_code(&ping), None);
}

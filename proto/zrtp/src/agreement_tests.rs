//! The group, the curve, and public values that must be rejected.

use super::*;
use ringway_sansio::Seed;

fn entropy(number: u64) -> Entropy {
    Entropy::new(&Seed::from_number(number))
}

fn bytes_of(value: &U3072) -> Vec<u8> {
    value.to_be_bytes().as_ref().to_vec()
}

fn bytes(hex: &str) -> Vec<u8> {
    base16ct::mixed::decode_vec(hex).unwrap()
}

#[test]
fn the_prime_is_that_of_rfc_3526_and_2_generates_the_subgroup() {
    let prime = bytes_of(&PRIME);
    assert_eq!((&prime[..8], &prime[376..]), (&[0xff; 8][..], &[0xff; 8][..]));
    // The middle of the prime begins with the digits of π.
    assert_eq!(prime[8..16], [0xc9, 0x0f, 0xda, 0xa2, 0x21, 0x68, 0xc2, 0x34]);
    // 2 generates the subgroup of order (p - 1) / 2; a wrong digit in the prime would break this.
    let half = PRIME.shr_vartime(1);
    let two = ConstMontyForm::<Modp3072, { U3072::LIMBS }>::new(&U3072::from_u8(2));
    assert_eq!(two.pow_vartime(&half).retrieve(), U3072::ONE);
}

#[test]
fn both_ends_compute_the_same_secret() {
    for (key_agreement, length) in [(KeyAgreement::Dh3k, 384), (KeyAgreement::Ec25, 32)] {
        for cipher in [CipherType::Aes1, CipherType::Aes3] {
            let one = KeyPair::new(key_agreement, cipher, &mut entropy(1));
            let other = KeyPair::new(key_agreement, cipher, &mut entropy(2));
            let result = one.agree(other.public()).unwrap();
            assert_eq!(result.len(), length);
            assert_eq!(result, other.agree(one.public()).unwrap());
            assert_ne!(result, one.agree(one.public()).unwrap());
            assert_eq!(one.public().len(), key_agreement.public_bytes());
        }
    }
}

#[test]
fn a_pair_is_used_only_with_a_long_enough_exponent() {
    let weak = KeyPair::new(KeyAgreement::Dh3k, CipherType::Aes1, &mut entropy(1));
    assert!(weak.serves(KeyAgreement::Dh3k, CipherType::Aes1));
    assert!(!weak.serves(KeyAgreement::Dh3k, CipherType::Aes3));
    assert!(!weak.serves(KeyAgreement::Ec25, CipherType::Aes1));
}

#[test]
fn public_values_that_reveal_the_secret_are_rejected() {
    let ours = KeyPair::new(KeyAgreement::Dh3k, CipherType::Aes1, &mut entropy(1));
    let less_one = PRIME.wrapping_sub(&U3072::ONE);
    let bad = [U3072::ZERO, U3072::ONE, less_one, PRIME, PRIME.wrapping_add(&U3072::ONE), U3072::MAX];
    for value in bad {
        assert_eq!(ours.agree(&bytes_of(&value)).err(), Some(BadPublicValue));
    }
    assert!(ours.agree(&bytes_of(&U3072::from_u8(2))).is_ok());
    assert!(ours.agree(&bytes_of(&PRIME.wrapping_sub(&U3072::from_u8(2)))).is_ok());
    assert_eq!(ours.agree(&[2; 383]).err(), Some(BadPublicValue));

    let ours = KeyPair::new(KeyAgreement::Ec25, CipherType::Aes1, &mut entropy(1));
    let other = KeyPair::new(KeyAgreement::Ec25, CipherType::Aes1, &mut entropy(2));
    let mut beside = other.public().to_vec();
    beside[63] ^= 1;
    assert_eq!(ours.agree(&beside).err(), Some(BadPublicValue), "not on the curve");
    assert_eq!(ours.agree(&[0; 64]).err(), Some(BadPublicValue));
    assert_eq!(ours.agree(&[0xff; 64]).err(), Some(BadPublicValue));
    assert_eq!(ours.agree(&other.public()[..63]).err(), Some(BadPublicValue));
}

#[test]
fn the_curve_gives_the_shared_secret_of_rfc_5903_section_8_1() {
    let secret = p256::SecretKey::from_slice(&bytes(
        "C88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433",
    ))
    .unwrap();
    let ours = KeyPair { secret: Secret::Ec25(Box::new(secret)), public: Vec::new() };
    let peer = bytes(
        "D12DFB5289C8D4F81208B70270398C342296970A0BCCB74C736FC7554494BF63\
         56FBF3CA366CC23E8157854C13C58D6AAC23F046ADA30F8353E74F33039872AB",
    );
    let expected = bytes("D6840F6B42F6EDAFD13116E0E12565202FEF8E9ECE7DCE03812464D04B9442DE");
    assert_eq!(*ours.agree(&peer).unwrap(), expected);
}

#[test]
fn two_to_the_ten_is_1024() {
    let mut expected = alloc::vec![0; 384];
    expected[382] = 4;
    assert_eq!(power(&U3072::from_u8(2), &U512::from_u8(10), 256), expected);
}

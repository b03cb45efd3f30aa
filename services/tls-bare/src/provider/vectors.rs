//! Known answers of the algorithms.

use super::p256::{EcdsaKeys, KeyPair};
use super::symmetric::{Aes128Gcm, Cipher, HmacSha256, Sha256};
use alloc::boxed::Box;
use alloc::vec::Vec;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, OutboundChunks, OutboundPlainMessage, PrefixedPayload,
    Tls12AeadAlgorithm, Tls13AeadAlgorithm,
};
use rustls::crypto::hash::Hash;
use rustls::crypto::hmac::Hmac;
use rustls::crypto::tls12::{Prf, PrfUsingHmac};
use rustls::crypto::tls13::{Hkdf, HkdfUsingHmac};
use rustls::crypto::{ActiveKeyExchange, KeyProvider};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ContentType, ProtocolVersion, SignatureScheme};

fn bytes(hex: &str) -> Vec<u8> {
    let hex: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    base16ct::mixed::decode_vec(hex).unwrap()
}

fn key(hex: &str) -> AeadKey {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&bytes(hex));
    AeadKey::from(key)
}

#[test]
fn sha_256_of_fips_180_4() {
    let expected = bytes("ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad");
    assert_eq!(Sha256.hash(b"abc").as_ref(), expected);
    let mut context = Sha256.start();
    context.update(b"a");
    let mut fork = context.fork();
    fork.update(b"bc");
    assert_eq!(fork.fork_finish().as_ref(), expected);
    context.update(b"bc");
    assert_eq!(context.finish().as_ref(), expected);
}

/// RFC 4231 §4.2, and §4.7 for a key that is longer than a block.
#[test]
fn hmac_of_rfc_4231() {
    let tag = HmacSha256.with_key(&[0x0b; 20]).sign(&[b"Hi ", b"There"]);
    let expected = bytes("b0344c61d8db38535ca8afceaf0bf12b 881dc200c9833da726e9376c2e32cff7");
    assert_eq!(tag.as_ref(), expected);
    let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
    let tag = HmacSha256.with_key(&[0xaa; 131]).sign(&[long]);
    let expected = bytes("60e431591ee0b67f0d8a26aacbf5b77f 8e0bc6213728c5140546040f0ee37f54");
    assert_eq!(tag.as_ref(), expected);
}

/// RFC 5869 A.1.
#[test]
fn hkdf_of_rfc_5869() {
    let salt = bytes("000102030405060708090a0b0c");
    let expander = HkdfUsingHmac(&HmacSha256).extract_from_secret(Some(&salt), &[0x0b; 22]);
    let mut out = [0; 42];
    expander.expand_slice(&[&bytes("f0f1f2f3f4f5f6f7f8f9")], &mut out).unwrap();
    let expected =
        bytes("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    assert_eq!(out.as_slice(), expected);
}

/// The vector of the TLS working group for P_SHA256.
#[test]
fn prf_of_tls_1_2() {
    let mut out = [0; 100];
    PrfUsingHmac(&HmacSha256).for_secret(
        &mut out,
        &bytes("9bbe436ba940f017b17652849a71db35"),
        b"test label",
        &bytes("a0ba9f936cda311827a6f796ffd5198c"),
    );
    let expected = bytes(
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17ab\
         fd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66",
    );
    assert_eq!(out.as_slice(), expected);
}

/// Test case 4 of the specification of GCM (McGrew, Viega).
#[test]
fn gcm_of_its_specification() {
    let cipher = Cipher::new(&key("feffe9928665731c6d6a8f9467308308"));
    let nonce = <[u8; 12]>::try_from(bytes("cafebabefacedbaddecaf888")).unwrap();
    let associated = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let plain = bytes(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    );
    let expected = bytes(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091\
         5bc94fbc3221a5db94fae95ae7121a47",
    );
    let mut payload = PrefixedPayload::with_capacity(76);
    payload.extend_from_slice(&plain);
    cipher.seal(nonce, &associated, &mut payload, 0).unwrap();
    assert_eq!(payload.as_ref(), expected);
    let mut text = expected.clone();
    assert_eq!(cipher.open(nonce, &associated, &mut text).unwrap(), 60);
    assert_eq!(text[..60], plain);
    for wrong in 0..expected.len() {
        let mut text = expected.clone();
        text[wrong] ^= 1;
        assert!(cipher.open(nonce, &associated, &mut text).is_err(), "byte {wrong}");
    }
    assert!(cipher.open(nonce, &associated, &mut [0; 15]).is_err());
}

/// The client's record of application data in RFC 8448 §3.
#[test]
fn a_record_of_rfc_8448() {
    let iv = || Iv::new(bytes("5b78923dee08579033e523d9").try_into().unwrap());
    let plain: Vec<u8> = (0..50).collect();
    let expected = bytes(
        "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd\
         1e3deae63aeebb21694915e4",
    );
    let algorithm: &dyn Tls13AeadAlgorithm = &Aes128Gcm;
    let mut encrypter = algorithm.encrypter(key("17422dda596ed5d9acd890e3c63f5051"), iv());
    let message = OutboundPlainMessage {
        typ: ContentType::ApplicationData,
        version: ProtocolVersion::TLSv1_3,
        payload: OutboundChunks::Single(&plain),
    };
    assert_eq!(encrypter.encrypt(message, 0).unwrap().encode(), expected);
    let mut decrypter = algorithm.decrypter(key("17422dda596ed5d9acd890e3c63f5051"), iv());
    let mut payload = expected[5..].to_vec();
    let received =
        InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, &mut payload);
    let received = decrypter.decrypt(received, 0).unwrap();
    assert_eq!((received.typ, received.payload), (ContentType::ApplicationData, &plain[..]));
}

/// A record of TLS 1.2 is what the other side reads; no shorter one and no changed one is.
#[test]
fn records_of_tls_1_2() {
    let algorithm: &dyn Tls12AeadAlgorithm = &Aes128Gcm;
    let secret = "000102030405060708090a0b0c0d0e0f";
    let mut encrypter = algorithm.encrypter(key(secret), &[1, 2, 3, 4], &[5; 8]);
    let mut decrypter = algorithm.decrypter(key(secret), &[1, 2, 3, 4]);
    let message = OutboundPlainMessage {
        typ: ContentType::ApplicationData,
        version: ProtocolVersion::TLSv1_2,
        payload: OutboundChunks::Single(b"REGISTER"),
    };
    let record = encrypter.encrypt(message, 7).unwrap().encode();
    assert_eq!(record.len(), 5 + 8 + 8 + 16);
    let mut open = |payload: &mut [u8], number| {
        let message =
            InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload);
        decrypter.decrypt(message, number).map(|message| message.payload.to_vec())
    };
    assert_eq!(open(&mut record[5..].to_vec(), 7).unwrap(), b"REGISTER");
    assert!(open(&mut record[5..].to_vec(), 8).is_err(), "another record number");
    for length in 0..record.len() - 5 {
        assert!(open(&mut record[5..5 + length].to_vec(), 7).is_err(), "{length} bytes");
    }
    assert!(open(&mut [0; (1 << 14) + 25], 7).is_err(), "more than a record holds");
}

/// RFC 5903 §8.1.
#[test]
fn key_exchange_of_rfc_5903() {
    let pair = || {
        let secret = bytes("C88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433");
        Box::new(KeyPair::new(p256::SecretKey::from_slice(&secret).unwrap()))
    };
    let public = "04 DAD0B65394221CF9B051E1FECA5787D098DFE637FC90B9EF945D0C3772581180\
                  5271A0461CDB8252D61F1C456FA3E59AB1F45B33ACCF5F58389E0577B8990BB3";
    assert_eq!(pair().pub_key(), bytes(public));
    let peer = bytes(
        "04 D12DFB5289C8D4F81208B70270398C342296970A0BCCB74C736FC7554494BF63\
         56FBF3CA366CC23E8157854C13C58D6AAC23F046ADA30F8353E74F33039872AB",
    );
    let expected = bytes("D6840F6B42F6EDAFD13116E0E12565202FEF8E9ECE7DCE03812464D04B9442DE");
    assert_eq!(pair().complete(&peer).unwrap().secret_bytes(), expected);
    let mut beside = peer.clone();
    beside[64] ^= 1;
    let compressed = [&[2], &peer[1..33]].concat();
    for wrong in [&beside[..], &peer[..64], &compressed[..], &[0], &[], &[4; 65]] {
        assert!(pair().complete(wrong).is_err(), "{wrong:?}");
    }
}

/// RFC 6979 A.2.5, with SHA-256 and the message "sample".
#[test]
fn a_signature_of_rfc_6979() {
    let secret = bytes("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721");
    // ECPrivateKey of RFC 5915 with the curve's name.
    let sec1 = [bytes("30310201010420"), secret, bytes("a00a06082a8648ce3d030107")].concat();
    let key = EcdsaKeys.load_private_key(PrivateKeyDer::Sec1(sec1.into())).unwrap();
    assert!(key.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::ED25519]).is_none());
    let signer = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
    let expected = [
        bytes("3046022100"),
        bytes("EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"),
        bytes("022100"),
        bytes("F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"),
    ];
    assert_eq!(signer.sign(b"sample").unwrap(), expected.concat());
}

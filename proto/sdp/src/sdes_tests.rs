//! Valid `a=crypto` lines, lines of other implementations, and invalid ones.
//!
//! Tested: the lines of RFC 4568, every suite written and parsed, other spellings and base64 without padding,
//! every error, random and mutated lines that must not panic. Not tested: the choice among lines
//! (`protect_tests`).

use super::*;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use ringway_sansio::{Rng, Seed};

const KEY: &str = "inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj";

fn parse(text: &str) -> Result<CryptoLine, CryptoLineError> {
    CryptoLine::parse(text.as_bytes())
}

fn with_key(info: &str) -> Result<CryptoLine, CryptoLineError> {
    parse(&format!("1 AES_CM_128_HMAC_SHA1_80 {KEY}{info}"))
}

fn written(line: &CryptoLine) -> String {
    let mut text = String::new();
    line.write(&mut text).unwrap();
    text
}

#[test]
fn the_lines_of_rfc_4568_are_parsed() {
    let line = parse(&format!("1 AES_CM_128_HMAC_SHA1_80 {KEY}|2^20|1:4")).unwrap();
    assert_eq!((line.tag, line.suite), (1, CryptoSuite::AesCm128HmacSha1_80));
    assert_eq!(line.key.key, b"wDfvg&T+)xG7@fb5");
    assert_eq!(line.key.salt, b"jU,RaA}\\|p0%*#");
    assert_eq!(line.key.lifetime_packets, Some(1 << 20));
    assert_eq!(line.key.mki, [0, 0, 0, 1]);
    let line = parse("2 AES_CM_128_HMAC_SHA1_32 inline:YUJDZGVmZ2hpSktMbW9QUXJzVHVWd3l6MTIzNDU2|1066:4");
    let line = line.unwrap();
    assert_eq!((line.key.lifetime_packets, &line.key.mki[..]), (None, &[0, 0, 4, 0x2a][..]));
    let line = parse(
        "1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz|2^20|1:4 FEC_ORDER=FEC_SRTP",
    );
    assert!(line.is_ok(), "the requested value is the default");
    let line = parse(
        "2 AES_CM_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5QUJjZGVm|2^20|1:4;\
         inline:QUJjZGVmMTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5|2^20|2:4",
    );
    assert_eq!(line, Err(CryptoLineError::SeveralKeys));
    let f8 = "2 F8_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5QUJjZGVm";
    assert_eq!(parse(f8), Err(CryptoLineError::UnknownSuite));
}

#[test]
fn every_suite_is_written_as_registered_and_parsed_in_both_spellings() {
    for suite in CryptoSuite::ALL {
        let key = MasterKey {
            key: (0..suite.key_bytes() as u8).collect(),
            salt: (100..100 + suite.salt_bytes() as u8).collect(),
            lifetime_packets: None,
            mki: vec![],
        };
        let line = CryptoLine::new(7, suite, key);
        let text = written(&line);
        assert!(text.starts_with(&format!("7 {} inline:", suite.name())), "{text}");
        assert_eq!(parse(&text), Ok(line.clone()));
        let unpadded = text.trim_end_matches('=');
        assert_eq!(parse(unpadded), Ok(line.clone()), "{unpadded}");
        for bits in ["192", "256"] {
            let other = text.replace(&format!("AES_{bits}_CM"), &format!("AES_CM_{bits}"));
            let read = parse(&other).unwrap();
            assert_eq!(written(&read), other);
            assert_eq!(CryptoLine { suite_name: None, ..read }, line, "{other}");
        }
        let lower = text.replace(suite.name(), &suite.name().to_ascii_lowercase());
        assert_eq!(written(&parse(&lower).unwrap()), lower);
        for wrong in
            ["", "NULL", "x inline:y", CryptoSuite::ALL.iter().find(|other| **other != suite).unwrap().name()]
        {
            let line = CryptoLine { suite_name: Some(wrong.into()), ..line.clone() };
            assert_eq!(line.write(&mut String::new()), Err(CryptoLineError::UnknownSuite));
        }
        if text.ends_with("==") {
            assert_eq!(parse(text.trim_end_matches("==")), Ok(line.clone()));
            assert_eq!(parse(&text.replace("==", "=")), Err(CryptoLineError::Key));
        }
        assert_eq!(parse(&format!("{text}=")), Err(CryptoLineError::Key));
        for wrong in CryptoSuite::ALL {
            let fits = (wrong.key_bytes(), wrong.salt_bytes()) == (suite.key_bytes(), suite.salt_bytes());
            let other = text.replace(suite.name(), wrong.name());
            assert_eq!(parse(&other).is_ok(), fits, "{other}");
        }
    }
}

#[test]
fn a_256_bit_line_of_linphone_is_parsed() {
    let line =
        "3 AES_256_CM_HMAC_SHA1_80 inline:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLQ";
    let padded = format!("{line}==");
    assert_eq!(parse(line).unwrap(), parse(&padded).unwrap());
    assert_eq!(parse(line).unwrap().key.key.len(), 32);
    assert!(written(&parse(line).unwrap()).ends_with("=="), "padding is written");
}

#[test]
fn tags_have_one_to_nine_digits() {
    for (tag, expected) in [("0", 0), ("1", 1), ("999999999", 999_999_999), ("007", 7)] {
        assert_eq!(parse(&format!("{tag} AES_CM_128_HMAC_SHA1_80 {KEY}")).unwrap().tag, expected);
    }
    for tag in ["1000000000", "0000000001", "-1", "+1", "a", "1a", "1:"] {
        let line = format!("{tag} AES_CM_128_HMAC_SHA1_80 {KEY}");
        assert_eq!(parse(&line), Err(CryptoLineError::Tag), "{line}");
    }
    let key = with_key("").unwrap().key;
    let mut line = CryptoLine::new(1_000_000_000, CryptoSuite::AesCm128HmacSha1_80, key);
    assert_eq!(line.write(&mut String::new()), Err(CryptoLineError::Tag));
    line.tag -= 1;
    assert!(line.write(&mut String::new()).is_ok());
}

#[test]
fn lifetimes_are_numbers_or_powers_of_two() {
    for (text, packets) in [("2^48", 1 << 48), ("2^1", 2), ("1", 1), ("1000000", 1_000_000)] {
        let line = with_key(&format!("|{text}")).unwrap();
        assert_eq!(line.key.lifetime_packets, Some(packets));
        assert_eq!(parse(&written(&line)), Ok(line));
    }
    for text in [
        "",
        "0",
        "2^0",
        "2^49",
        "2^64",
        "2^99999999999999999999",
        "2^",
        "01",
        "281474976710657",
        "x",
        "-1",
        "2^020",
    ] {
        assert_eq!(with_key(&format!("|{text}")), Err(CryptoLineError::Lifetime), "{text}");
    }
}

#[test]
fn an_mki_fits_its_length() {
    for (text, mki) in [
        ("1:1", vec![1]),
        ("255:1", vec![255]),
        ("256:2", vec![1, 0]),
        ("18446744073709551616:9", vec![1, 0, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        for info in [format!("|{text}"), format!("|2^31|{text}")] {
            let line = with_key(&info).unwrap();
            assert_eq!(line.key.mki, mki, "{info}");
            assert!(written(&line).ends_with(&info), "{info}");
        }
    }
    let mut longest = vec![0; 127];
    longest.push(1);
    assert_eq!(with_key("|1:128").unwrap().key.mki, longest);
    let most = MasterKey { mki: vec![255; 128], ..with_key("").unwrap().key };
    let line = CryptoLine::new(1, CryptoSuite::AesCm128HmacSha1_80, most);
    assert_eq!(parse(&written(&line)), Ok(line));
    for text in ["256:1", "0:1", "1:0", "1:129", "1:", ":1", "a:1", "01:1", "1:04", "1:1:1", "-1:4"] {
        assert_eq!(with_key(&format!("|{text}")), Err(CryptoLineError::Mki), "{text}");
    }
    assert_eq!(with_key("|1:4|1:4"), Err(CryptoLineError::Malformed));
    assert_eq!(with_key("|2^20|1:4|x"), Err(CryptoLineError::Malformed));
    assert_eq!(with_key("|2^20|2^20"), Err(CryptoLineError::Mki));
    assert_eq!(with_key("|1:4|2^20"), Err(CryptoLineError::Malformed));
}

#[test]
fn several_keys_are_rejected() {
    let other = "inline:YUJDZGVmZ2hpSktMbW9QUXJzVHVWd3l6MTIzNDU2";
    for info in [format!("|1:4;{other}|2:4"), format!(";{other}"), ";".into()] {
        assert_eq!(with_key(&info), Err(CryptoLineError::SeveralKeys), "{info}");
    }
}

#[test]
fn session_parameters_are_ignored_or_refused() {
    let parameter = |text: &str| with_key(&format!(" {text}")).map(|_| ());
    assert_eq!(parameter("WSH=64"), Ok(()));
    assert_eq!(parameter("KDR=0 FEC_ORDER=FEC_SRTP  -X -Y=1\tWSH=1024"), Ok(()));
    for unsupported in [
        "KDR=1",
        "KDR=24",
        "UNENCRYPTED_SRTP",
        "UNENCRYPTED_SRTCP",
        "UNAUTHENTICATED_SRTP",
        "FEC_ORDER=SRTP_FEC",
        "FEC_KEY=inline:YUJDZGVmZ2hpSktMbW9QUXJzVHVWd3l6MTIzNDU2",
        "NEW",
        "NEW=1",
        "wsh=64",
        "WSH=64 NEW",
    ] {
        assert_eq!(parameter(unsupported), Err(CryptoLineError::UnsupportedParameter), "{unsupported}");
    }
    for wrong in [
        "WSH=63",
        "WSH=064",
        "WSH=",
        "WSH",
        "WSH=-1",
        "WSH=99999999999",
        "KDR=25",
        "KDR=",
        "KDR",
        "KDR=00",
        "FEC_ORDER=",
        "FEC_ORDER",
        "FEC_KEY",
        "UNENCRYPTED_SRTP=1",
        "WSH=64 WSH=64",
    ] {
        assert_eq!(parameter(wrong), Err(CryptoLineError::Parameter), "{wrong}");
    }
    let many: String = (0..=PARAMETERS_MAX).map(|number| format!("-{number} ")).collect();
    assert_eq!(parameter(&many), Err(CryptoLineError::Parameter));
}

#[test]
fn invalid_lines_are_rejected() {
    let malformed = CryptoLineError::Malformed;
    for (text, error) in [
        ("", malformed),
        ("1", malformed),
        ("1 AES_CM_128_HMAC_SHA1_80", malformed),
        ("1 AES_CM_128_HMAC_SHA1_80\u{a0}x", malformed),
        ("1 AES_CM_128_HMAC_SHA1_80 uri:http://example.org", CryptoLineError::KeyMethod),
        ("1 AES_CM_128_HMAC_SHA1_80 inlinex", CryptoLineError::KeyMethod),
        ("1 AES_CM_128_HMAC_SHA1_80 inline:", CryptoLineError::Key),
        ("1 AES_CM_128_HMAC_SHA1_80 inline:====", CryptoLineError::Key),
        ("1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSo", CryptoLineError::Key),
        ("1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSo*", CryptoLineError::Key),
        ("1 AES_CM_128_HMAC_SHA1_8 inline:x", CryptoLineError::UnknownSuite),
        ("1 NULL inline:x", CryptoLineError::UnknownSuite),
    ] {
        assert_eq!(parse(text), Err(error), "{text}");
    }
    assert_eq!(CryptoLine::parse(&[b'1'; LINE_BYTES_MAX + 1]), Err(CryptoLineError::TooLong));
    assert_eq!(CryptoLine::parse(b"1 \xff x"), Err(malformed));
    assert_eq!(parse("1 AES_CM_128_HMAC_SHA1_80 x\r\n"), Err(malformed));
}

#[test]
fn a_key_of_a_wrong_length_is_not_written() {
    let good = with_key("").unwrap().key;
    let write = |key: MasterKey| {
        CryptoLine::new(1, CryptoSuite::AesCm128HmacSha1_80, key).write(&mut String::new()).err()
    };
    assert_eq!(write(good.clone()), None);
    assert_eq!(write(MasterKey { key: vec![1; 32], ..good.clone() }), Some(CryptoLineError::Key));
    assert_eq!(write(MasterKey { salt: vec![1; 12], ..good.clone() }), Some(CryptoLineError::Key));
    assert_eq!(write(MasterKey { mki: vec![1; 129], ..good.clone() }), Some(CryptoLineError::Mki));
    assert_eq!(write(MasterKey { mki: vec![0; 4], ..good.clone() }), Some(CryptoLineError::Mki));
    let endless = MasterKey { lifetime_packets: Some(SRTP_PACKETS_MAX + 1), ..good.clone() };
    assert_eq!(write(endless), Some(CryptoLineError::Lifetime));
}

#[test]
fn debug_output_contains_no_key() {
    let line = with_key("|2^20|1:4").unwrap();
    let printed = format!("{line:?} {:?}", line.key);
    assert_eq!(printed, "CryptoLine(1 AES_CM_128_HMAC_SHA1_80) MasterKey(..)");
    assert!(CryptoLineError::Key.to_string().contains("base64"));
}

#[test]
fn mutated_lines_never_panic_and_parsed_lines_are_written_again() {
    let line = format!("1 AES_CM_128_HMAC_SHA1_80 {KEY}|2^20|1:4 WSH=128 -X=1");
    let mut accepted = 0;
    for seed in 0..25_000 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut bytes = line.clone().into_bytes();
        for _ in 0..=rng.below(3) {
            if bytes.is_empty() {
                break;
            }
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => bytes[at] = b" |:;=^0129-"[rng.below(11) as usize],
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok(read) = CryptoLine::parse(&bytes) {
            accepted += 1;
            assert_eq!(parse(&written(&read)), Ok(read), "seed {seed}");
        }
    }
    assert!(accepted > 1000, "{accepted}");
}

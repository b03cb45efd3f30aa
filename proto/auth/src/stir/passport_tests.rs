extern crate std;

use super::super::key::Signer;
use super::*;
use alloc::string::ToString;
use alloc::vec;

/// RFC 8225 appendix A.1.
const RFC_PRIVATE_KEY: &str = "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b02010104208bbab64d9bcdf550c583c572a823f4e9\
    b113ad1daff0c46fafcf6b9f88be5006a14403420004167da8f51d4113a68342aceb69f4a03ca3457bf48b960112adf42d5c14f932777141\
    3f849e88d6714210eb0f4b5d04796cdffc057bcfbe2b616b3f2405f6fba1";
/// RFC 8225 appendix A.2.
const RFC_PUBLIC_KEY: &str = "04f0735b41dfd39af08ac0f28790c17d7d271abc6787efc61353ca8b4bc2391cb1d24a69404cb72c950321342fce865581602eb6\
    ea7225a3b5de79b612ed26f7ee";
const RFC_HEADER: &str = "eyJhbGciOiJFUzI1NiIsInR5cCI6InBhc3Nwb3J0IiwieDV1IjoiaHR0cHM6Ly9jZXJ0LmV4YW1wbGUub3JnL3Bhc3Nwb3J0LmNlciJ9";
const RFC_PAYLOAD: &str = "eyJkZXN0Ijp7InVyaSI6WyJzaXA6YWxpY2VAZXhhbXBsZS5jb20iXX0sImlhdCI6MTQ3MTM3NTQxOCwib3JpZyI6eyJ0biI6IjEyMTU1NTUxMjEyIn19";
const RFC_SIGNATURE: &str =
    "VLBCIVDCaeK6M4hLJb6SHQvacAQVvoiiEOWQ_iUkqk79UD81fHQ0E1b3_GluIkba7UWYRM47ZbNFdOJquE35cw";
const RFC_URL: &str = "https://cert.example.org/passport.cer";

/// Token of PyJWT 2.6 with the key of appendix A.1 and the header and claims of the example.
const PYJWT_SIGNATURE: &str =
    "lXut2_Q-KdL65EEu0hFEbLtsKncocL-ZjrNeoXQeSAMo2kX3pyxqnw0Lz0bsOUGmlUZhxJ7EpdkoS6_rheJC6g";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn signer() -> Signer {
    Signer::from_der(&hex(RFC_PRIVATE_KEY), RFC_URL).unwrap()
}

fn claims() -> Claims {
    Claims {
        origin: "12155550121".into(),
        destinations: vec!["12155550131".into()],
        made_s: 1_443_208_345,
        attestation: Some(Attestation::Full),
        origin_id: "123e4567-e89b-12d3-a456-426655440000".into(),
        diverted: Box::default(),
    }
}

fn base64(text: &str) -> String {
    use base64ct::{Base64UrlUnpadded, Encoding};
    let mut out = vec![0; 4 * text.len().div_ceil(3)];
    Base64UrlUnpadded::encode(text.as_bytes(), &mut out).unwrap().to_string()
}

/// Value of an Identity header field with this header and these claims, signed by nobody.
fn value(header: &str, payload: &str, params: &str) -> String {
    format!("{}.{}.{};{params}", base64(header), base64(payload), base64(&"s".repeat(64)))
}

#[test]
fn the_example_of_the_rfc_is_read_and_its_form_is_ours() {
    let value = format!("{RFC_HEADER}.{RFC_PAYLOAD}.{RFC_SIGNATURE};info=<{RFC_URL}>;alg=ES256");
    let passport = Passport::parse(value.as_bytes()).unwrap();
    let claims = Claims { origin: "12155551212".into(), made_s: 1_471_375_418, ..Claims::default() };
    assert_eq!((passport.kind, &*passport.url, &passport.claims), (PassportKind::Base, RFC_URL, &claims));
    assert_eq!(base64(&PassportKind::Base.header(RFC_URL)), RFC_HEADER);
    // Neither of the keys that the appendix shows has made the signature that it shows; PyJWT says the same.
    for key in [hex(RFC_PUBLIC_KEY), signer().public_key()] {
        assert!(!passport.is_signed_by(&key));
    }
    let value = format!("{RFC_HEADER}.{RFC_PAYLOAD}.{PYJWT_SIGNATURE};info=<{RFC_URL}>");
    assert!(Passport::parse(value.as_bytes()).unwrap().is_signed_by(&signer().public_key()));
}

#[test]
fn claims_have_the_order_of_the_rfcs() {
    assert_eq!(
        claims().payload(),
        r#"{"attest":"A","dest":{"tn":["12155550131"]},"iat":1443208345,"orig":{"tn":"12155550121"},"origid":"123e4567-e89b-12d3-a456-426655440000"}"#
    );
    let div = Claims {
        attestation: None,
        origin_id: Box::default(),
        destinations: vec!["12155551214".into()],
        diverted: "12155551213".into(),
        ..claims()
    };
    assert_eq!(
        div.payload(),
        r#"{"dest":{"tn":["12155551214"]},"div":{"tn":"12155551213"},"iat":1443208345,"orig":{"tn":"12155550121"}}"#
    );
    assert_eq!(
        PassportKind::Shaken.header("https://a.example/c"),
        r#"{"alg":"ES256","ppt":"shaken","typ":"passport","x5u":"https://a.example/c"}"#
    );
}

#[test]
fn what_is_signed_is_read_and_verified() {
    let signer = signer();
    for (kind, claims) in [
        (PassportKind::Shaken, claims()),
        (
            PassportKind::Div,
            Claims { diverted: "1215".into(), attestation: None, origin_id: Box::default(), ..claims() },
        ),
    ] {
        let value = signer.identity(kind, &claims);
        assert_eq!(signer.identity(kind, &claims), value, "a signature is deterministic");
        let passport = Passport::parse(&value).unwrap();
        assert_eq!((passport.kind, &passport.claims), (kind, &claims));
        assert!(passport.is_signed_by(&signer.public_key()));
        assert!(!passport.is_signed_by(&hex(RFC_PUBLIC_KEY)));
        for key in [&b""[..], b"\x04", &[4; 65], &[0; 65], &[2; 33]] {
            assert!(!passport.is_signed_by(key));
        }
    }
    let text = alloc::format!("{signer:?}");
    assert!(text.contains(RFC_URL) && !text.contains("key"), "{text}");
}

#[test]
fn a_key_is_one_of_p256() {
    assert!(Signer::from_der(b"", RFC_URL).is_none());
    // The same with the identifier of P-384.
    let other = RFC_PRIVATE_KEY.replace("06082a8648ce3d030107", "06082a8648ce3d030122");
    assert!(Signer::from_der(&hex(&other), RFC_URL).is_none());
    let sec1 = "30770201010420".to_string()
        + "8bbab64d9bcdf550c583c572a823f4e9b113ad1daff0c46fafcf6b9f88be5006"
        + "a00a06082a8648ce3d030107a14403420004167da8f51d4113a68342aceb69f4a03ca3457bf48b960112adf42d5c14f93277"
        + "71413f849e88d6714210eb0f4b5d04796cdffc057bcfbe2b616b3f2405f6fba1";
    assert_eq!(Signer::from_der(&hex(&sec1), RFC_URL), Some(signer()));
}

#[test]
fn what_contradicts_itself_or_is_not_supported_is_refused() {
    use BadPassport::{Algorithm, Kind, Malformed};
    let header = PassportKind::Shaken.header("https://a.example/c");
    let payload = claims().payload();
    let params = "info=<https://a.example/c>;alg=ES256;ppt=\"shaken\"";
    let good = value(&header, &payload, params);
    assert!(Passport::parse(good.as_bytes()).is_ok());
    assert!(Passport::parse(good.replace("\"shaken\"", "shaken").as_bytes()).is_ok(), "a token is one too");
    let with_header = |from: &str, to: &str| value(&header.replace(from, to), &payload, params);
    let with_payload = |from: &str, to: &str| value(&header, &payload.replace(from, to), params);
    let with_params = |params: &str| value(&header, &payload, params);
    for (case, expected) in [
        (String::new(), Malformed),
        (";".to_string(), Malformed),
        (good.replace(';', ""), Malformed),
        (good.replacen('.', "", 1), Malformed),
        (good.replacen('.', "..", 1), Malformed),
        (format!("{}{good}", "A".repeat(IDENTITY_BYTES_MAX)), Malformed),
        (with_header("ES256", "none"), Algorithm),
        (with_header("ES256", "HS256"), Algorithm),
        (with_header("\"ES256\"", "[\"ES256\"]"), Algorithm),
        (with_header("shaken", "rph"), Malformed),
        (with_header("passport", "JWT"), Malformed),
        (with_header("\"typ\"", "\"crit\":[\"b64\"],\"b64\":false,\"typ\""), Malformed),
        (with_header("https://a.example/c", "https://b.example/c"), Malformed),
        (with_header("{", "["), Malformed),
        (with_params("info=<https://a.example/c>;ppt=rph"), Kind),
        (with_params("info=<https://a.example/c>;ppt=shaken;alg=none"), Algorithm),
        (with_params("info=<https://a.example/c>"), Malformed),
        (with_params("alg=ES256;ppt=shaken"), Malformed),
        (with_params("info=<https://a.example/c>;info=<https://b.example/>;ppt=shaken"), Malformed),
        (with_params("info=<https://a.example/c;ppt=shaken"), Malformed),
        (with_payload("\"attest\":\"A\",", ""), Malformed),
        (with_payload("\"A\"", "\"D\""), Malformed),
        (with_payload("\"iat\":1443208345", "\"iat\":\"1443208345\""), Malformed),
        (with_payload("\"iat\":1443208345", "\"iat\":-1"), Malformed),
        (with_payload("orig\"", "from\""), Malformed),
        (with_payload("{\"tn\":\"12155550121\"}", "{}"), Malformed),
        (value(&header, &"[".repeat(2000), params), Malformed),
    ] {
        assert_eq!(Passport::parse(case.as_bytes()), Err(expected), "{case}");
    }
}

/// Values with one byte changed, removed or duplicated, and cut ones: none panics, and none of another token is taken for a signed one.
#[test]
fn changed_values_are_refused_or_not_signed() {
    let (signer, mut seed) = (signer(), 1_u64);
    let good = signer.identity(PassportKind::Shaken, &claims());
    let token_len = good.iter().position(|&byte| byte == b';').unwrap();
    let signed = Passport::parse(&good).unwrap();
    for round in 0..4000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, byte) = ((seed >> 33) as usize % good.len(), (seed >> 24) as u8);
        let mut changed = good.clone();
        match round % 4 {
            0 => changed[at] = byte,
            1 => drop(changed.remove(at)),
            2 => changed.insert(at, byte),
            _ => changed.truncate(at),
        }
        let Ok(passport) = Passport::parse(&changed) else { continue };
        let is_same_token = changed.get(..token_len) == good.get(..token_len);
        if is_same_token {
            assert_eq!(passport.claims, signed.claims);
        } else if round < 400 {
            assert!(!passport.is_signed_by(&signer.public_key()), "{at} {byte}");
        }
    }
}

/// Prints the cost of a signature and of a check beside those of ECDSA alone: `cargo test --profile optimized -p ringway-auth --lib cost --
/// --ignored --nocapture`.
#[test]
#[ignore = "measures times"]
fn cost() {
    use p256::ecdsa::signature::{Signer as _, Verifier as _};
    use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
    use std::time::Instant;

    fn median_us(mut run: impl FnMut()) -> f64 {
        let mut times: Vec<f64> = (0..1000)
            .map(|_| {
                let began = Instant::now();
                run();
                began.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
    let (signer, claims) = (signer(), claims());
    let value = signer.identity(PassportKind::Shaken, &claims);
    let public_key = signer.public_key();
    let bare = SigningKey::from(p256::SecretKey::from_der(&hex(RFC_PRIVATE_KEY)).unwrap());
    let bare_key = VerifyingKey::from(&bare);
    let text = [b'a'; 300];
    let signature: Signature = bare.sign(&text);
    for (what, bare, whole) in [
        (
            "signature",
            median_us(|| assert!(std::hint::black_box::<Signature>(bare.sign(&text)) == signature)),
            median_us(|| drop(std::hint::black_box(signer.identity(PassportKind::Shaken, &claims)))),
        ),
        (
            "check",
            median_us(|| assert!(bare_key.verify(&text, &signature).is_ok())),
            median_us(|| assert!(Passport::parse(&value).unwrap().is_signed_by(&public_key))),
        ),
    ] {
        std::println!(
            "{what}: ECDSA alone {bare:.1} us, with PASSporT {whole:.1} us, {:.3} times",
            whole / bare
        );
        assert!(whole <= 1.3 * bare, "{what}");
    }
}

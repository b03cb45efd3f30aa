//! Check of a signer's certificate: its chain, its time, its key, and its list of numbers (RFC 8226 §9).

use ringway_sansio::{SignerCertificate, SignerNumbers};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;
use std::time::Duration;
use x509_parser::oid_registry::{OID_EC_P256, Oid, asn1_rs::oid};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Authorities of signers.
pub(super) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    pub(super) fn new(list: &[CertificateDer<'static>]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(list.iter().cloned());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { verifier: verifier.map_err(|why| why.to_string())? })
    }

    /// Reads and checks a certificate with its chain, in PEM or the first one in DER; returns the time for which it is valid.
    ///
    /// # Errors
    /// The reason why it is not accepted.
    pub(super) fn accept(&self, body: &[u8]) -> Result<(SignerCertificate, Duration), String> {
        let chain = read_chain(body)?;
        let (first, others) = chain.split_first().ok_or("there is none")?;
        let now = UnixTime::now();
        self.verifier.verify_client_cert(first, others, now).map_err(|why| why.to_string())?;
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| "it is not X.509")?;
        let not_after_s = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or_default();
        let key = parsed.public_key();
        let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
        let point = &*key.subject_public_key.data;
        if curve != Some(OID_EC_P256) || point.len() != POINT_BYTES || point.first() != Some(&4) {
            return Err("its key is none of P-256".to_owned());
        }
        let list = parsed.get_extension_unique(&TN_AUTH_LIST).map_err(|_| "it has two lists of numbers")?;
        let list = list.ok_or("it has no list of numbers or providers (TNAuthList)")?;
        let numbers = read_numbers(list.value).ok_or("its list of numbers is not valid")?;
        let valid_for = Duration::from_secs(not_after_s.saturating_sub(now.as_secs()));
        Ok((SignerCertificate { public_key: point.into(), numbers: numbers.into() }, valid_for))
    }
}

fn read_chain(body: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let is_pem = body.windows(BEGIN.len()).any(|part| part == BEGIN);
    if !is_pem {
        return Ok(vec![CertificateDer::from(body.to_vec())]);
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(body).take(CHAIN_MAX + 1).collect();
    match chain {
        Ok(chain) if chain.len() <= CHAIN_MAX => Ok(chain),
        Ok(_) => Err("its chain is too long"),
        Err(_) => Err("it is not valid PEM"),
    }
}

/// Reads a TNAuthList; empty: it has a provider, whose numbers it does not list.
fn read_numbers(der: &[u8]) -> Option<Vec<SignerNumbers>> {
    let (mut list, rest) = element(der, SEQUENCE)?;
    let (mut numbers, mut has_provider) = (Vec::new(), false);
    while let Some(&tag) = list.first() {
        let (entry, behind) = element(list, tag)?;
        list = behind;
        match tag {
            PROVIDER => {
                whole(entry, IA5_STRING)?;
                has_provider = true;
            }
            RANGE => {
                let (first, count) = element(whole(entry, SEQUENCE)?, IA5_STRING)?;
                let count = positive(whole(count, INTEGER)?)?;
                numbers.push(SignerNumbers { first: number(first)?, count });
            }
            ONE => numbers.push(SignerNumbers { first: number(whole(entry, IA5_STRING)?)?, count: 1 }),
            _ => return None,
        }
        if numbers.len() > NUMBERS_MAX {
            return None;
        }
    }
    if has_provider {
        numbers.clear();
    }
    (rest.is_empty() && (has_provider || !numbers.is_empty())).then_some(numbers)
}

/// Value of a positive INTEGER of up to 64 bits.
fn positive(content: &[u8]) -> Option<u64> {
    let is_negative = content.first().is_none_or(|byte| *byte >= 0x80);
    let zeros = content.iter().take_while(|byte| **byte == 0).count();
    let digits = content.get(zeros..).unwrap_or_default();
    (!is_negative && (1..=8).contains(&digits.len()))
        .then(|| digits.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn number(text: &[u8]) -> Option<Box<str>> {
    let is_number = text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'#' | b'*'));
    let text = core::str::from_utf8(text).ok()?;
    ((1..=15).contains(&text.len()) && is_number).then(|| text.into())
}

/// Content of the DER element with this tag at the start, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[own, len], rest) = der.split_first_chunk()?;
    let (len, rest) = match len {
        0..=0x7f => (usize::from(len), rest),
        0x81 => rest.split_first().map(|(len, rest)| (usize::from(*len), rest))?,
        0x82 => rest.split_first_chunk().map(|(len, rest)| (usize::from(u16::from_be_bytes(*len)), rest))?,
        _ => return None,
    };
    if own == tag { rest.split_at_checked(len) } else { None }
}

/// Content of an element that is all.
fn whole(der: &[u8], tag: u8) -> Option<&[u8]> {
    element(der, tag).filter(|(_, rest)| rest.is_empty()).map(|(content, _)| content)
}

const BEGIN: &[u8] = b"-----BEGIN";
const SEQUENCE: u8 = 0x30;
const IA5_STRING: u8 = 0x16;
const INTEGER: u8 = 0x02;
/// Choices of an entry.
const PROVIDER: u8 = 0xa0;
const RANGE: u8 = 0xa1;
const ONE: u8 = 0xa2;
/// Extension of RFC 8226.
const TN_AUTH_LIST: Oid<'static> = oid!(1.3.6.1.5.5.7.1.26);
/// Length of an uncompressed point of P-256.
const POINT_BYTES: usize = 65;
/// Maximum number of certificates of a chain.
const CHAIN_MAX: usize = 6;
/// Maximum number of entries of a list.
const NUMBERS_MAX: usize = 1000;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ringway_sansio::{Rng, Seed};

    /// Bytes with a few other bits, and cut short each third time.
    pub(in crate::signers) fn changed(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
        let mut changed = bytes.to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            changed[at] ^= 1 << rng.below(8);
        }
        if rng.below(3) == 0 {
            changed.truncate(rng.below(bytes.len() as u64) as usize);
        }
        changed
    }

    #[test]
    fn lists_of_numbers_are_read() {
        let numbers = |first: &str, count| SignerNumbers { first: first.into(), count };
        let provider = b"\x30\x08\xa0\x06\x16\x041234";
        assert_eq!(read_numbers(provider), Some(Vec::new()));
        let both = b"\x30\x14\xa2\x07\x16\x0549301\xa1\x09\x30\x07\x16\x02\x34\x39\x02\x01\x0a";
        assert_eq!(read_numbers(both), Some(vec![numbers("49301", 1), numbers("49", 10)]));
        let with_provider = b"\x30\x0c\xa2\x03\x16\x017\xa0\x05\x16\x03abc";
        assert_eq!(read_numbers(with_provider), Some(Vec::new()));
        for der in [
            &b""[..],
            b"\x30\x00",
            b"\x30",
            b"\x30\x80",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x01\xa0",
            b"\x30\x04\xa3\x02\x16\x00",
            b"\x30\x05\xa2\x03\x16\x01a",
            b"\x30\x04\xa2\x02\x16\x00",
            b"\x30\x0b\xa1\x09\x30\x07\x16\x02\x34\x39\x02\x01\xff",
            b"\x30\x0a\xa1\x08\x30\x06\x16\x02\x34\x39\x02\x00",
            b"\x30\x12\xa1\x10\x30\x0e\x16\x01\x34\x02\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01",
            b"\x30\x05\xa2\x03\x16\x0150",
        ] {
            assert_eq!(read_numbers(der), None, "{der:x?}");
        }
    }

    #[test]
    fn changed_lists_of_numbers_are_read_within_limits() {
        let list = b"\x30\x14\xa2\x07\x16\x0549301\xa1\x09\x30\x07\x16\x02\x34\x39\x02\x01\x0a";
        let mut rng = Rng::new(&Seed::from_number(1));
        for _ in 0..20_000 {
            let changed = changed(list, &mut rng);
            for numbers in read_numbers(&changed).unwrap_or_default() {
                assert!((1..=15).contains(&numbers.first.len()) && numbers.count > 0, "{changed:x?}");
            }
        }
    }
}

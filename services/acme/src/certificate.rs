//! Certificates: the request with a new key, the check of what a directory issued, the placeholder, and those of TLS-ALPN-01.

use crate::config::AcmeError;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Validity of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Begin.
    pub not_before_s: u64,
    /// End.
    pub not_after_s: u64,
}

impl Validity {
    /// True in the first half of the life.
    pub(crate) fn is_in_first_half(self, wall_s: u64) -> bool {
        let life_s = self.not_after_s.saturating_sub(self.not_before_s);
        (self.not_before_s..self.not_before_s.saturating_add(life_s / 2)).contains(&wall_s)
    }
}

/// A key of its own, and the request for its certificate.
pub(crate) struct SigningRequest {
    key: KeyPair,
    der: Vec<u8>,
}

impl SigningRequest {
    pub(crate) fn new(domains: &[String]) -> Result<Self, AcmeError> {
        let mut params = CertificateParams::new(domains).map_err(not_made)?;
        params.distinguished_name = DistinguishedName::new();
        let key = new_key()?;
        let der = params.serialize_request(&key).map_err(not_made)?.der().to_vec();
        Ok(Self { key, der })
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Checks the chain that a directory issued, and returns the content of the certificate's file.
    ///
    /// # Errors
    /// It is not one for this key and exactly these names, or not valid now.
    pub(crate) fn accept(
        &self,
        chain: &str,
        domains: &[String],
        wall_s: u64,
    ) -> Result<(Validity, String), AcmeError> {
        let refused = |why: &str| AcmeError::new(format!("the directory issued a certificate that {why}"));
        let list: Vec<_> = CertificateDer::pem_slice_iter(chain.as_bytes()).take(CHAIN_MAX + 1).collect();
        let list: Result<Vec<_>, _> = list.into_iter().collect();
        let list = list.map_err(|_| refused("is not valid PEM"))?;
        let Some(first) = list.first() else { return Err(refused("is not there")) };
        if list.len() > CHAIN_MAX {
            return Err(refused("has too long a chain"));
        }
        // Another section, such as a private key, would be loaded in place of ours.
        if chain.matches("-----BEGIN ").count() != list.len() {
            return Err(refused("has other contents beside it"));
        }
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| refused("is not X.509"))?;
        if *parsed.public_key().subject_public_key.data != *self.key.public_key_raw() {
            return Err(refused("has another key than the one that was sent"));
        }
        let names: BTreeSet<String> = names_of(first).into_iter().collect();
        if names != domains.iter().cloned().collect() {
            let names: Vec<String> = names.into_iter().collect();
            return Err(refused(&format!("is for {} instead of {}", names.join(", "), domains.join(", "))));
        }
        let validity = validity_of(first).ok_or_else(|| refused("has no validity"))?;
        if validity.not_after_s <= wall_s + LIFE_MIN_S || validity.not_before_s > wall_s + CLOCK_SKEW_S {
            return Err(refused("is not valid now; check this machine's clock"));
        }
        let key = self.key.serialize_pem();
        let private = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| refused("has no key"))?;
        CertifiedKey::from_der(list, private, &aws_lc_rs::default_provider())
            .map_err(|why| refused(&format!("is not supported: {why}")))?;
        Ok((validity, format!("{key}{chain}")))
    }
}

/// Self-signed certificate for the time until the first order succeeds, with its key: the content of the certificate's file.
pub(crate) fn placeholder(domains: &[String]) -> Result<String, AcmeError> {
    let mut params = CertificateParams::new(domains).map_err(not_made)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, PLACEHOLDER);
    let now_s = i64::try_from(wall_s()).unwrap_or_default();
    let time = |seconds| {
        OffsetDateTime::from_unix_timestamp(seconds)
            .map_err(|_| AcmeError::new("the clock of this machine is not set; set it"))
    };
    params.not_before = time(now_s - CLOCK_SKEW_S as i64)?;
    params.not_after = time(now_s + PLACEHOLDER_S)?;
    let key = new_key()?;
    let certificate = params.self_signed(&key).map_err(not_made)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

pub(crate) fn is_placeholder(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let mut names = parsed.subject().iter_common_name();
    parsed.subject() == parsed.issuer() && names.any(|name| name.as_str() == Ok(PLACEHOLDER))
}

/// Certificate that answers TLS-ALPN-01 for a domain: with the digest of the key authorization (RFC 8737 §3).
pub(crate) fn of_challenge(domain: &str, digest: &[u8]) -> Result<Arc<CertifiedKey>, AcmeError> {
    let mut params = CertificateParams::new([domain.to_owned()]).map_err(not_made)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = new_key()?;
    let certificate = params.self_signed(&key).map_err(not_made)?;
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(AcmeError::new)?;
    let signer =
        aws_lc_rs::sign::any_supported_type(&private).map_err(|why| AcmeError::new(why.to_string()))?;
    // Its critical extension is unknown to the library, which would refuse to compare key and certificate.
    Ok(Arc::new(CertifiedKey::new(vec![certificate.der().clone()], signer)))
}

pub(crate) fn validity_of(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let validity = parsed.validity();
    Some(Validity { not_before_s: seconds(validity.not_before), not_after_s: seconds(validity.not_after) })
}

/// DNS names among the alternative names, in lower case; other kinds of names as what they are.
pub(crate) fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let names = parsed.subject_alternative_name().ok().flatten();
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => name.to_ascii_lowercase(),
        other => other.to_string(),
    };
    names.map(|names| names.value.general_names.iter().map(name).collect()).unwrap_or_default()
}

/// Seconds since 1970.
pub(crate) fn wall_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn new_key() -> Result<KeyPair, AcmeError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(not_made)
}

fn not_made(why: rcgen::Error) -> AcmeError {
    AcmeError::new(format!("cannot make a certificate: {why}"))
}

const PLACEHOLDER: &str = "Ringway placeholder";
/// Validity of the placeholder.
const PLACEHOLDER_S: i64 = 30 * 86_400;
/// Difference to the clock of a directory.
const CLOCK_SKEW_S: u64 = 3600;
/// Rest of its life that an issued certificate must have.
const LIFE_MIN_S: u64 = 60;
/// Maximum number of certificates of a chain.
const CHAIN_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Issues a certificate as a directory that is changed by `change` would.
    fn issued(key: &KeyPair, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::new(domains(names)).unwrap();
        params.not_before = OffsetDateTime::from_unix_timestamp(NOW_S as i64 - 60).unwrap();
        params.not_after = OffsetDateTime::from_unix_timestamp(NOW_S as i64 + 1000).unwrap();
        change(&mut params);
        params.self_signed(key).unwrap().pem()
    }

    const NOW_S: u64 = 1_800_000_000;

    #[test]
    fn only_a_certificate_for_the_key_and_exactly_the_names_is_accepted() {
        let wanted = domains(&["example.org", "sip.example.org"]);
        let request = SigningRequest::new(&wanted).unwrap();
        let accept = |chain: &str| request.accept(chain, &wanted, NOW_S);
        let good = issued(&request.key, &["SIP.example.org", "example.org"], |_| {});
        let (validity, file) = accept(&good).unwrap();
        assert_eq!(validity, Validity { not_before_s: NOW_S - 60, not_after_s: NOW_S + 1000 });
        assert!(file.starts_with("-----BEGIN PRIVATE KEY-----") && file.ends_with(&good), "{file}");
        let other_key = new_key().unwrap();
        let at = |s: u64| OffsetDateTime::from_unix_timestamp(s as i64).unwrap();
        let names = ["example.org", "sip.example.org"];
        for (chain, why) in [
            (issued(&other_key, &names, |_| {}), "another key"),
            (issued(&request.key, &["example.org"], |_| {}), "is for example.org instead"),
            (
                issued(&request.key, &["a.example", "example.org", "sip.example.org"], |_| {}),
                "is for a.example",
            ),
            (issued(&request.key, &["*.example.org"], |_| {}), "is for *.example.org"),
            (issued(&request.key, &names, |params| params.not_after = at(NOW_S)), "not valid now"),
            (issued(&request.key, &names, |params| params.not_before = at(NOW_S + 5000)), "not valid now"),
            (format!("{}{good}", other_key.serialize_pem()), "other contents"),
            (good.repeat(CHAIN_MAX + 1), "too long"),
            ("<html>".to_owned(), "is not there"),
            (String::new(), "is not there"),
            ("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n".to_owned(), "not valid PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(), "not X.509"),
        ] {
            let error = accept(&chain).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }

    #[test]
    fn the_placeholder_is_recognized_and_an_issued_one_is_none() {
        let first = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let placeholder = first(&placeholder(&domains(&["example.org"])).unwrap());
        assert!(is_placeholder(&placeholder) && names_of(&placeholder) == ["example.org"]);
        let key = new_key().unwrap();
        assert!(!is_placeholder(&first(&issued(&key, &["example.org"], |_| {}))));
    }

    #[test]
    fn the_certificate_of_a_challenge_has_the_critical_extension_with_the_digest() {
        let key = of_challenge("example.org", &[7; 32]).unwrap();
        let (_, parsed) = X509Certificate::from_der(&key.cert[0]).unwrap();
        let extension = parsed.extensions().iter().find(|of| of.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let extension = extension.unwrap();
        assert!(extension.critical);
        assert_eq!(extension.value, [&[4, 32][..], &[7; 32]].concat());
        assert_eq!(names_of(&key.cert[0]), ["example.org"]);
    }
}

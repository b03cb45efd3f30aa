//! The private certificate authority, and the certificates that it issues.

use crate::failure::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use time::OffsetDateTime;
use x509_parser::pem::parse_x509_pem;

/// Certificate authority with its key.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    /// End of its validity, in seconds since 1970.
    not_after: i64,
}

/// Holder of a certificate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    /// Server of a SIP domain (RFC 5922 §7.1).
    Server { domain: &'a str, addresses: &'a [IpAddr] },
    /// User of a SIP domain.
    User { name: &'a str, domain: &'a str },
}

/// Certificate with its key.
pub(super) struct Issued {
    pub(super) pem: String,
    pub(super) key_pem: String,
    pub(super) not_after: i64,
}

impl Authority {
    /// Makes an authority for ten years.
    pub(super) fn new(domain: &str, now: i64) -> Result<Self, Failure> {
        let not_after = now + CA_DAYS * DAY_S;
        let mut params = params(&format!("Ringway CA of {domain}"), now, not_after)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = new_key()?;
        let pem = params.self_signed(&key).map_err(not_made)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem, not_after })
    }

    /// Reads the authority of a folder. `None`: there is none.
    pub(super) fn read(certificate: &Path, key: &Path, now: i64) -> Result<Option<Self>, Failure> {
        let (pem, key_pem) = match (read(certificate)?, read(key)?) {
            (None, None) => return Ok(None),
            (Some(pem), Some(key_pem)) => (pem, key_pem),
            (Some(_), None) => return Err(half(certificate, key)),
            (None, Some(_)) => return Err(half(key, certificate)),
        };
        let unusable = |path: &Path, text: &str| {
            Failure::failed(format!(
                "{}: {text}; restore the file, or make a new authority in another folder by --out",
                path.display()
            ))
        };
        let pair =
            KeyPair::from_pem(&key_pem).map_err(|_| unusable(key, "this is not a private key in PEM"))?;
        let (_, parsed) = parse_x509_pem(pem.as_bytes())
            .map_err(|_| unusable(certificate, "this is not a certificate in PEM"))?;
        let parsed =
            parsed.parse_x509().map_err(|_| unusable(certificate, "this is not a certificate in PEM"))?;
        if !parsed.is_ca() {
            return Err(unusable(certificate, "this is not the certificate of an authority"));
        }
        if parsed.public_key().subject_public_key.data != pair.public_key_raw() {
            return Err(unusable(key, "this key does not belong to the certificate of the authority"));
        }
        let not_after = parsed.validity().not_after.timestamp();
        if not_after <= now {
            return Err(unusable(certificate, "the certificate of the authority has expired"));
        }
        let issuer = Issuer::from_ca_cert_pem(&pem, pair)
            .map_err(|_| unusable(certificate, "this certificate of an authority is not supported"))?;
        Ok(Some(Self { issuer, pem, not_after }))
    }

    /// Issues a certificate with a new key. It is not valid for longer than the authority.
    pub(super) fn issue(&self, subject: &Subject<'_>, now: i64, days: u32) -> Result<Issued, Failure> {
        let not_after = (now + i64::from(days) * DAY_S).min(self.not_after);
        let (common_name, usages) = match subject {
            Subject::Server { domain, .. } => {
                // A server is also the client of other servers (RFC 5922 §7.4).
                let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
                ((*domain).to_owned(), usages)
            }
            Subject::User { name, domain } => {
                (format!("{name}@{domain}"), vec![ExtendedKeyUsagePurpose::ClientAuth])
            }
        };
        let mut params = params(&common_name, now, not_after)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names = subject.names()?;
        let key = new_key()?;
        let pem = params.signed_by(&key, &self.issuer).map_err(not_made)?.pem();
        Ok(Issued { pem, key_pem: key.serialize_pem(), not_after })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    pub(super) const fn not_after(&self) -> i64 {
        self.not_after
    }
}

impl Subject<'_> {
    /// Subject alternative names.
    fn names(&self) -> Result<Vec<SanType>, Failure> {
        match self {
            Self::Server { domain, addresses } => {
                let dns = SanType::DnsName((*domain).try_into().map_err(not_made)?);
                let mut names = vec![dns, uri(&format!("sip:{domain}"))?];
                names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
                Ok(names)
            }
            Self::User { name, domain } => Ok(vec![uri(&format!("sip:{name}@{domain}"))?]),
        }
    }
}

fn uri(uri: &str) -> Result<SanType, Failure> {
    Ok(SanType::URI(uri.try_into().map_err(not_made)?))
}

fn params(common_name: &str, now: i64, not_after: i64) -> Result<CertificateParams, Failure> {
    let time = |seconds: i64| {
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| {
            Failure::failed("the clock of this machine is not set; set it, and make the certificates then")
        })
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    // RFC 5280 A.1: a common name has at most 64 characters. It is for people; clients compare the alternative names.
    let common_name: String = common_name.chars().take(64).collect();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = time(now - CLOCK_SKEW_S)?;
    params.not_after = time(not_after)?;
    Ok(params)
}

fn new_key() -> Result<KeyPair, Failure> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(not_made)
}

fn not_made(error: rcgen::Error) -> Failure {
    Failure::failed(format!("cannot make a certificate: {error}; try again"))
}

/// Content of a file. `None`: it does not exist.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::failed(format!(
            "{}: cannot read: {error}; permit reading, or choose another folder by --out",
            path.display()
        ))),
    }
}

fn half(found: &Path, missing: &Path) -> Failure {
    Failure::failed(format!(
        "{}: the file exists, and {} does not; restore that file, or make a new authority in another folder by --out",
        found.display(),
        missing.display()
    ))
}

const DAY_S: i64 = 86_400;

const CA_DAYS: i64 = 3650;

/// Certificates are valid from this long before they are made, for clients whose clocks are slow.
const CLOCK_SKEW_S: i64 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_read_until_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("ca.pem"), folder.path().join("ca-key.pem"));
        let now = 1_800_000_000;
        let made = Authority::new("example.org", now).unwrap();
        std::fs::write(&certificate, made.pem()).unwrap();
        std::fs::write(&key, made.key_pem()).unwrap();
        let read = Authority::read(&certificate, &key, made.not_after() - 1).unwrap().unwrap();
        assert_eq!((read.not_after(), read.pem()), (made.not_after(), made.pem()));
        let subject = Subject::User { name: "alice", domain: "example.org" };
        assert_eq!(read.issue(&subject, now, 1).unwrap().not_after, now + DAY_S);
        assert_eq!(read.issue(&subject, made.not_after() - 1, 1).unwrap().not_after, made.not_after());
        let expired = Authority::read(&certificate, &key, made.not_after()).err().unwrap();
        assert!(expired.lines()[0].contains("has expired"), "{expired:?}");
    }

    #[test]
    fn a_clock_that_is_not_set_is_reported() {
        let error = Authority::new("example.org", i64::MAX / 2).err().unwrap();
        assert!(error.lines()[0].contains("clock"), "{error:?}");
    }
}

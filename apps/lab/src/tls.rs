//! TLS of an experiment: what both sides offer, and certificates that the campaign makes with the program `openssl`.

use crate::load::LoadTls;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ringway_tls::{
    Backend, ClientAuth, Observer, Offer, OfferSettings, PeerCa, Role, Suite, TlsFiles, TlsVersion,
};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Key of the certificates, and of their authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// RSA of 1,024 bits: for OpenSSL only.
    Rsa1024,
    /// RSA of 2,048 bits.
    Rsa2048,
    /// RSA of 4,096 bits.
    Rsa4096,
}

/// TLS of a variant, of the server under test and of the callers and called users.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsUse {
    /// Key of the certificates.
    pub key: KeyKind,
    /// Only version; `None`: the newest that both sides have.
    pub version: Option<TlsVersion>,
    /// Cipher suites in order of preference; empty: those of the libraries.
    pub suites: Vec<Suite>,
    /// Both sides show a certificate.
    pub is_mutual: bool,
    /// Later connections resume the session of an earlier one.
    pub is_resumed: bool,
}

/// Files of certificates with one kind of key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// Certificate of the authority.
    pub ca: PathBuf,
    /// Certificate and key of the server under test.
    pub server: (PathBuf, PathBuf),
    /// Certificate and key of the callers and called users.
    pub users: (PathBuf, PathBuf),
}

/// TLS of a server under test.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTls {
    /// Its use.
    pub tls: TlsUse,
    /// Its certificates.
    pub certificates: Certificates,
}

impl KeyKind {
    /// All kinds with their names in files and results.
    pub const ALL: [(&'static str, Self); 4] = [
        ("P-256", Self::P256),
        ("RSA-1024", Self::Rsa1024),
        ("RSA-2048", Self::Rsa2048),
        ("RSA-4096", Self::Rsa4096),
    ];

    /// Name in files and results.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Arguments of openssl for a new key without a password.
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::P256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
            Self::Rsa1024 => &["-newkey", "rsa:1024", "-nodes"],
            Self::Rsa2048 => &["-newkey", "rsa:2048", "-nodes"],
            Self::Rsa4096 => &["-newkey", "rsa:4096", "-nodes"],
        }
    }
}

impl Default for TlsUse {
    fn default() -> Self {
        let (key, version, suites) = (KeyKind::P256, None, Vec::new());
        Self { key, version, suites, is_mutual: false, is_resumed: true }
    }
}

impl TlsUse {
    /// Parts of a variant's name: what differs from the default, and the key.
    pub fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> =
            self.version.iter().map(|version| format!("TLS {}", version.name())).collect();
        parts.push(self.key.name().to_owned());
        parts.extend(self.suites.iter().map(|suite| suite.openssl_name().to_owned()));
        parts.extend(self.is_mutual.then(|| "mutual".to_owned()));
        parts.extend((!self.is_resumed).then(|| "no resumption".to_owned()));
        parts
    }

    /// True if only OpenSSL has it, with its security level 0.
    pub fn is_legacy(&self) -> bool {
        let is_old = self.version.is_some_and(TlsVersion::is_legacy);
        is_old || self.key == KeyKind::Rsa1024 || self.suites.iter().any(|suite| suite.is_legacy())
    }

    /// Library, versions and suites of the generator.
    ///
    /// # Errors
    /// This build has no OpenSSL, and the variant needs it; no suite fits the version.
    pub fn offer(&self) -> Result<Offer> {
        let backend = if self.is_legacy() { Backend::OpenSsl } else { Backend::Rustls };
        let offer = Offer::new(backend, self.suites.clone(), self.version, self.is_legacy());
        offer.map_err(|error| match cfg!(feature = "legacy-tls") || !self.is_legacy() {
            true => anyhow!("TLS: {}", error.text(NAMES)),
            false => anyhow!(
                "not available: {} needs OpenSSL, which this build does not have; build it with --features legacy-tls",
                self.parts().join(", ")
            ),
        })
    }

    /// Certificates, rules and offer of the callers and called users.
    ///
    /// # Errors
    /// As [`TlsUse::offer`]; a file cannot be used.
    pub fn load(&self, certificates: &Certificates) -> Result<LoadTls> {
        let defaults = TlsFiles::default();
        let files = TlsFiles {
            certificate: Some(certificates.users.clone()),
            client_auth: if self.is_mutual { ClientAuth::Required } else { ClientAuth::None },
            client_ca: Some(certificates.ca.clone()),
            peer_ca: PeerCa::File(certificates.ca.clone()),
            session_timeout: defaults.session_timeout.filter(|_| self.is_resumed),
            offer: self.offer()?,
            ..defaults
        };
        LoadTls::load(&files, None, Arc::new(Silent))
    }
}

impl ServerTls {
    /// Section `[tls]` of a Ringway server.
    pub(crate) fn ringway(&self) -> String {
        let Self { tls, certificates: Certificates { ca, server: (certificate, key), .. } } = self;
        let ca = ca.display();
        let mut text = format!(
            "[tls]\ncertificate = \"{}\"\nprivate_key = \"{}\"\npeer_ca = \"{ca}\"\nsession_resumption = {}\n",
            certificate.display(),
            key.display(),
            tls.is_resumed
        );
        if tls.is_mutual {
            text.push_str(&format!("client_auth = \"required\"\nclient_ca = \"{ca}\"\n"));
        }
        if !tls.suites.is_empty() {
            let names: Vec<String> = tls.suites.iter().map(|suite| format!("\"{}\"", suite.name())).collect();
            text.push_str(&format!("cipher_suites = [{}]\n", names.join(", ")));
        }
        if tls.is_legacy() {
            text.push_str("backend = \"openssl\"\ndanger_legacy = true\n");
        }
        text
    }

    /// File `tls.cfg` of Kamailio.
    pub(crate) fn kamailio(&self) -> String {
        let Self { tls, certificates: Certificates { ca, server: (certificate, key), .. } } = self;
        let method = match (tls.is_legacy(), tls.version) {
            (true, _) => "TLSv1+",
            (false, Some(TlsVersion::V1_3)) => "TLSv1.3",
            (false, _) => "TLSv1.2+",
        };
        let names: Vec<&str> = tls.suites.iter().map(|suite| suite.openssl_name()).collect();
        let level = if tls.is_legacy() { "@SECLEVEL=0" } else { "" };
        let ciphers = match (names.is_empty(), level.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!("cipher_list = ALL:{level}\n"),
            (false, true) => format!("cipher_list = {}\n", names.join(":")),
            (false, false) => format!("cipher_list = {}:{level}\n", names.join(":")),
        };
        let side = |name: &str, verifies: bool| {
            let verify = if verifies { "yes" } else { "no" };
            format!(
                "[{name}:default]\nmethod = {method}\nverify_certificate = {verify}\nrequire_certificate = {verify}\n\
                 certificate = {}\nprivate_key = {}\nca_list = {}\n{ciphers}",
                certificate.display(),
                key.display(),
                ca.display()
            )
        };
        side("server", tls.is_mutual) + &side("client", true)
    }
}

impl Certificates {
    /// Makes an authority, and certificates of the server and of the users, whose addresses are `users`; those that are in the
    /// folder already are used again.
    ///
    /// # Errors
    /// `openssl` is not installed, or fails.
    pub fn make(folder: &Path, kind: KeyKind, users: &[IpAddr]) -> Result<Self> {
        let folder = folder.join(format!("tls-{}-{}", kind.name(), users.len()));
        let pair = |name: &str| (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
        let made = Self { ca: folder.join("ca.pem"), server: pair("server"), users: pair("users") };
        if made.users.0.exists() {
            return Ok(made);
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut arguments = vec!["req", "-x509", "-days", "30", "-subj", "/CN=authority of the lab"];
        arguments.extend(["-out", "ca.pem", "-keyout", "ca-key.pem"]);
        arguments.extend(kind.arguments());
        openssl(&folder, &arguments)?;
        issue(&folder, "server", kind, "DNS:localhost,DNS:example.org,IP:127.0.0.1")?;
        let addresses: Vec<String> = users.iter().map(|address| format!("IP:{address}")).collect();
        issue(&folder, "users", kind, &addresses.join(","))?;
        Ok(made)
    }
}

/// Issues a certificate with a new key.
fn issue(folder: &Path, name: &str, kind: KeyKind, alternative_names: &str) -> Result<()> {
    let [file, key, request, extensions] =
        [".pem", "-key.pem", ".csr", ".ext"].map(|ending| format!("{name}{ending}"));
    let text = format!("subjectAltName={alternative_names}\nbasicConstraints=CA:FALSE\n");
    fs::write(folder.join(&extensions), text).with_context(|| folder.display().to_string())?;
    let mut arguments = vec!["req", "-subj", "/CN=lab", "-keyout", &key, "-out", &request];
    arguments.extend(kind.arguments());
    openssl(folder, &arguments)?;
    let authority = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial"];
    let arguments = ["x509", "-req", "-in", &request, "-out", &file, "-days", "30", "-extfile", &extensions];
    openssl(folder, &[&arguments[..], &authority].concat())
}

fn openssl(folder: &Path, arguments: &[&str]) -> Result<()> {
    let output = match Command::new("openssl").args(arguments).current_dir(folder).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("openssl is not installed, and makes the certificates; apt-get install openssl")
        }
        output => output.context("run openssl")?,
    };
    let error = String::from_utf8_lossy(&output.stderr);
    let last = error.lines().next_back().unwrap_or_default();
    ensure!(output.status.success(), "openssl {}: {last}", arguments.first().unwrap_or(&""));
    Ok(())
}

/// Failed handshakes are counted, and the first one is kept by [`LoadTls`].
struct Silent;

impl Observer for Silent {
    fn failed(&self, _remote: SocketAddr, _role: Role, _reason: &str) {}
}

/// Words of an experiment file in errors; there is no key for the library.
const NAMES: OfferSettings = OfferSettings { openssl: "a legacy suite", danger_legacy: "a legacy version" };

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> [IpAddr; 2] {
        ["127.0.0.1", "127.0.0.2"].map(|address| address.parse().unwrap())
    }

    #[test]
    fn certificates_are_made_once_for_each_key_and_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [KeyKind::P256, KeyKind::Rsa2048] {
            let tls = TlsUse { key: kind, is_mutual: true, ..TlsUse::default() };
            let made = Certificates::make(folder.path(), kind, &users()).unwrap();
            tls.load(&made).unwrap();
            let before = fs::read(&made.users.0).unwrap();
            assert_eq!(Certificates::make(folder.path(), kind, &users()).unwrap(), made);
            assert_eq!(fs::read(&made.users.0).unwrap(), before);
        }
    }

    #[test]
    fn what_only_openssl_has_is_not_available_in_a_build_without_it() {
        for tls in [
            TlsUse { key: KeyKind::Rsa1024, ..TlsUse::default() },
            TlsUse { suites: Suite::by_name("AES128-SHA").into_iter().collect(), ..TlsUse::default() },
            TlsUse { version: Some(TlsVersion::V1_0), ..TlsUse::default() },
        ] {
            assert_eq!(tls.offer().is_ok(), cfg!(feature = "legacy-tls"));
            if let Err(error) = tls.offer() {
                assert!(error.to_string().starts_with("not available: "), "{error}");
            }
        }
        assert!(TlsUse::default().offer().is_ok());
    }

    #[test]
    fn servers_get_what_the_variant_has() {
        let pair = || (PathBuf::from("c.pem"), PathBuf::from("k.pem"));
        let certificates = Certificates { ca: "ca.pem".into(), server: pair(), users: pair() };
        let suites = Suite::by_name("AES128-SHA").into_iter().collect();
        let tls = TlsUse { suites, is_mutual: true, is_resumed: false, ..TlsUse::default() };
        assert_eq!(tls.parts(), ["P-256", "AES128-SHA", "mutual", "no resumption"]);
        let server = ServerTls { tls, certificates };
        let text = server.ringway();
        for line in ["session_resumption = false", "client_auth = \"required\"", "backend = \"openssl\""] {
            assert!(text.contains(line), "{text}");
        }
        let text = server.kamailio();
        assert!(text.contains("cipher_list = AES128-SHA:@SECLEVEL=0") && text.contains("TLSv1+"), "{text}");
        assert_eq!(text.matches("require_certificate = yes").count(), 2);
    }
}

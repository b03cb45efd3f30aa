//! TLS of an experiment: what both sides offer, and certificates that the campaign makes with the program `openssl`.

use crate::load::LoadTls;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ringway_tls::{
    Backend, ClientAuth, Observer, Offer, OfferSettings, PeerCa, Role, Suite, TlsFiles, TlsVersion,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Key of the certificates, and of their authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

/// Files of one side: its certificate and key, and the certificate of the authority that it trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideFiles {
    /// Certificate that it shows.
    pub certificate: PathBuf,
    /// Key of that.
    pub key: PathBuf,
    /// Certificate of the other side's authority.
    pub peer_ca: PathBuf,
}

/// TLS of one side: the server under test, or the callers and called users.
#[derive(Clone, Debug, PartialEq)]
pub struct SideTls {
    /// Its use.
    pub tls: TlsUse,
    /// Its files.
    pub files: SideFiles,
}

/// An authority of the lab, in a folder of its own.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    kind: KeyKind,
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
}

impl SideTls {
    /// Certificates, rules and offer of the callers and called users.
    ///
    /// # Errors
    /// As [`TlsUse::offer`]; a file cannot be used.
    pub fn load(&self) -> Result<LoadTls> {
        let Self { tls, files: SideFiles { certificate, key, peer_ca } } = self;
        let defaults = TlsFiles::default();
        let files = TlsFiles {
            certificate: Some((certificate.clone(), key.clone())),
            client_auth: if tls.is_mutual { ClientAuth::Required } else { ClientAuth::None },
            client_ca: Some(peer_ca.clone()),
            peer_ca: PeerCa::File(peer_ca.clone()),
            session_timeout: defaults.session_timeout.filter(|_| tls.is_resumed),
            offer: tls.offer()?,
            ..defaults
        };
        LoadTls::load(&files, None, Arc::new(Silent))
    }

    /// Section `[tls]` of a Ringway server.
    pub(crate) fn ringway(&self) -> String {
        let Self { tls, files: SideFiles { certificate, key, peer_ca } } = self;
        let ca = peer_ca.display();
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
        let Self { tls, files: SideFiles { certificate, key, peer_ca } } = self;
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
                peer_ca.display()
            )
        };
        side("server", tls.is_mutual) + &side("client", true)
    }
}

impl Authority {
    /// Makes an authority in a folder below `folder`, or uses the one with this kind of key that is there.
    ///
    /// # Errors
    /// `openssl` is not installed, or fails.
    pub fn make(folder: &Path, kind: KeyKind) -> Result<Self> {
        let made = Self { folder: folder.join(format!("tls-{}", kind.name())), kind };
        if !made.certificate().exists() {
            fs::create_dir_all(&made.folder).with_context(|| made.folder.display().to_string())?;
            let mut arguments = vec!["req", "-x509", "-days", "30", "-subj", "/CN=authority of the lab"];
            arguments.extend(["-keyout", "ca-key.pem"]);
            arguments.extend(kind.arguments());
            openssl(&made.folder, &arguments, "ca.pem")?;
        }
        Ok(made)
    }

    /// Its certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Its certificate in DER, which has no secret.
    ///
    /// # Errors
    /// `openssl` fails; the certificate has more than [`AUTHORITY_BYTES_MAX`] bytes.
    pub fn der(&self) -> Result<Vec<u8>> {
        openssl(&self.folder, &["x509", "-in", "ca.pem", "-outform", "DER"], "ca.der")?;
        let der = fs::read(self.folder.join("ca.der")).context("read a certificate")?;
        check_length(&der)?;
        Ok(der)
    }

    /// Issues the certificate of a server on `host`, with a new key, for a side that trusts `peer_ca`.
    ///
    /// # Errors
    /// `openssl` fails.
    pub fn server(&self, host: IpAddr, peer_ca: PathBuf) -> Result<SideFiles> {
        let mut names = "DNS:localhost,DNS:example.org,IP:127.0.0.1".to_owned();
        if host != Ipv4Addr::LOCALHOST {
            names.push_str(&format!(",IP:{host}"));
        }
        self.issue(&format!("server-{host}"), &names, peer_ca)
    }

    /// Issues the certificate of users with these addresses, with a new key, for a side that trusts `peer_ca`.
    ///
    /// # Errors
    /// `openssl` fails.
    pub fn users(&self, addresses: &[IpAddr], peer_ca: PathBuf) -> Result<SideFiles> {
        let names: Vec<String> = addresses.iter().map(|address| format!("IP:{address}")).collect();
        let first = addresses.first().context("no users have an address")?;
        self.issue(&format!("users-{first}-{}", addresses.len()), &names.join(","), peer_ca)
    }

    /// Issues a certificate with a new key, or uses the one of this name.
    fn issue(&self, name: &str, alternative_names: &str, peer_ca: PathBuf) -> Result<SideFiles> {
        let folder = &self.folder;
        let [file, key, request, extensions] =
            [".pem", "-key.pem", ".csr", ".ext"].map(|ending| format!("{name}{ending}"));
        let issued = SideFiles { certificate: folder.join(&file), key: folder.join(&key), peer_ca };
        if issued.certificate.exists() {
            return Ok(issued);
        }
        let text = format!("subjectAltName={alternative_names}\nbasicConstraints=CA:FALSE\n");
        fs::write(folder.join(&extensions), text).with_context(|| folder.display().to_string())?;
        let mut arguments = vec!["req", "-subj", "/CN=lab", "-keyout", &key];
        arguments.extend(self.kind.arguments());
        openssl(folder, &arguments, &request)?;
        let authority = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial"];
        let arguments = ["x509", "-req", "-in", &request, "-days", "30", "-extfile", &extensions];
        openssl(folder, &[&arguments[..], &authority].concat(), &file)?;
        Ok(issued)
    }
}

/// Writes an authority's certificate of another machine as the file `name` in `folder`.
///
/// # Errors
/// It is not a certificate in DER, or is too long.
pub fn save_authority(folder: &Path, name: &str, der: &[u8]) -> Result<PathBuf> {
    check_length(der)?;
    // A SEQUENCE: openssl would read other formats too.
    ensure!(der.first() == Some(&0x30), "an authority's certificate is not in DER");
    let [received, file] = [".der", ".pem"].map(|ending| format!("{name}{ending}"));
    fs::write(folder.join(&received), der).with_context(|| folder.display().to_string())?;
    let arguments = ["x509", "-inform", "DER", "-in", &received];
    openssl(folder, &arguments, &file).context("an authority's certificate cannot be read")?;
    Ok(folder.join(file))
}

fn check_length(der: &[u8]) -> Result<()> {
    let length = der.len();
    ensure!(
        length <= AUTHORITY_BYTES_MAX,
        "an authority's certificate has {length} bytes; at most {AUTHORITY_BYTES_MAX} are possible"
    );
    Ok(())
}

/// Runs openssl in `folder`. Its file `out` is there only if it succeeds.
fn openssl(folder: &Path, arguments: &[&str], out: &str) -> Result<()> {
    let part = format!("{out}.part");
    let mut command = Command::new("openssl");
    command.args(arguments).args(["-out", &part]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("openssl is not installed, and makes the certificates; apt-get install openssl")
        }
        child => child.context("run openssl")?,
    };
    let name = arguments.first().unwrap_or(&"");
    let until = Instant::now() + OPENSSL_TIME;
    while child.try_wait().context("run openssl")?.is_none() {
        if Instant::now() > until {
            child.kill().context("end openssl")?;
            child.wait().context("end openssl")?;
            bail!("openssl {name} has not ended after {} s", OPENSSL_TIME.as_secs());
        }
        std::thread::sleep(OPENSSL_LOOK);
    }
    let output = child.wait_with_output().context("run openssl")?;
    let error = String::from_utf8_lossy(&output.stderr);
    let last = error.lines().next_back().unwrap_or_default();
    ensure!(output.status.success(), "openssl {name}: {last}");
    fs::rename(folder.join(part), folder.join(out)).context("rename a file of openssl")
}

/// Failed handshakes are counted, and the first one is kept by [`LoadTls`].
struct Silent;

impl Observer for Silent {
    fn failed(&self, _remote: SocketAddr, _role: Role, _reason: &str) {}
}

/// Longest certificate of an authority that is sent to another machine; with RSA-4096 it has 1,340 bytes.
pub const AUTHORITY_BYTES_MAX: usize = 4096;
/// Most time of one command of openssl, and the interval of looking for its end.
const OPENSSL_TIME: Duration = Duration::from_secs(30);
const OPENSSL_LOOK: Duration = Duration::from_millis(5);
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
            let make = || {
                let authority = Authority::make(folder.path(), kind).unwrap();
                authority.users(&users(), authority.certificate()).unwrap()
            };
            let made = make();
            SideTls { tls, files: made.clone() }.load().unwrap();
            let before = fs::read(&made.certificate).unwrap();
            assert_eq!(make(), made);
            assert_eq!(fs::read(&made.certificate).unwrap(), before);
        }
    }

    #[test]
    fn an_authority_of_another_machine_is_a_short_certificate_and_nothing_else() {
        let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let authority = Authority::make(there.path(), KeyKind::Rsa4096).unwrap();
        let der = authority.der().unwrap();
        let saved = save_authority(here.path(), "peer", &der).unwrap();
        let [ours, theirs] = [saved, authority.certificate()].map(|path| fs::read(path).unwrap());
        assert_eq!(ours, theirs);
        let pem = fs::read(authority.certificate()).unwrap();
        let key = fs::read(there.path().join("tls-RSA-4096/ca-key.pem")).unwrap();
        let long = [&der[..], &[0; AUTHORITY_BYTES_MAX]].concat();
        for wrong in [&b""[..], b"0", &der[..der.len() - 1], &pem, &key, &long] {
            assert!(save_authority(here.path(), "wrong", wrong).is_err(), "{} bytes", wrong.len());
            assert!(!here.path().join("wrong.pem").exists());
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
        let [certificate, key, peer_ca] = ["c.pem", "k.pem", "ca.pem"].map(PathBuf::from);
        let files = SideFiles { certificate, key, peer_ca };
        let suites = Suite::by_name("AES128-SHA").into_iter().collect();
        let tls = TlsUse { suites, is_mutual: true, is_resumed: false, ..TlsUse::default() };
        assert_eq!(tls.parts(), ["P-256", "AES128-SHA", "mutual", "no resumption"]);
        let server = SideTls { tls, files };
        let text = server.ringway();
        for line in ["session_resumption = false", "client_auth = \"required\"", "backend = \"openssl\""] {
            assert!(text.contains(line), "{text}");
        }
        let text = server.kamailio();
        assert!(text.contains("cipher_list = AES128-SHA:@SECLEVEL=0") && text.contains("TLSv1+"), "{text}");
        assert_eq!(text.matches("require_certificate = yes").count(), 2);
    }
}

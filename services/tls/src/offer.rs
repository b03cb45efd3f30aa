//! Library, versions and cipher suites of connections, by their names.

use std::fmt;
use std::str::FromStr;

/// TLS library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// rustls with aws-lc-rs.
    #[default]
    Rustls,
    /// OpenSSL, for legacy versions and suites; in builds with the cargo feature `legacy-tls`.
    OpenSsl,
}

/// Library, versions and cipher suites of both sides.
///
/// A legacy one is there only if `danger_legacy` permitted it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    backend: Backend,
    suites: Vec<Suite>,
    version: Option<TlsVersion>,
}

/// Reason why an [`Offer`] is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferError {
    /// The library is not in this build.
    NotBuilt,
    /// The library is for legacy versions and suites, which are not permitted.
    NotPermitted,
    /// The suite is a legacy one.
    LegacySuite(Suite),
    /// The version is a legacy one.
    LegacyVersion(TlsVersion),
    /// No suite can be used with the version.
    NoSuiteOfVersion(TlsVersion),
}

/// Names of the settings of an [`Offer`], for errors.
#[derive(Clone, Copy, Debug)]
pub struct OfferSettings {
    /// The one that selects OpenSSL, with its value.
    pub openssl: &'static str,
    /// The one that permits legacy versions and suites.
    pub danger_legacy: &'static str,
}

impl OfferError {
    /// Text for a user.
    pub fn text(self, names: OfferSettings) -> String {
        let OfferSettings { openssl, danger_legacy } = names;
        match self {
            Self::NotBuilt => {
                "OpenSSL is not in this build; build it with `cargo build --release -p ringway --features \
                               legacy-tls`, or give \"rustls\""
                    .to_owned()
            }
            Self::NotPermitted => format!(
                "OpenSSL is for experiments with legacy versions and cipher suites; set {danger_legacy}, or give \"rustls\""
            ),
            Self::LegacySuite(suite) => format!(
                "{:?} is a legacy cipher suite; for experiments set {openssl} and {danger_legacy}, otherwise give a suite \
                 with ECDHE and AEAD, such as {SAFE}",
                suite.name()
            ),
            Self::LegacyVersion(version) => format!(
                "{version} is a legacy version; for experiments set {openssl} and {danger_legacy}, otherwise give 1.2 or 1.3"
            ),
            Self::NoSuiteOfVersion(version) => {
                format!("none of the cipher suites is one of {version}; add one, or name no suites")
            }
        }
    }
}

/// Suite that errors recommend.
const SAFE: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";

impl Offer {
    /// Checks a combination. `suites` are in order of preference; without any, the library's safe ones are offered.
    /// `version`: this one only.
    ///
    /// # Errors
    /// The library is not in this build, something of it is a legacy one and `danger_legacy` is false, or no suite can be used
    /// with the version.
    pub fn new(
        backend: Backend,
        suites: Vec<Suite>,
        version: Option<TlsVersion>,
        danger_legacy: bool,
    ) -> Result<Self, OfferError> {
        match backend {
            Backend::OpenSsl if !cfg!(feature = "legacy-tls") => return Err(OfferError::NotBuilt),
            Backend::OpenSsl if !danger_legacy => return Err(OfferError::NotPermitted),
            Backend::OpenSsl => {}
            Backend::Rustls => {
                if let Some(&suite) = suites.iter().find(|suite| suite.is_legacy()) {
                    return Err(OfferError::LegacySuite(suite));
                }
                if let Some(version) = version.filter(|version| version.is_legacy()) {
                    return Err(OfferError::LegacyVersion(version));
                }
            }
        }
        if let Some(version) = version
            && !suites.is_empty()
            && !suites.iter().any(|suite| suite.is_of(version))
        {
            return Err(OfferError::NoSuiteOfVersion(version));
        }
        Ok(Self { backend, suites, version })
    }

    /// The library.
    pub const fn backend(&self) -> Backend {
        self.backend
    }

    /// Suites in order of preference; empty: the library's safe ones.
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// Versions that can be negotiated, the oldest first. Named suites select those that they can be used with.
    pub fn versions(&self) -> impl Iterator<Item = TlsVersion> {
        let is_offered = |version: &TlsVersion| match self.suites.as_slice() {
            [] => !version.is_legacy() || self.version.is_some(),
            suites => suites.iter().any(|suite| suite.is_of(*version)),
        };
        let is_wanted = |version: &TlsVersion| self.version.is_none_or(|only| only == *version);
        TlsVersion::ALL.into_iter().filter(is_offered).filter(is_wanted)
    }
}

/// Version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// RFC 2246; legacy.
    V1_0,
    /// RFC 4346; legacy.
    V1_1,
    /// RFC 5246.
    V1_2,
    /// RFC 8446.
    V1_3,
}

impl TlsVersion {
    /// All versions, the oldest first.
    pub const ALL: [Self; 4] = [Self::V1_0, Self::V1_1, Self::V1_2, Self::V1_3];

    /// True for versions that only OpenSSL has (RFC 8996 forbids them).
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::V1_0 | Self::V1_1)
    }

    /// Number as in `1.2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS {}", self.name())
    }
}

impl FromStr for TlsVersion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|version| version.name() == text).ok_or("give 1.0, 1.1, 1.2 or 1.3")
    }
}

/// Cipher suite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    id: u16,
    name: &'static str,
    openssl_name: &'static str,
    versions: (TlsVersion, TlsVersion),
    is_legacy: bool,
}

impl Suite {
    /// Suite with an IANA or OpenSSL name, in upper or lower case.
    pub fn by_name(name: &str) -> Option<Self> {
        let is_it = |suite: &&Self| {
            name.eq_ignore_ascii_case(suite.name) || name.eq_ignore_ascii_case(suite.openssl_name)
        };
        SUITES.iter().find(is_it).copied()
    }

    /// All suites.
    pub fn all() -> impl Iterator<Item = Self> {
        SUITES.into_iter()
    }

    /// Number in IANA's registry.
    pub const fn id(self) -> u16 {
        self.id
    }

    /// Name in IANA's registry.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// OpenSSL's name.
    pub const fn openssl_name(self) -> &'static str {
        self.openssl_name
    }

    /// True for suites that only OpenSSL has: without forward secrecy, without AEAD, or without encryption.
    pub const fn is_legacy(self) -> bool {
        self.is_legacy
    }

    /// True if the suite can be used with the version.
    pub fn is_of(self, version: TlsVersion) -> bool {
        (self.versions.0..=self.versions.1).contains(&version)
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn suite(
    id: u16,
    name: &'static str,
    openssl_name: &'static str,
    versions: (TlsVersion, TlsVersion),
) -> Suite {
    Suite { id, name, openssl_name, versions, is_legacy: false }
}

const fn legacy(id: u16, name: &'static str, openssl_name: &'static str, oldest: TlsVersion) -> Suite {
    Suite { id, name, openssl_name, versions: (oldest, TlsVersion::V1_2), is_legacy: true }
}

const TLS_1_2: (TlsVersion, TlsVersion) = (TlsVersion::V1_2, TlsVersion::V1_2);
const TLS_1_3: (TlsVersion, TlsVersion) = (TlsVersion::V1_3, TlsVersion::V1_3);

/// Those of rustls first. Suites without certificates (PSK, SRP, anonymous) identify nobody, and those with DHE need
/// parameters: they are not here.
#[rustfmt::skip]
const SUITES: [Suite; 31] = [
    suite(0x1302, "TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", TLS_1_3),
    suite(0x1301, "TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", TLS_1_3),
    suite(0x1303, "TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", TLS_1_3),
    suite(0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", TLS_1_2),
    suite(0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", TLS_1_2),
    suite(0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", TLS_1_2),
    suite(0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", TLS_1_2),
    suite(0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", TLS_1_2),
    suite(0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", TLS_1_2),
    legacy(0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384", TlsVersion::V1_2),
    legacy(0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256", TlsVersion::V1_2),
    legacy(0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384", TlsVersion::V1_2),
    legacy(0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256", TlsVersion::V1_2),
    legacy(0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA", TlsVersion::V1_0),
    legacy(0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA", TlsVersion::V1_0),
    legacy(0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA", TlsVersion::V1_0),
    legacy(0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA", TlsVersion::V1_0),
    legacy(0xc008, "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA", "ECDHE-ECDSA-DES-CBC3-SHA", TlsVersion::V1_0),
    legacy(0xc012, "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", "ECDHE-RSA-DES-CBC3-SHA", TlsVersion::V1_0),
    legacy(0xc006, "TLS_ECDHE_ECDSA_WITH_NULL_SHA", "ECDHE-ECDSA-NULL-SHA", TlsVersion::V1_0),
    legacy(0xc010, "TLS_ECDHE_RSA_WITH_NULL_SHA", "ECDHE-RSA-NULL-SHA", TlsVersion::V1_0),
    legacy(0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384", TlsVersion::V1_2),
    legacy(0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256", TlsVersion::V1_2),
    legacy(0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256", TlsVersion::V1_2),
    legacy(0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256", TlsVersion::V1_2),
    legacy(0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA", TlsVersion::V1_0),
    legacy(0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", TlsVersion::V1_0),
    legacy(0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA", TlsVersion::V1_0),
    legacy(0x003b, "TLS_RSA_WITH_NULL_SHA256", "NULL-SHA256", TlsVersion::V1_2),
    legacy(0x0002, "TLS_RSA_WITH_NULL_SHA", "NULL-SHA", TlsVersion::V1_0),
    legacy(0x0001, "TLS_RSA_WITH_NULL_MD5", "NULL-MD5", TlsVersion::V1_0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs;

    fn suites(names: &[&str]) -> Vec<Suite> {
        names.iter().map(|name| Suite::by_name(name).unwrap()).collect()
    }

    #[test]
    fn legacy_names_need_the_other_library_and_its_permission() {
        let legacy = suites(&["ECDHE-RSA-AES128-GCM-SHA256", "AES128-SHA"]);
        for danger in [false, true] {
            let error = Offer::new(Backend::Rustls, legacy.clone(), None, danger).unwrap_err();
            assert_eq!(error, OfferError::LegacySuite(legacy[1]));
            let names = OfferSettings { openssl: "--openssl", danger_legacy: "--danger" };
            assert!(error.text(names).contains("set --openssl and --danger"));
        }
        let old = Offer::new(Backend::Rustls, Vec::new(), Some(TlsVersion::V1_0), true);
        assert_eq!(old, Err(OfferError::LegacyVersion(TlsVersion::V1_0)));
        let not_permitted = Offer::new(Backend::OpenSsl, legacy.clone(), None, false).unwrap_err();
        let permitted = Offer::new(Backend::OpenSsl, legacy, None, true);
        if cfg!(feature = "legacy-tls") {
            assert_eq!(not_permitted, OfferError::NotPermitted);
            assert!(permitted.is_ok());
        } else {
            assert_eq!((not_permitted, permitted), (OfferError::NotBuilt, Err(OfferError::NotBuilt)));
        }
    }

    #[test]
    fn suites_select_the_versions() {
        let versions = |names: &[&str], version| -> Vec<_> {
            let offer = Offer::new(Backend::Rustls, suites(names), version, false).unwrap();
            offer.versions().map(TlsVersion::name).collect()
        };
        assert_eq!(versions(&[], None), ["1.2", "1.3"]);
        assert_eq!(versions(&[], Some(TlsVersion::V1_2)), ["1.2"]);
        assert_eq!(versions(&["ECDHE-RSA-AES128-GCM-SHA256"], None), ["1.2"]);
        assert_eq!(versions(&["TLS_AES_128_GCM_SHA256"], None), ["1.3"]);
        let both = ["TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"];
        assert_eq!(versions(&both, Some(TlsVersion::V1_3)), ["1.3"]);
        let none = Offer::new(Backend::Rustls, suites(&both[..1]), Some(TlsVersion::V1_2), false);
        assert_eq!(none, Err(OfferError::NoSuiteOfVersion(TlsVersion::V1_2)));
    }

    #[test]
    fn the_suites_that_are_not_legacy_are_those_of_rustls() {
        let mut ours: Vec<u16> = Suite::all().filter(|suite| !suite.is_legacy()).map(Suite::id).collect();
        let mut theirs: Vec<u16> =
            aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| u16::from(suite.suite())).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn both_names_name_a_suite() {
        for name in ["TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", "aes128-sha"] {
            assert_eq!(Suite::by_name(name).map(Suite::id), Some(0x2f), "{name}");
        }
        assert_eq!(Suite::by_name("AES"), None);
        for suite in Suite::all() {
            assert_eq!(Suite::by_name(suite.name()), Some(suite));
            assert_eq!(Suite::by_name(suite.openssl_name()), Some(suite));
        }
    }
}

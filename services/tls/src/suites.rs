//! Cipher suites by their names, and versions.

use std::fmt;
use std::str::FromStr;

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

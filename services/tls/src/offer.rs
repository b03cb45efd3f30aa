//! Library, versions and cipher suites of connections.

use crate::suites::{Suite, TlsVersion};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}

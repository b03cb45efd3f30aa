//! Options of TLS that the phone and the load generator share.

use crate::failure::Failure;
use clap::{Args as ClapArgs, ValueEnum};
use ringway_settings::nearest;
use ringway_tls::{Backend, Offer, OfferSettings, Suite, TlsVersion};

/// Library, version and cipher suites.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct TlsArgs {
    /// Cipher suites of TLS in order of preference, by their IANA or OpenSSL names [default: the library's safe ones]
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = suite)]
    pub(crate) tls_suite: Vec<Suite>,
    /// Only version of TLS: 1.3 or 1.2; 1.1 and 1.0 with --tls-backend openssl
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls_version: Option<TlsVersion>,
    /// TLS library; openssl for experiments with legacy versions and suites
    #[arg(long, value_enum, value_name = "LIBRARY", default_value_t)]
    pub(crate) tls_backend: BackendArg,
    /// Permit --tls-backend openssl, whose versions and suites others can break
    #[arg(long)]
    pub(crate) danger_legacy: bool,
}

/// TLS library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// rustls
    #[default]
    Rustls,
    /// OpenSSL, in builds with the feature legacy-tls
    Openssl,
}

impl TlsArgs {
    /// Library, version and cipher suites, checked.
    pub(crate) fn offer(&self) -> Result<Offer, Failure> {
        let backend = match self.tls_backend {
            BackendArg::Rustls => Backend::Rustls,
            BackendArg::Openssl => Backend::OpenSsl,
        };
        let offer = Offer::new(backend, self.tls_suite.clone(), self.tls_version, self.danger_legacy);
        offer.map_err(|error| Failure::usage(format!("TLS: {}", error.text(NAMES))))
    }
}

const NAMES: OfferSettings =
    OfferSettings { openssl: "--tls-backend openssl", danger_legacy: "--danger-legacy" };

fn suite(name: &str) -> Result<Suite, String> {
    Suite::by_name(name).ok_or_else(|| nearest_suite(name))
}

/// Text of the error for an unknown cipher suite.
pub(crate) fn nearest_suite(name: &str) -> String {
    let names: Vec<_> = Suite::all().flat_map(|suite| [suite.name(), suite.openssl_name()]).collect();
    match nearest(name, &names) {
        Some(known) => format!("{name:?} is not a known cipher suite; did you mean {known:?}?"),
        None => format!(
            "{name:?} is not a known cipher suite; give a name of IANA or OpenSSL, such as \"TLS_AES_128_GCM_SHA256\""
        ),
    }
}

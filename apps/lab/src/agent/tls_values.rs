//! TLS of a server at an agent, as values in a message.

use crate::tls::{AUTHORITY_BYTES_MAX, KeyKind, TlsUse};
use anyhow::{Context, Result, anyhow, ensure};
use ringway_tls::Suite;
use serde::{Deserialize, Serialize};

/// TLS that an agent is to give its server.
#[derive(Clone, Copy, Debug)]
pub struct RemoteTls<'a> {
    /// Its use.
    pub tls: &'a TlsUse,
    /// Certificate, in DER, of the authority of the callers and called users.
    pub authority: &'a [u8],
}

/// Values of [`RemoteTls`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsValues {
    key: KeyKind,
    /// Number of the only version, as `1.2`.
    version: Option<String>,
    /// Numbers of the cipher suites in IANA's registry.
    suites: Vec<u16>,
    is_mutual: bool,
    is_resumed: bool,
    authority: AuthorityText,
}

/// Certificate of an authority in DER, in hexadecimal digits. It has no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct AuthorityText(String);

impl TlsValues {
    pub(super) fn new(tls: RemoteTls<'_>) -> Self {
        let TlsUse { key, version, suites, is_mutual, is_resumed } = tls.tls;
        Self {
            key: *key,
            version: version.map(|version| version.name().to_owned()),
            suites: suites.iter().map(|suite| suite.id()).collect(),
            is_mutual: *is_mutual,
            is_resumed: *is_resumed,
            authority: AuthorityText::new(tls.authority),
        }
    }

    /// The use of TLS that they mean, and the certificate of the users' authority.
    pub(super) fn read(&self) -> Result<(TlsUse, Vec<u8>)> {
        let Self { key, version, suites, is_mutual, is_resumed, authority } = self;
        ensure!(
            suites.len() <= SUITES_MAX,
            "{} cipher suites are not possible; at most {SUITES_MAX} are",
            suites.len()
        );
        let version = version.as_deref().map(str::parse).transpose();
        let version = version.map_err(|why| anyhow!("the version of TLS is not known: {why}"))?;
        let suite = |id: &u16| {
            let found = Suite::all().find(|suite| suite.id() == *id);
            found.with_context(|| format!("the cipher suite {id:#06x} is not known"))
        };
        let suites = suites.iter().map(suite).collect::<Result<_>>()?;
        let tls = TlsUse { key: *key, version, suites, is_mutual: *is_mutual, is_resumed: *is_resumed };
        Ok((tls, authority.read()?))
    }
}

impl AuthorityText {
    pub(super) fn new(der: &[u8]) -> Self {
        Self(base16ct::lower::encode_string(der))
    }

    /// Its bytes.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let digits = self.0.len();
        ensure!(
            digits <= 2 * AUTHORITY_BYTES_MAX,
            "an authority's certificate has {digits} digits, too many"
        );
        let bytes = base16ct::lower::decode_vec(&self.0);
        bytes.map_err(|_| anyhow!("an authority's certificate is not in hexadecimal digits"))
    }
}

/// Most cipher suites of a server; there are 31.
const SUITES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_tls::TlsVersion;

    #[test]
    fn values_mean_what_they_were_made_of_and_nothing_else() {
        let suites: Vec<Suite> = Suite::all().collect();
        let tls = TlsUse { version: Some(TlsVersion::V1_2), suites, is_mutual: true, ..TlsUse::default() };
        let values = TlsValues::new(RemoteTls { tls: &tls, authority: &[0x30, 0xff] });
        assert_eq!(values.read().unwrap(), (tls, vec![0x30, 0xff]));
        let text = serde_json::to_string(&values).unwrap();
        assert_eq!(serde_json::from_str::<TlsValues>(&text).unwrap(), values);
        assert!(serde_json::from_str::<TlsValues>(&text.replace("p256", "/bin/sh")).is_err());
        let refused = |change: &dyn Fn(&mut TlsValues)| {
            let mut changed = values.clone();
            change(&mut changed);
            changed.read().unwrap_err().to_string()
        };
        assert!(refused(&|values| values.version = Some("1.2\n".to_owned())).contains("give 1.0"));
        assert_eq!(refused(&|values| values.suites = vec![0xfefe]), "the cipher suite 0xfefe is not known");
        assert!(refused(&|values| values.suites = vec![0x1301; 33]).contains("at most 32"));
        let authority = |text: String| refused(&|values| values.authority = AuthorityText(text.clone()));
        assert!(authority("zz".to_owned()).contains("hexadecimal"));
        assert!(authority("0".to_owned()).contains("hexadecimal"));
        assert!(authority("00".repeat(AUTHORITY_BYTES_MAX + 1)).contains("too many"));
    }
}

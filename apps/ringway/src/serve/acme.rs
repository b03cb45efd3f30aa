//! Certificates of `[tls.acme]`: their thread in the running server, and its figures. The TLS side follows their file as any other.

use super::lock;
use crate::config::Config;
use crate::failure::Failure;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use ringway_acme::{
    Acme, AcmeConfig, AcmeError, CHALLENGES_TIME, ChallengeCertificates, Folder, LOCK_TIME, SharedItem,
    SharedOrders,
};
use ringway_admin::{Answer, Stat, Stats};
use ringway_location::NodeName;
use ringway_redis::{SharedValues, StoreError};
use ringway_server::ClusterSecret;
use ringway_tls::{TlsFiles, TlsLayers, authorities};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The thread that orders, if there is one.
#[derive(Debug, Default)]
pub(super) struct CertificateOrders(Mutex<Option<Acme>>);

impl CertificateOrders {
    /// Starts the thread of a configuration, in place of an earlier one.
    ///
    /// # Errors
    /// The authorities of the directory cannot be read, or the thread cannot be started.
    pub(super) fn start(&self, config: &Config, layers: &Arc<TlsLayers>) -> Result<(), Failure> {
        // The earlier one ends first: both would answer the same challenges.
        drop(lock(&self.0).take());
        let Some(acme) = &config.acme else { return Ok(()) };
        let others = SealedOrders::of(config, acme)?.map(|orders| Arc::new(orders) as Arc<dyn SharedOrders>);
        let trusted = authorities("ca", acme.ca.as_deref()).map_err(|why| failure(&why))?;
        let layers = Arc::clone(layers);
        let set_challenges = Arc::new(move |certificates: ChallengeCertificates| {
            if let Err(why) = layers.set_challenges(certificates) {
                tracing::error!("[tls.acme] the challenge cannot be answered: {why}");
            }
        });
        let started = Acme::start(acme.clone(), trusted, set_challenges, others);
        let thread =
            started.map_err(|why| Failure::failed(format!("[tls.acme] cannot start a thread: {why}")))?;
        *lock(&self.0) = Some(thread);
        Ok(())
    }

    /// Orders a certificate at once.
    pub(super) fn renew(&self) -> Answer {
        match &*lock(&self.0) {
            Some(acme) => {
                acme.renew();
                Answer::done(json!({ "ok": true }))
            }
            None => Answer::refused(404, "the server orders no certificates: there is no section [tls.acme]"),
        }
    }

    /// Figures; without the section the counters are 0.
    pub(super) fn stats(&self) -> Stats {
        let of_thread = lock(&self.0).as_ref().map(Acme::stats);
        let stats = of_thread.unwrap_or_default();
        let counter = |name: &'static str, help, value| Stat::counter(name, help, value);
        let mut list = vec![
            counter("acme_issued", "Certificates that the directory of [tls.acme] issued.", stats.issued),
            counter("acme_failed", "Orders of [tls.acme] that failed.", stats.failed),
            counter("acme_http_answered", "Challenges that were answered by HTTP.", stats.http.answered),
            counter("acme_http_not_found", "HTTP requests for anything else.", stats.http.not_found),
            counter(
                "acme_http_refused",
                "HTTP connections above a limit in number, bytes or time.",
                stats.http.refused,
            ),
        ];
        list.extend(of_thread.map(|stats| {
            let help = "Days until the certificate of [tls.acme] expires; 0 without one.";
            Stat::gauge("acme_days_left", help, stats.days_left)
        }));
        list
    }
}

/// True if a reload with this configuration needs another thread.
pub(super) fn differs(before: &Config, after: &Config) -> bool {
    before.acme != after.acme
        || after.acme.is_some() && (&before.location, &before.cluster) != (&after.location, &after.cluster)
}

/// Certificate and challenges in the store of `[location]`, encrypted by the secret of the cluster. Servers share them that order for the
/// same names.
struct SealedOrders {
    values: SharedValues,
    node: NodeName,
    /// Hash of the names.
    of_names: String,
    key: RandomizedNonceKey,
    /// Key of a secret that is accepted too.
    accepted: Option<RandomizedNonceKey>,
}

impl SealedOrders {
    /// `None`: this server is alone.
    fn of(config: &Config, acme: &AcmeConfig) -> Result<Option<Self>, Failure> {
        let (Some(cluster), Some(location)) = (&config.cluster, &config.location) else { return Ok(None) };
        let key = |secret: &ClusterSecret| {
            RandomizedNonceKey::new(&AES_256_GCM, &secret.key(b"acme")).map_err(|_| {
                Failure::failed("[tls.acme] cannot make a key for the store of the nodes".to_owned())
            })
        };
        let mut names = acme.domains.clone();
        names.sort_unstable();
        let hash = Sha256::digest(names.join(" "));
        Ok(Some(Self {
            values: SharedValues::new(location.url.clone()),
            node: cluster.node,
            of_names: base16ct::lower::encode_string(hash.get(..8).unwrap_or_default()),
            key: key(&cluster.secrets.0)?,
            accepted: cluster.secrets.1.as_ref().map(key).transpose()?,
        }))
    }

    fn name(&self, of: &str) -> String {
        format!("acme:{}:{of}", self.of_names)
    }

    fn sealed(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, AcmeError> {
        let mut sealed = value.to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(name.as_bytes()), &mut sealed);
        let nonce = nonce.map_err(|_| AcmeError::new("the value cannot be encrypted"))?;
        Ok([&nonce.as_ref()[..], &sealed].concat())
    }

    fn opened(&self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, AcmeError> {
        let opened = [Some(&self.key), self.accepted.as_ref()].into_iter().flatten().find_map(|key| {
            let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
            let mut rest = rest.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            Some(key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut rest).ok()?.to_vec())
        });
        opened.ok_or_else(|| {
            AcmeError::new(format!("{name} in the store is not one of this cluster; remove it there"))
        })
    }
}

impl SharedOrders for SealedOrders {
    fn begin(&self) -> Result<bool, AcmeError> {
        let (name, own) = (self.name("order"), self.node.as_bytes());
        if self.values.set_new(&name, own, LOCK_TIME).map_err(away)? {
            return Ok(true);
        }
        // That of an earlier process of this node, or of an order that failed.
        if self.values.get(&name).map_err(away)?.as_deref() != Some(own) {
            return Ok(false);
        }
        self.values.set(&name, own, LOCK_TIME).map_err(away)?;
        Ok(true)
    }

    fn end(&self) -> Result<(), AcmeError> {
        let name = self.name("order");
        match self.values.get(&name).map_err(away)?.as_deref() == Some(self.node.as_bytes()) {
            true => self.values.remove(&name).map_err(away),
            false => Ok(()),
        }
    }

    fn write(&self, item: SharedItem, value: &[u8]) -> Result<(), AcmeError> {
        let (name, life) = match item {
            SharedItem::Certificate => (self.name("certificate"), CERTIFICATE_TIME),
            SharedItem::Challenges => (self.name("challenges"), CHALLENGES_TIME),
        };
        match value.is_empty() {
            true => self.values.remove(&name).map_err(away),
            false => self.values.set(&name, &self.sealed(&name, value)?, life).map_err(away),
        }
    }

    fn read(&self, item: SharedItem) -> Result<Vec<u8>, AcmeError> {
        let name = match item {
            SharedItem::Certificate => self.name("certificate"),
            SharedItem::Challenges => self.name("challenges"),
        };
        let sealed = self.values.get(&name).map_err(away)?;
        sealed.map_or(Ok(Vec::new()), |sealed| self.opened(&name, &sealed))
    }
}

/// Without the keys.
impl fmt::Debug for SealedOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedOrders").field("node", &self.node).finish_non_exhaustive()
    }
}

fn away(why: StoreError) -> AcmeError {
    AcmeError::new(format!("the store of [location] cannot be used: {why}"))
}

/// Longer than the life of any certificate of a directory.
const CERTIFICATE_TIME: Duration = Duration::from_secs(400 * 86_400);

/// Checks what an order needs, and makes the folder with a certificate for the time until the first one succeeds.
pub(super) fn prepare(config: &Config) -> Result<(), Failure> {
    check(config)?;
    let prepared = config.acme.as_ref().map(|acme| Folder::new(&acme.folder).prepare(&acme.domains));
    prepared.unwrap_or(Ok(())).map_err(|why| failure(&why))
}

/// Checks what an order needs, and changes nothing.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    let Some(acme) = &config.acme else { return Ok(()) };
    Folder::new(&acme.folder).check().map_err(|why| failure(&why))?;
    authorities("ca", acme.ca.as_deref()).map(drop).map_err(|why| failure(&why))
}

/// The files of `[tls]`, without the certificate that is not there before the first start.
pub(super) fn present_files(config: &Config) -> TlsFiles {
    let mut files = config.tls.clone();
    if config.acme.as_ref().is_some_and(|acme| !Folder::new(&acme.folder).certificate().exists()) {
        files.certificate = None;
    }
    files
}

fn failure(why: &dyn std::fmt::Display) -> Failure {
    Failure::configuration(vec![format!("[tls.acme] {why}")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_redis::LocationUrl;

    fn sealed(secret: u8, accepted: Option<u8>) -> SealedOrders {
        let key = |secret: u8| {
            RandomizedNonceKey::new(&AES_256_GCM, &ClusterSecret::new(&[secret; 32]).key(b"acme")).unwrap()
        };
        SealedOrders {
            values: SharedValues::new(LocationUrl::parse("redis://127.0.0.1:1").unwrap()),
            node: NodeName::read(b"a").unwrap(),
            of_names: "names".into(),
            key: key(secret),
            accepted: accepted.map(key),
        }
    }

    #[test]
    fn what_is_in_the_store_is_read_by_nodes_with_the_secret_only() {
        let own = sealed(1, None);
        let value = own.sealed("certificate", b"chain and key").unwrap();
        assert!(!value.windows(5).any(|part| part == b"chain"));
        assert_ne!(value, own.sealed("certificate", b"chain and key").unwrap(), "another nonce");
        let opened = |orders: &SealedOrders, name| orders.opened(name, &value);
        assert_eq!(opened(&own, "certificate"), Ok(b"chain and key".to_vec()));
        assert_eq!(
            opened(&sealed(2, Some(1)), "certificate"),
            Ok(b"chain and key".to_vec()),
            "the secret changes"
        );
        for (orders, name) in [(&sealed(2, None), "certificate"), (&own, "challenges")] {
            let error = opened(orders, name).unwrap_err().to_string();
            assert!(error.contains("is not one of this cluster"), "{error}");
        }
        for damaged in [&value[..value.len() - 1], &value[..8], &[]] {
            assert!(own.opened("certificate", damaged).is_err());
        }
        assert!(own.begin().unwrap_err().to_string().contains("cannot be used"));
    }
}

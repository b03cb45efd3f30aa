//! Certificates of `[tls.acme]`: their thread in the running server, and its figures. The TLS side follows their file as any other.

use super::lock;
use crate::config::Config;
use crate::failure::Failure;
use ringway_acme::{Acme, AcmeConfig, ChallengeCertificates, Folder};
use ringway_admin::{Answer, Stat, Stats};
use ringway_tls::{TlsFiles, TlsLayers, authorities};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// The thread that orders, if there is one.
#[derive(Debug, Default)]
pub(super) struct CertificateOrders(Mutex<Option<Acme>>);

impl CertificateOrders {
    /// Starts the thread of a configuration, in place of an earlier one.
    ///
    /// # Errors
    /// The authorities of the directory cannot be read, or the thread cannot be started.
    pub(super) fn start(&self, acme: Option<&AcmeConfig>, layers: &Arc<TlsLayers>) -> Result<(), Failure> {
        // The earlier one ends first: both would answer the same challenges.
        drop(lock(&self.0).take());
        let Some(acme) = acme else { return Ok(()) };
        let trusted = authorities("ca", acme.ca.as_deref()).map_err(|why| failure(&why))?;
        let layers = Arc::clone(layers);
        let set_challenges = Arc::new(move |certificates: ChallengeCertificates| {
            if let Err(why) = layers.set_challenges(certificates) {
                tracing::error!("[tls.acme] the challenge cannot be answered: {why}");
            }
        });
        let started = Acme::start(acme.clone(), trusted, set_challenges);
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

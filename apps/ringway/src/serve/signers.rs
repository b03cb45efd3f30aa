//! Certificates of who signs the calls of trunks (`[stir]`): their thread, and its figures.

use super::clients::DriverHandles;
use crate::config::{Config, SignerSettings};
use crate::failure::Failure;
use ringway_acme::{SignerRules, SignerStats, Signers};
use ringway_admin::Stat;
use ringway_server::is_private;
use ringway_tls::authorities;
use std::sync::Arc;

/// Starts the thread, if certificates are fetched.
pub(super) fn open(config: &Config, handles: &DriverHandles) -> Result<Option<Arc<Signers>>, Failure> {
    let Some(settings) = &config.stir.signers else { return Ok(None) };
    let inboxes = handles.inboxes.clone();
    let answer = move |shard, event| {
        // If the inbox is full the result is lost; the call then goes on without it in 5 s.
        inboxes.deliver(shard, event);
    };
    Signers::start(rules(settings)?, answer)
        .map(|signers| Some(Arc::new(signers)))
        .map_err(|why| failure(&format!("authorities: cannot be used: {why}")))
}

/// Checks what [`open`] needs, without starting it.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    config.stir.signers.as_ref().map_or(Ok(()), |settings| rules(settings).map(drop))
}

fn rules(settings: &SignerSettings) -> Result<SignerRules, Failure> {
    let servers = authorities("server_authorities", settings.server_authorities.as_deref());
    let networks = settings.networks.clone();
    Ok(SignerRules {
        authorities: settings.authorities.iter().map(|der| der.clone().into()).collect(),
        servers: servers.map_err(|why| failure(&why))?,
        permits: Arc::new(move |ip| {
            let is_public = !is_private(ip) && !ip.is_multicast();
            is_public || networks.iter().any(|network| network.contains(ip))
        }),
    })
}

fn failure(why: &dyn std::fmt::Display) -> Failure {
    Failure::configuration(vec![format!("[stir] {why}")])
}

/// Figures of the thread; zeros without it.
pub(super) fn stats(stats: SignerStats) -> [Stat; 4] {
    let SignerStats { fetched, failed, refused, cached } = stats;
    [
        Stat::counter(
            "signers_fetched",
            "Certificates of signers that were fetched and are accepted.",
            fetched,
        ),
        Stat::counter(
            "signers_failed",
            "Certificates of signers that could not be fetched, or are not accepted.",
            failed,
        ),
        Stat::counter("signers_refused", "Certificates of signers not fetched: too many at a time.", refused),
        Stat::counter(
            "signers_cached",
            "Requests for certificates of signers that the cache answered.",
            cached,
        ),
    ]
}

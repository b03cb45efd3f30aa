//! TLS of the server machine: certificate and key from the boot medium, and reports of failed handshakes.

use crate::machine::Machine;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use ringway_ethernet::Card;
use ringway_sansio::{Instant, Transport};
use ringway_tls_bare::Credentials;
use ringway_ui::Level;

impl<C: Card> Machine<C> {
    /// Prepares TLS if a listener needs it.
    ///
    /// # Errors
    /// Certificate and key are missing or unusable, or there is no source of randomness; the message is for the user.
    pub(crate) fn prepare_tls(&mut self) -> Result<(), String> {
        if self.has_tls || !self.settings.listen.iter().any(|listener| listener.transport == Transport::Tls) {
            return Ok(());
        }
        let file = self.hardware.boot_file.ok_or(
            "TLS needs a certificate and its key on the boot medium; build it with --tls FILE.pem, or give tls=off",
        )?;
        let seed = self.hardware.tls_seed.take().ok_or(
            "TLS needs random numbers, and this machine has neither RDRAND nor virtio-rng; give tls=off, or another \
             machine",
        )?;
        let credentials = Credentials::from_pem(file);
        let prepared =
            credentials.and_then(|credentials| self.station.layers_mut().set_credentials(credentials, &seed));
        prepared.map_err(|error| {
            format!("TLS: {error}; give the boot medium an ECDSA key on P-256 with its certificate, in PEM")
        })?;
        self.has_tls = true;
        Ok(())
    }

    /// Logs a failed handshake, at most one in [`REPORT_INTERVAL`].
    pub(crate) fn report_failed_handshake(&mut self, now: Instant) {
        if now < self.tls_report_at {
            return;
        }
        if let Some((peer, why)) = self.station.layers().take_failure() {
            self.tls_report_at = now + REPORT_INTERVAL;
            let failed = self.station.layers().counters().failed;
            let text =
                format!("tls: the handshake with {peer} failed: {why}; {failed} failed since the start");
            self.log(now, Level::Warning, &text);
        }
    }
}

const REPORT_INTERVAL: Duration = Duration::from_secs(10);

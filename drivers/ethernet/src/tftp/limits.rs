//! Limits of a download.

use core::time::Duration;

/// Limits of one download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// Maximum file size in bytes.
    pub file_bytes_max: usize,
    /// Maximum number of transmissions of a packet; at least 1.
    pub tries_max: u32,
    /// Initial retransmission timeout; doubles with each retransmission.
    pub first_wait: Duration,
    /// Maximum retransmission timeout.
    pub wait_max: Duration,
    /// Maximum duration of the download, which bounds servers that send a byte now and then.
    pub duration_max: Duration,
    /// Time during which the last acknowledgement is repeated if the server retransmits the last block (RFC 1350 §6).
    pub linger: Duration,
}

impl Default for DownloadLimits {
    /// 4 MiB; 6 tries after 1, 2, 4, 8 and 8 seconds; 15 minutes in all.
    fn default() -> Self {
        Self {
            file_bytes_max: 4 << 20,
            tries_max: 6,
            first_wait: Duration::from_secs(1),
            wait_max: Duration::from_secs(8),
            duration_max: Duration::from_secs(900),
            linger: Duration::from_secs(5),
        }
    }
}

impl DownloadLimits {
    /// Timeout after the `tries`th transmission of a packet, counted from 1.
    pub(super) fn wait(&self, tries: u32) -> Duration {
        let factor = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_wait.saturating_mul(factor).min(self.wait_max)
    }
}

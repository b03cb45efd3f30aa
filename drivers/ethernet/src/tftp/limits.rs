//! What a download may take.

use core::time::Duration;

/// Bounds of one download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// The largest file that is taken, in bytes.
    pub file_bytes_max: usize,
    /// How often a packet is sent before the server is given up; at least 1.
    pub tries_max: u32,
    /// How long an answer is waited for at first; doubled for every repetition.
    pub first_wait: Duration,
    /// How long an answer is waited for at most.
    pub wait_max: Duration,
    /// How long the whole may take, so that a server that sends a byte now and then does not hold us for ever.
    pub duration_max: Duration,
    /// How long the last acknowledgement is repeated for a server that did not get it (RFC 1350 §6).
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
    /// How long to wait for an answer after sending the same packet for the `tries`th time, from 1.
    pub(super) fn wait(&self, tries: u32) -> Duration {
        let factor = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_wait.saturating_mul(factor).min(self.wait_max)
    }
}

//! Settings of the overload control.

use core::time::Duration;

/// Overload control: requests that waited too long in the sockets are refused, those that are worth least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverloadConfig {
    /// False: no request is refused for its waiting time. Default: true.
    pub enabled: bool,
    /// Waiting time above which requests are refused while the sockets are never empty, 1 ms to 1 s. Default: 10 ms.
    pub target_delay: Duration,
    /// Waiting time above which datagrams get no response while refusing takes too much already, up to 10 s and at least twice
    /// [`OverloadConfig::target_delay`]. Default: 100 ms.
    pub max_delay: Duration,
}

impl Default for OverloadConfig {
    fn default() -> Self {
        Self { enabled: true, target_delay: Duration::from_millis(10), max_delay: Duration::from_millis(100) }
    }
}

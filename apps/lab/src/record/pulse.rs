//! Record of a pulse.

use serde::{Deserialize, Serialize};

/// A pulse beyond the peak, and the load after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pulse {
    /// Name of the experiment.
    pub experiment: String,
    /// Variant.
    pub variant: String,
    /// Name of the target.
    pub target: String,
    /// Peak, in attempts a second.
    pub peak: f64,
    /// Load of the pulse in multiples of the peak.
    pub multiple: f64,
    /// Its seconds.
    pub seconds: f64,
    /// Load after it in multiples of the peak.
    pub then: f64,
    /// Seconds of that.
    pub then_seconds: f64,
    /// Seconds after the end of the pulse from which on at least 99 % of the attempts of each second succeeded; `null` if they never did.
    pub recovered_s: Option<f64>,
    /// It says something about the server.
    pub valid: bool,
    /// Reason for which it does not count; empty if it does.
    pub invalid_because: String,
    /// Second, and in it: planned, ended and successful attempts, retransmissions.
    pub seconds_series: Vec<[u64; 5]>,
}

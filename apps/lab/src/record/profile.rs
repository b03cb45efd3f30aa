//! Record of a profiled trial.

use serde::{Deserialize, Serialize};

/// CPU time of a server by component, in a trial of its own that is no result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Name of the experiment.
    pub experiment: String,
    /// Variant.
    pub variant: String,
    /// Name of the target.
    pub target: String,
    /// Offered attempts a second.
    pub rate: f64,
    /// Length of the window: the load and what the server writes after it.
    pub seconds: f64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Reason for which the generator did not do its part; empty if it did.
    pub invalid_because: String,
    /// Samples of the server's threads.
    pub samples: u64,
    /// Time of these samples.
    pub sampled_ms: f64,
    /// CPU time of the same threads in the same window by schedstat.
    pub scheduled_ms: f64,
    /// `sampled_ms / scheduled_ms`.
    pub agreement: f64,
    /// They agree within 5 %.
    pub agrees: bool,
    /// Reason for which they do not; empty if they do.
    pub disagreement: String,
    /// CPU time of the server for each attempt by schedstat, with the profiler.
    pub server_cpu_us: f64,
    /// The same without it: median of the valid trials at this rate.
    pub unprofiled_cpu_us: Option<f64>,
    /// Components in their order; their shares are 1 together.
    pub components: Vec<ComponentTime>,
    /// The most expensive functions, at most 40.
    pub functions: Vec<FunctionTime>,
    /// Time for each attempt in which the kernel received packets for the server, charged to the generator.
    pub receiving_us: f64,
    /// Time for each attempt in which the kernel received packets for the generator, charged to the server and in its components.
    pub received_us: f64,
    /// Share of a processor that the profiler used.
    pub profiler_share: f64,
    /// Peak that follows from the CPU time for each attempt, if one was measured.
    pub extrapolated_peak: Option<f64>,
    /// The measured peak.
    pub measured_peak: Option<f64>,
    /// Reason for which the measured peak is only a lower bound; empty if it is not.
    pub peak_limited_by: String,
    /// Remarks about files and functions.
    pub remarks: Vec<String>,
}

/// Time of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComponentTime {
    /// Key of the component, such as `tls-keys`.
    pub component: String,
    /// Name for people.
    pub title: String,
    /// Share of the server's samples.
    pub share: f64,
    /// Time for each attempt.
    pub us: f64,
}

/// Time of a function, without what it calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionTime {
    /// Key of its component.
    pub component: String,
    /// File.
    pub object: String,
    /// Name; empty if the file has none, or no table of them.
    pub function: String,
    /// Share of the server's samples.
    pub share: f64,
    /// Time for each attempt.
    pub us: f64,
}

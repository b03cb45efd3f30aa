//! Programs under test, measured through the system.

use anyhow::Result;
use ringway_lab::machine::process_cpu_ns;

pub(crate) use ringway_test_support::eventually::PATIENCE;
pub(crate) use ringway_test_support::port::{TCP, UDP, await_listener, free_port};
pub(crate) use ringway_test_support::process::{Process, Signal};

/// CPU time of the living threads of a program in seconds.
pub(crate) fn cpu_s(process: &Process) -> Result<f64> {
    Ok(process_cpu_ns(process.id())? as f64 / 1e9)
}

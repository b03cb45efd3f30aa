//! Processors that stay awake while a media thread waits.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// While it lives, idle processors of this machine do not sleep, so that none has to wake up before a beat is kept:
/// on a virtual machine that alone takes up to a millisecond. Costs power, not this process's time.
pub(super) struct Awake {
    /// The request lasts as long as the file is open (Linux: PM QoS, `/dev/cpu_dma_latency`).
    _file: File,
}

impl Awake {
    /// Asks for it. `None`: the system does not let this process ask, or knows no such thing.
    pub(super) fn ask() -> Option<Self> {
        let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
        // The longest time in microseconds that waking may take.
        file.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Self { _file: file })
    }
}

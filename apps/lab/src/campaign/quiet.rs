//! Waiting for other programs to leave the machine.

use super::noise::Meter;
use super::trial::pause;
use super::{NOISE_WAIT, Running};
use std::time::{Duration, Instant};

impl Running<'_> {
    /// Waits until the machine is quiet, as long as the campaign's patience lasts. A server that is up but gets no load uses too little
    /// to be seen.
    pub(super) fn wait_for_quiet(&mut self) {
        while !self.totals.interrupted && self.patience_left() > Duration::ZERO {
            let (begun, meter) = (Instant::now(), Meter::start());
            if pause(NOISE_WAIT.min(self.patience_left()), self.observer) {
                self.totals.interrupted = true;
            }
            let Some(disturbance) = meter.noise(0).disturbance() else { return };
            self.waited += begun.elapsed();
            let left = self.patience_left().as_secs();
            self.begin(&format!("waiting for a quiet machine, {left} s at most: {disturbance}"));
        }
    }

    fn patience_left(&self) -> Duration {
        self.options.patience.saturating_sub(self.waited)
    }
}

//! Open loop: operations started at planned times, independent of the server, and the delay of each from its planned time.
//!
//! One thread that polls its sockets without sleeping, so that the delays contain no wake-up of the generator.

use crate::closed_loop::{Progress, Scenario, Sending};
use crate::wire::Wire;
use anyhow::{Result, anyhow};
use std::time::{Duration, Instant};

/// Time after the last planned operation within which answers count.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Rate and length of a run.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Operations a second.
    pub rate: u32,
    /// Number of operations.
    pub operations: u32,
}

/// Delays of a run.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Delays from the planned time to the answer, sorted.
    sorted: Vec<Duration>,
    /// Operations without an answer in time.
    pub lost: u32,
}

impl Delays {
    /// Delay that this share of the operations does not exceed, in microseconds; NaN without an answer.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.sorted.get(at).map_or(f64::NAN, |delay| delay.as_nanos() as f64 / 1000.0)
    }
}

/// Starts operations of `scenario` at `pace`; an operation must consist of one request and its answer.
///
/// # Errors
/// A message that the scenario does not expect, or an error of the sockets.
pub fn drive_at<W: Wire, S: Scenario>(wire: &mut W, scenario: &mut S, pace: Pace) -> Result<Delays> {
    // Discards what arrived since the last run.
    while wire.receive(&mut |_, _, _| Ok(()))? > 0 {}
    let mut planned: Vec<Option<Instant>> = vec![None; scenario.window()];
    let mut free: Vec<usize> = (0..scenario.window()).collect();
    let mut delays = Delays::default();
    let mut gaps = Gaps::new(pace.rate);
    let (mut next, mut started) = (Instant::now() + Duration::from_millis(10), 0);
    loop {
        let now = Instant::now();
        if started < pace.operations && now >= next {
            // Without a free slot the operation starts later, and its delay counts from its planned time.
            if let Some(slot) = free.pop() {
                scenario.begin(slot, &mut Sending::to(wire.outbound()));
                wire.flush()?;
                set(&mut planned, slot, Some(next));
                (started, next) = (started + 1, next + gaps.next());
            }
        } else if started == pace.operations && (free.len() == planned.len() || now > next + LATE_MAX) {
            break;
        }
        wire.receive(&mut |socket, bytes, outbound| {
            match scenario.on_message(socket, bytes, &mut Sending::to(outbound)) {
                Progress::Nothing => {}
                Progress::Done(slot) => {
                    if let Some(Some(at)) = planned.get(slot).copied() {
                        delays.sorted.push(at.elapsed());
                        free.push(slot);
                    }
                    set(&mut planned, slot, None);
                }
                Progress::Step(_) | Progress::Unexpected => {
                    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
                    return Err(anyhow!("unexpected answer: {}", String::from_utf8_lossy(line)));
                }
            }
            Ok(())
        })?;
    }
    delays.lost = pace.operations - delays.sorted.len() as u32;
    delays.sorted.sort_unstable();
    Ok(delays)
}

fn set(planned: &mut [Option<Instant>], slot: usize, at: Option<Instant>) {
    if let Some(place) = planned.get_mut(slot) {
        *place = at;
    }
}

/// Times between operations, evenly distributed between nothing and twice their mean, so that they have no fixed phase to
/// a clock of the server. The sequence is the same in every run.
struct Gaps {
    mean_ns: u64,
    state: u64,
}

impl Gaps {
    fn new(rate: u32) -> Self {
        Self { mean_ns: 1_000_000_000 / u64::from(rate.max(1)), state: 0x9E37_79B9_7F4A_7C15 }
    }

    fn next(&mut self) -> Duration {
        // xorshift64
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Duration::from_nanos(self.state % (2 * self.mean_ns).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_taken_from_the_sorted_delays() {
        let sorted = (1..=101).map(Duration::from_micros).collect();
        let delays = Delays { sorted, lost: 0 };
        assert_eq!(delays.quantile_us(0.5), 51.0);
        assert_eq!(delays.quantile_us(0.99), 100.0);
        assert!(Delays::default().quantile_us(0.5).is_nan());
    }

    #[test]
    fn gaps_have_their_mean() {
        let mut gaps = Gaps::new(1000);
        let sum: Duration = (0..10_000).map(|_| gaps.next()).sum();
        assert!((9.8..10.2).contains(&sum.as_secs_f64()), "{sum:?}");
    }
}

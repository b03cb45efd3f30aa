//! Rate of TLS handshakes of the admin listener: a flood of them must leave the processor to the threads that carry SIP.

use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Gives handshakes their turn, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct HandshakePace {
    /// Time from which on there is no unused turn.
    next: Mutex<Instant>,
}

impl HandshakePace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: Mutex::new(now) }
    }

    /// Waits for a turn. A connection that is closed meanwhile leaves the queue and takes none.
    pub(crate) async fn turn(&self) {
        let mut next = self.next.lock().await;
        let wait = next.saturating_duration_since(Instant::now() + PERIOD * AT_ONCE);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        *next = (*next).max(Instant::now()) + PERIOD;
    }
}

/// Time between two handshakes: with an RSA key of 2,048 bits one takes 1 ms, so that a flood takes 5 % of a core.
const PERIOD: Duration = Duration::from_millis(20);
/// Handshakes at once after a pause.
const AT_ONCE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_waits_for_its_turns() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let begun = Instant::now();
            let pace = HandshakePace::new(begun);
            for _ in 0..1 + AT_ONCE + 5 {
                pace.turn().await;
            }
            assert!(begun.elapsed() >= PERIOD * 5, "{:?}", begun.elapsed());
        });
    }
}

//! Timed commands of a phone without a screen.

use crate::phone::settings::ScriptSettings;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send a digit.
    Dtmf(char),
    /// Put the call on hold.
    Hold,
    /// Take it up again.
    Resume,
    /// End it.
    HangUp,
}

/// Remaining commands of a call, in order.
#[derive(Debug)]
pub(crate) struct Script {
    begun: Instant,
    steps: VecDeque<(Duration, Step)>,
}

impl Script {
    /// Begins at the answer.
    pub(crate) fn begin(settings: &ScriptSettings, now: Instant) -> Self {
        let digits = settings.dtmf.chars().zip(0_u32..);
        let mut steps: Vec<(Duration, Step)> =
            digits.map(|(digit, place)| (DTMF_AFTER + DTMF_EVERY * place, Step::Dtmf(digit))).collect();
        for &at in &settings.hold_at {
            steps.push((at, Step::Hold));
            steps.push((at + settings.hold, Step::Resume));
        }
        steps.extend(settings.duration.map(|duration| (duration, Step::HangUp)));
        steps.sort_by_key(|(at, _)| *at);
        Self { begun: now, steps: steps.into() }
    }

    /// The next step that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Step> {
        let (at, _) = self.steps.front()?;
        if now < self.begun + *at {
            return None;
        }
        self.steps.pop_front().map(|(_, step)| step)
    }

    /// Time until the next command.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let (at, _) = self.steps.front()?;
        Some((self.begun + *at).saturating_duration_since(now))
    }
}

/// Time of the first digit: the other side should receive by then.
const DTMF_AFTER: Duration = Duration::from_millis(500);

/// A digit and the pause after it.
const DTMF_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_in_the_order_of_their_times() {
        let settings = ScriptSettings {
            duration: Some(Duration::from_secs(5)),
            dtmf: "1#".to_owned(),
            hold_at: vec![Duration::from_secs(1), Duration::from_secs(3)],
            hold: Duration::from_secs(1),
            is_metered: false,
        };
        let begun = Instant::now();
        let mut script = Script::begin(&settings, begun);
        assert_eq!(script.due(begun), None);
        assert_eq!(script.wait(begun), Some(DTMF_AFTER));
        let mut seen = Vec::new();
        for tenth in 0..60 {
            while let Some(step) = script.due(begun + Duration::from_millis(100) * tenth) {
                seen.push((tenth, step));
            }
        }
        let steps = [
            (5, Step::Dtmf('1')),
            (8, Step::Dtmf('#')),
            (10, Step::Hold),
            (20, Step::Resume),
            (30, Step::Hold),
            (40, Step::Resume),
            (50, Step::HangUp),
        ];
        assert_eq!(seen, steps);
        assert_eq!(script.wait(begun), None);
    }
}

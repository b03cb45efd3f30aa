//! What is heard in place of a lost packet, at 8,000 Hz: the last pitch periods again, fading (as ITU-T G.711
//! Appendix I does it, but without its delay of 3.75 ms).

/// Continues sound over gaps. It must be shown all sound that is heard, in order.
#[derive(Clone, Debug)]
pub struct Concealer {
    /// The newest sound last.
    history: [i16; HISTORY],
    gap: Option<Gap>,
}

/// A gap that is being filled.
#[derive(Clone, Debug)]
struct Gap {
    /// The sound before the gap.
    before: [i16; HISTORY],
    /// One period of the voice, in samples.
    period: usize,
    /// How many periods are repeated: 1, after 10 ms 2, after 20 ms 3, so that it does not buzz.
    periods: usize,
    /// Where in them the next sample is.
    position: usize,
    /// Where the same moment is in one period less, while one passes into the other.
    previous: Option<Passing>,
    /// Samples filled so far.
    filled: usize,
    /// The step that the first repetition would make.
    step: i32,
}

/// From fewer periods to more.
#[derive(Clone, Copy, Debug)]
struct Passing {
    position: usize,
    done: usize,
}

/// The period of a voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pitch {
    /// So quiet that nobody hears what is done to it.
    Quiet,
    /// It repeats itself after this many samples, 40-120.
    Period(usize),
    /// It does not repeat itself; this is the best that was found.
    Unclear(usize),
}

impl Default for Concealer {
    fn default() -> Self {
        Self::new()
    }
}

impl Concealer {
    /// Nothing was heard yet: gaps are filled with silence.
    pub const fn new() -> Self {
        Self { history: [0; HISTORY], gap: None }
    }

    /// Takes sound that follows, and passes smoothly into it where a gap ends.
    pub fn on_sound(&mut self, sound: &mut [i16]) {
        if let Some(mut gap) = self.gap.take() {
            // 4 ms, and 4 more for every 10 ms that were filled.
            let overlap = (OVERLAP * (1 + gap.filled / BLOCK_10_MS)).min(OVERLAP_MAX).min(sound.len());
            for (at, sample) in sound.iter_mut().take(overlap).enumerate() {
                *sample = cross_fade(gap.next_sample(), *sample, at, overlap);
            }
        }
        self.remember(sound);
    }

    /// Fills a gap.
    pub fn fill(&mut self, gap: &mut [i16]) {
        let state = self.gap.get_or_insert_with(|| Gap::new(&self.history));
        for sample in gap.iter_mut() {
            *sample = state.next_sample();
        }
        self.remember(gap);
    }

    /// The sound heard last, the newest at the end: 48.75 ms.
    pub const fn history(&self) -> &[i16; HISTORY] {
        &self.history
    }

    /// What the sound heard last is like.
    pub fn pitch(&self) -> Pitch {
        pitch(&self.history)
    }

    fn remember(&mut self, sound: &[i16]) {
        let newest = sound.get(sound.len().saturating_sub(HISTORY)..).unwrap_or_default();
        self.history.copy_within(newest.len().., 0);
        if let Some(end) = self.history.get_mut(HISTORY - newest.len()..) {
            end.copy_from_slice(newest);
        }
    }
}

impl Gap {
    fn new(before: &[i16; HISTORY]) -> Self {
        let period = match pitch(before) {
            Pitch::Quiet => PERIOD_MAX,
            Pitch::Period(period) | Pitch::Unclear(period) => period,
        };
        let step = i32::from(before[HISTORY - 1]) - i32::from(before[HISTORY - 1 - period]);
        Self { before: *before, period, periods: 1, position: 0, previous: None, filled: 0, step }
    }

    fn next_sample(&mut self) -> i16 {
        let periods_now = (1 + self.filled / BLOCK_10_MS).min(PERIODS_MAX);
        if periods_now > self.periods {
            self.previous = Some(Passing { position: self.position, done: 0 });
            self.position %= self.period;
            self.periods = periods_now;
        }
        let mut sample = self.repeated(self.periods, self.position);
        self.position = (self.position + 1) % (self.periods * self.period);
        let quarter = self.period / 4;
        if let Some(passing) = self.previous {
            let from = self.repeated(self.periods - 1, passing.position);
            sample = cross_fade(from, sample, passing.done, quarter);
            let position = (passing.position + 1) % ((self.periods - 1) * self.period);
            let done = passing.done + 1;
            self.previous = (done < quarter).then_some(Passing { position, done });
        }
        let mut wide = i32::from(sample);
        if self.filled < quarter {
            wide += self.step * (quarter - self.filled) as i32 / quarter as i32;
        }
        let faded = (wide.clamp(i16::MIN.into(), i16::MAX.into()) * self.gain()) >> GAIN_BITS;
        self.filled += 1;
        faded as i16
    }

    /// A sample of the last `periods` periods, whose end passes into their beginning.
    fn repeated(&self, periods: usize, position: usize) -> i16 {
        let len = periods * self.period;
        let quarter = self.period / 4;
        let at = |index: usize| self.before.get(index).copied().unwrap_or(0);
        let sample = at(HISTORY - len + position);
        match (position + quarter).checked_sub(len) {
            Some(done) => cross_fade(sample, at(HISTORY - len - quarter + done), done, quarter),
            None => sample,
        }
    }

    /// All of it for 10 ms, a fifth less for each further 10 ms, nothing after 60 ms.
    fn gain(&self) -> i32 {
        let faded = self.filled.saturating_sub(BLOCK_10_MS).min(FADE);
        ((FADE - faded) << GAIN_BITS).div_ceil(FADE) as i32
    }
}

/// `from` at the beginning of `whole` samples, `to` at their end.
pub(crate) fn cross_fade(from: i16, to: i16, at: usize, whole: usize) -> i16 {
    let (at, whole) = (at as i32 + 1, whole as i32 + 1);
    ((i32::from(from) * (whole - at) + i32::from(to) * at) / whole) as i16
}

/// The lag by which the last 20 ms resemble best what was before, by normalised cross-correlation.
fn pitch(sound: &[i16; HISTORY]) -> Pitch {
    let energy_of = |part: &[i16]| part.iter().map(|s| i64::from(*s) * i64::from(*s)).sum::<i64>();
    let newest = &sound[HISTORY - TEMPLATE..];
    let energy = energy_of(newest);
    if energy < QUIET * TEMPLATE as i64 {
        return Pitch::Quiet;
    }
    let (mut period, mut best, mut best_energy) = (PERIOD_MIN, 0_i128, 1_i128);
    for lag in PERIOD_MIN..=PERIOD_MAX {
        let Some(older) = sound.get(HISTORY - TEMPLATE - lag..HISTORY - lag) else { break };
        let likeness: i64 = newest.iter().zip(older).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
        let likeness = i128::from(likeness.max(0));
        let older_energy = i128::from(energy_of(older).max(1));
        // Compared without dividing: likeness² / energy.
        if likeness * likeness * best_energy > best * older_energy {
            (period, best, best_energy) = (lag, likeness * likeness, older_energy);
        }
    }
    // A correlation of at least 0.7.
    if 2 * best > i128::from(energy) * best_energy { Pitch::Period(period) } else { Pitch::Unclear(period) }
}

/// Samples of sound that are kept: three of the longest periods and a quarter.
pub const HISTORY: usize = PERIODS_MAX * PERIOD_MAX + PERIOD_MAX / 4;
/// The shortest period of a voice looked for: 5 ms, 200 Hz. Higher voices are found at a multiple.
pub const PERIOD_MIN: usize = 40;
/// The longest: 15 ms, 66 Hz.
pub const PERIOD_MAX: usize = 120;
const PERIODS_MAX: usize = 3;
const TEMPLATE: usize = 160;
const BLOCK_10_MS: usize = 80;
const OVERLAP: usize = 32;
const OVERLAP_MAX: usize = 80;
/// 50 ms.
const FADE: usize = 400;
const GAIN_BITS: u32 = 14;
/// Mean square of a sample that counts as silence: about -66 dB.
const QUIET: i64 = 256;

#[cfg(test)]
#[path = "concealment_tests.rs"]
mod tests;

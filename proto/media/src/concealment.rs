//! Sound at 8,000 Hz that no packet brought or that comes at another speed. Concealment of lost packets repeats the last
//! pitch periods and fades out; time scaling shortens or lengthens sound by a pitch period, to change the delay of the jitter
//! buffer.

/// Fills gaps in a sound stream. It needs all played samples, in order.
#[derive(Clone, Debug)]
pub struct Concealer {
    /// The latest samples, newest last.
    history: [i16; HISTORY],
    gap: Option<Gap>,
}

/// A gap that is being filled.
#[derive(Clone, Debug)]
struct Gap {
    /// Samples before the gap.
    before: [i16; HISTORY],
    /// Pitch period in samples.
    period: usize,
    /// Number of periods that are repeated: 1, after 10 ms 2, after 20 ms 3, to avoid a buzzing sound.
    periods: usize,
    /// Position of the next sample in these periods.
    position: usize,
    /// Position of the same sample with one period less, during the cross-fade.
    previous: Option<CrossFade>,
    /// Number of samples filled so far.
    filled: usize,
    /// Step between the end of the sound and the first repeated sample.
    step: i32,
}

/// Cross-fade from fewer periods to more.
#[derive(Clone, Copy, Debug)]
struct CrossFade {
    position: usize,
    done: usize,
}

/// Pitch period of a sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pitch {
    /// Too quiet for changes to be audible.
    Quiet,
    /// Periodic, with a period of 40 to 120 samples.
    Period(usize),
    /// Not periodic; the best lag found.
    Unclear(usize),
}

impl Default for Concealer {
    fn default() -> Self {
        Self::new()
    }
}

impl Concealer {
    /// Creates a concealer without history: gaps are filled with silence.
    pub const fn new() -> Self {
        Self { history: [0; HISTORY], gap: None }
    }

    /// Adds the samples that are played next. After a gap it cross-fades into them.
    pub fn on_sound(&mut self, sound: &mut [i16]) {
        if let Some(mut gap) = self.gap.take() {
            // 4 ms, and 4 ms more for every 10 ms of the gap.
            let overlap = (OVERLAP * (1 + gap.filled / BLOCK_10_MS)).min(OVERLAP_MAX).min(sound.len());
            for (at, sample) in sound.iter_mut().take(overlap).enumerate() {
                *sample = cross_fade(gap.next_sample(), *sample, at, overlap);
            }
        }
        self.remember(sound);
    }

    /// Fills a gap with concealment samples.
    pub fn fill(&mut self, gap: &mut [i16]) {
        let state = self.gap.get_or_insert_with(|| Gap::new(&self.history));
        for sample in gap.iter_mut() {
            *sample = state.next_sample();
        }
        self.remember(gap);
    }

    /// The latest 48.75 ms of samples, newest last.
    pub const fn history(&self) -> &[i16; HISTORY] {
        &self.history
    }

    /// Pitch of the latest samples.
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
            self.previous = Some(CrossFade { position: self.position, done: 0 });
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
            self.previous = (done < quarter).then_some(CrossFade { position, done });
        }
        let mut wide = i32::from(sample);
        if self.filled < quarter {
            wide += self.step * (quarter - self.filled) as i32 / quarter as i32;
        }
        let faded = (wide.clamp(i16::MIN.into(), i16::MAX.into()) * self.gain()) >> GAIN_BITS;
        self.filled += 1;
        faded as i16
    }

    /// A sample of the last `periods` periods, with a cross-fade from their end to their beginning.
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

    /// Gain: full for 10 ms, a fifth less for each further 10 ms, zero after 60 ms.
    fn gain(&self) -> i32 {
        let faded = self.filled.saturating_sub(BLOCK_10_MS).min(FADE);
        ((FADE - faded) << GAIN_BITS).div_ceil(FADE) as i32
    }
}

/// Cross-fade at sample `at` of `whole`: from `from` to `to`.
fn cross_fade(from: i16, to: i16, at: usize, whole: usize) -> i16 {
    let (at, whole) = (at as i32 + 1, whole as i32 + 1);
    ((i32::from(from) * (whole - at) + i32::from(to) * at) / whole) as i16
}

/// Lag with the highest normalised cross-correlation of the last 20 ms.
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
        // Compares likeness² / energy without a division.
        if likeness * likeness * best_energy > best * older_energy {
            (period, best, best_energy) = (lag, likeness * likeness, older_energy);
        }
    }
    // The correlation is at least 0.7.
    if 2 * best > i128::from(energy) * best_energy { Pitch::Period(period) } else { Pitch::Unclear(period) }
}

/// Number of samples in the history: three of the longest periods and a quarter.
pub const HISTORY: usize = PERIODS_MAX * PERIOD_MAX + PERIOD_MAX / 4;
/// Minimum pitch period: 5 ms, 200 Hz. Higher voices are found at a multiple.
pub const PERIOD_MIN: usize = 40;
/// Maximum pitch period: 15 ms, 66 Hz.
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

/// Makes `out.len()` samples of `sound`, which has `period` more, by a cross-fade over one period.
pub(crate) fn shorten(sound: &[i16], period: usize, out: &mut [i16]) {
    let overlap = period.min(out.len());
    for (at, sample) in out.iter_mut().enumerate() {
        let later = sound.get(at + period).copied().unwrap_or(0);
        *sample = match sound.get(at) {
            Some(earlier) if at < overlap => cross_fade(*earlier, later, at, overlap),
            Some(_) | None => later,
        };
    }
}

/// Makes `out.len()` samples of `sound`, which has `period` less: a cross-fade into the last period of
/// `before`, and then `sound` from its beginning.
pub(crate) fn lengthen(before: &[i16], sound: &[i16], period: usize, out: &mut [i16]) {
    let overlap = period.min(sound.len());
    let repeated = before.get(before.len().saturating_sub(period)..).unwrap_or_default();
    for (at, sample) in out.iter_mut().enumerate() {
        *sample = match (repeated.get(at), sound.get(at)) {
            (Some(again), Some(first)) if at < overlap => cross_fade(*first, *again, at, overlap),
            (Some(again), _) => *again,
            (None, _) => sound.get(at - repeated.len()).copied().unwrap_or(0),
        };
    }
}

#[cfg(test)]
#[path = "concealment_tests.rs"]
mod tests;

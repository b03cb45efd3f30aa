//! Random lengths of time: ring time, talk time.

use core::time::Duration;
use ringway_sansio::Rng;

/// Distribution of a length of time.
///
/// ```
/// use core::time::Duration;
/// use ringway_load::Length;
/// use ringway_sansio::{Rng, Seed};
///
/// let mut rng = Rng::new(&Seed::from_number(1));
/// let ring = Length::Uniform(Duration::from_secs(2), Duration::from_secs(4));
/// assert!((2.0..=4.0).contains(&ring.draw(&mut rng).as_secs_f64()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Always the same.
    Fixed(Duration),
    /// Uniform between two lengths.
    Uniform(Duration, Duration),
    /// Exponential with this mean, as call holding times are modelled.
    Exponential(Duration),
}

impl Length {
    /// Longest length that [`Length::draw`] gives.
    pub fn longest(self) -> Duration {
        match self {
            Self::Fixed(length) => length,
            Self::Uniform(least, most) => least.max(most),
            Self::Exponential(mean) => mean.saturating_mul(EXPONENTIAL_MAX),
        }
    }

    /// Draws a length.
    pub fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Self::Fixed(length) => length,
            Self::Uniform(least, most) => {
                let span = most.saturating_sub(least);
                least + Duration::from_nanos(rng.below(nanos(span).saturating_add(1)))
            }
            Self::Exponential(mean) => Duration::from_nanos((nanos(mean) as f64 * exponential(rng)) as u64),
        }
    }
}

/// Multiple of the mean that [`exponential`] does not exceed.
const EXPONENTIAL_MAX: u32 = 37;

/// Exponentially distributed number with mean 1; at most [`EXPONENTIAL_MAX`].
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    // 53 random bits, from 2^-53 to 1, so that the logarithm is finite.
    let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -libm::log(uniform)
}

fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::Seed;

    #[test]
    fn the_mean_is_the_one_asked_for() {
        let mut rng = Rng::new(&Seed::from_number(3));
        let second = Duration::from_secs(1);
        for length in
            [Length::Fixed(second), Length::Uniform(Duration::ZERO, 2 * second), Length::Exponential(second)]
        {
            let total: Duration = (0..20_000).map(|_| length.draw(&mut rng)).sum();
            let mean = total.as_secs_f64() / 20_000.0;
            assert!((0.97..1.03).contains(&mean), "{length:?}: {mean}");
        }
    }

    #[test]
    fn no_length_overflows() {
        let mut rng = Rng::new(&Seed::from_number(4));
        for length in [
            Length::Uniform(Duration::MAX, Duration::ZERO),
            Length::Exponential(Duration::MAX),
            Length::Fixed(Duration::MAX),
        ] {
            let _ = length.draw(&mut rng);
        }
    }
}

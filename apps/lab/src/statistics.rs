//! Statistics over several readings, and the order in which they are taken.

use ringway_sansio::{Rng, Seed};

/// Median: for an even number of values the mean of the two in the middle, for none NaN.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, middle.checked_sub(1).and_then(|below| sorted.get(below)), sorted.get(middle)) {
        (1, _, Some(value)) => *value,
        (0, Some(below), Some(above)) => (below + above) / 2.0,
        _ => f64::NAN,
    }
}

/// Confidence interval of the median, of at least 95 %, from the order of the values alone: it assumes no distribution.
/// `None` for fewer than 6 values, which cannot give that confidence.
pub fn median_interval(values: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = i32::try_from(sorted.len()).ok().filter(|count| *count <= VALUES_MAX)?;
    // Probability that the median is below the value at `rank`, counted from 0: at most `rank` of `count` fair coins show heads.
    let mut term = 0.5_f64.powi(count);
    let mut below = term;
    let mut rank = None;
    for next in 0..count / 2 {
        if 2.0 * below > 1.0 - CONFIDENCE {
            break;
        }
        rank = usize::try_from(next).ok();
        term *= f64::from(count - next) / f64::from(next + 1);
        below += term;
    }
    let rank = rank?;
    Some([*sorted.get(rank)?, *sorted.get(sorted.len().checked_sub(rank + 1)?)?])
}

/// Mean, and half of its 95 % confidence interval by Student's t: that of the documents, which assumes a normal distribution. `None`
/// for fewer than 2 values.
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    let degrees = count.checked_sub(1).filter(|degrees| *degrees > 0)?;
    let mean = values.iter().sum::<f64>() / count as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / degrees as f64;
    let quantile = STUDENT.get(degrees - 1).copied().unwrap_or(NORMAL);
    Some((mean, quantile * (variance / count as f64).sqrt()))
}

/// Weighted coefficient of the dissertation: of the shares of latency up to 30, 60, 90, 120 and 150 ms, less the share above. 0.55 is the
/// best value.
pub fn latency_coefficient(shares: &[f64; 6]) -> f64 {
    let [.., above] = shares;
    shares.iter().zip(WEIGHTS).map(|(share, weight)| share * weight).sum::<f64>() - above
}

/// Confidence interval (95 %) of `median(a) / median(b)` by resampling. The same seed gives the same interval. `None` for fewer
/// than 5 values on a side, of which an interval of 95 % cannot be resampled,, or a median that is not positive.
pub fn ratio_interval(a: &[f64], b: &[f64], seed: &Seed) -> Option<[f64; 2]> {
    if a.len() < RESAMPLED_MIN || b.len() < RESAMPLED_MIN {
        return None;
    }
    let mut rng = Rng::new(seed);
    let mut sampled = |from: &[f64]| {
        let pick = |_| from.get(rng.below(from.len() as u64) as usize).copied().unwrap_or(f64::NAN);
        median((0..from.len()).map(pick).collect::<Vec<_>>().into_iter())
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| sampled(a) / sampled(b)).collect();
    if !ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0) {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get((share * (RESAMPLES - 1) as f64).round() as usize).copied();
    Some([at((1.0 - CONFIDENCE) / 2.0)?, at((1.0 + CONFIDENCE) / 2.0)?])
}

/// Order of `rounds` readings of each of `count` servers: forwards and backwards in turn (A B, B A, …), so that a machine
/// that slows down evenly affects all of them alike.
pub fn interleaved(count: usize, rounds: u32) -> impl Iterator<Item = usize> {
    (0..rounds).flat_map(move |round| turn(count, round))
}

/// One round of [`interleaved`].
pub fn turn(count: usize, round: u32) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| if round.is_multiple_of(2) { index } else { count - 1 - index })
}

/// The order of [`interleaved`] in letters, such as `ABBA`.
pub fn interleaving(count: usize, rounds: u32) -> String {
    interleaved(count, rounds.min(2)).map(|index| char::from(b'A' + (index % 26) as u8)).collect()
}

/// Weights of the classes of latency up to 150 ms.
const WEIGHTS: [f64; 5] = [0.55, 0.445, 0.004, 0.0007, 0.0003];
/// 97.5 % quantiles of Student's t with 1 to 29 degrees of freedom.
const STUDENT: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
];
/// The same with more degrees of freedom; a little too small for 30 to 60.
const NORMAL: f64 = 1.960;
/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Most values of [`median_interval`]; 0.5 to this power is still a number.
const VALUES_MAX: i32 = 1000;
/// Fewest values that are resampled.
const RESAMPLED_MIN: usize = 5;
/// Number of resamplings.
const RESAMPLES: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_the_sign_test() {
        let numbers = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(median_interval(&numbers(5)), None);
        // Tables of the sign test: 96.9 % for 6 values, 97.9 % for 10, 95.9 % for 20.
        assert_eq!(median_interval(&numbers(6)), Some([1.0, 6.0]));
        assert_eq!(median_interval(&numbers(10)), Some([2.0, 9.0]));
        assert_eq!(median_interval(&numbers(20)), Some([6.0, 15.0]));
        assert_eq!(median_interval(&[]), None);
    }

    #[test]
    fn the_interval_of_a_median_holds_it_in_19_of_20_samples() {
        let mut rng = Rng::new(&Seed::from_number(7));
        let mut held = 0;
        for _ in 0..1000 {
            // A skewed distribution with the median 0.25.
            let value = |_| (rng.below(1_000_000) as f64 / 1e6).powi(2);
            let sample: Vec<f64> = (0..9).map(value).collect();
            held +=
                u32::from(median_interval(&sample).is_some_and(|[low, high]| (low..=high).contains(&0.25)));
        }
        assert!((930..=985).contains(&held), "{held}");
    }

    #[test]
    fn the_interval_of_a_mean_is_that_of_student() {
        assert_eq!(mean_interval(&[3.0]), None);
        // Standard deviation 1, of 5 values: 2.776 / √5 × √2.5.
        let (mean, half) = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(mean == 3.0 && (half - 1.963).abs() < 0.001, "{mean} {half}");
        assert_eq!(mean_interval(&[7.0; 40]), Some((7.0, 0.0)));
    }

    #[test]
    fn the_coefficient_falls_with_slower_responses() {
        let of = latency_coefficient;
        assert!((of(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]) - 0.55).abs() < 1e-12);
        assert!((of(&[0.5, 0.5, 0.0, 0.0, 0.0, 0.0]) - 0.4975).abs() < 1e-12);
        assert!((of(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]) + 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_interval_of_a_ratio_is_reproducible_and_holds_it() {
        let seed = Seed::from_number(1);
        let (a, b) = ([20.0, 21.0, 19.5, 20.5, 20.2], [10.0, 10.4, 9.8, 10.1, 10.2]);
        let [low, high] = ratio_interval(&a, &b, &seed).unwrap();
        assert!(1.8 < low && low < 2.0 && 2.0 < high && high < 2.2, "{low} {high}");
        assert_eq!(ratio_interval(&a, &b, &seed), Some([low, high]));
        assert_eq!(ratio_interval(&a[..2], &b, &seed), None);
        assert_eq!(ratio_interval(&a, &[0.0; 3], &seed), None);
    }

    #[test]
    fn readings_go_forwards_and_backwards() {
        assert_eq!(interleaved(2, 3).collect::<Vec<_>>(), [0, 1, 1, 0, 0, 1]);
        assert_eq!(interleaved(0, 3).count(), 0);
        assert_eq!((interleaving(2, 5), interleaving(3, 2)), ("ABBA".into(), "ABCCBA".into()));
    }
}

//! Similarity of two sounds, independent of the delay between them.

/// The correlation of two sounds' loudness over time at the delay where it is highest: 1 for the same sound, about 0 for
/// sounds that have nothing to do with each other. Coding, a lost packet and a shift of some milliseconds change it little.
/// `received` may begin up to two seconds into `sent`, or `sent` into it.
pub(super) fn likeness(sent: &[i16], received: &[i16]) -> f64 {
    let (sent, received) = (loudness(sent), loudness(received));
    let shifts = -SHIFT_MAX..=SHIFT_MAX;
    shifts.map(|shift| correlation(&sent, &received, shift)).fold(0.0, f64::max)
}

/// The loudness of each hundredth of a second.
fn loudness(samples: &[i16]) -> Vec<f64> {
    let of = |block: &[i16]| block.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>().sqrt();
    samples.chunks_exact(BLOCK).map(of).collect()
}

fn correlation(sent: &[f64], received: &[f64], shift: isize) -> f64 {
    let at = |place: usize| place.checked_add_signed(shift).and_then(|place| sent.get(place)).copied();
    let pairs: Vec<(f64, f64)> =
        received.iter().enumerate().filter_map(|(place, &received)| Some((at(place)?, received))).collect();
    if pairs.len() < PAIRS_MIN {
        return 0.0;
    }
    let count = pairs.len() as f64;
    let (mean_sent, mean_received) =
        pairs.iter().fold((0.0, 0.0), |(a, b), (sent, received)| (a + sent / count, b + received / count));
    let (mut both, mut of_sent, mut of_received) = (0.0, 0.0, 0.0);
    for (sent, received) in pairs {
        let (sent, received) = (sent - mean_sent, received - mean_received);
        both += sent * received;
        of_sent += sent * sent;
        of_received += received * received;
    }
    if of_sent <= 0.0 || of_received <= 0.0 { 0.0 } else { both / (of_sent * of_received).sqrt() }
}

/// Samples in a hundredth of a second.
const BLOCK: usize = 80;

/// Hundredths of a second.
const SHIFT_MAX: isize = 200;

/// A second: less says nothing.
const PAIRS_MIN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_audio::Source;

    #[test]
    fn the_same_sound_is_alike_late_and_quieter_and_another_is_not() {
        let mut speech = vec![0; 40_000];
        Source::speech_like().fill(&mut speech);
        let late: Vec<i16> =
            std::iter::repeat_n(0, 3111).chain(speech.iter().map(|sample| sample / 3)).collect();
        assert!(likeness(&speech, &late) > 0.95);
        assert!(likeness(&speech, &speech[8000..]) > 0.99);
        let mut tone = vec![0; 40_000];
        Source::tone(440).unwrap().fill(&mut tone);
        assert!(likeness(&speech, &tone) < 0.4);
        assert!(likeness(&speech, &vec![0; 40_000]) < 0.01);
        assert!(likeness(&speech, &[]) < 0.01);
    }
}

//! Time scaling: sound shortened or lengthened by a pitch period, to change the delay of the jitter buffer
//! during speech.

use crate::concealment::cross_fade;

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
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn wave(period: usize, from: usize, len: usize) -> Vec<i16> {
        (from..from + len).map(|at| (((at % period) as i32 - period as i32 / 2).abs() * 300) as i16).collect()
    }

    #[test]
    fn a_periodic_sound_is_unchanged() {
        for period in [40, 63, 120] {
            let mut out = [0; 160];
            shorten(&wave(period, 7, 160 + period), period, &mut out);
            assert_eq!(out[..], wave(period, 7, 160), "shortened by {period}");
            lengthen(&wave(period, 0, 390), &wave(period, 390, 160 - period), period, &mut out);
            assert_eq!(out[..], wave(period, 390, 160), "lengthened by {period}");
        }
    }

    #[test]
    fn the_end_is_unchanged() {
        let sound: Vec<i16> = (0..240).collect();
        let mut out = [0; 160];
        shorten(&sound, 80, &mut out);
        assert_eq!(out[80..], sound[160..]);
        lengthen(&sound, &sound[..80], 80, &mut out);
        assert_eq!(out[80..], sound[..80]);
    }
}

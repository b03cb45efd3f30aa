use super::*;
use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed};

/// A voice of this period: pulses through a resonance, like vowels.
fn voice(period: usize, len: usize) -> Vec<i16> {
    let (mut one, mut two) = (0.0_f64, 0.0_f64);
    (0..len)
        .map(|at| {
            let pulse = if at % period == 0 { 6000.0 } else { 0.0 };
            let now = pulse + 1.6 * one - 0.8 * two;
            (one, two) = (now, one);
            now as i16
        })
        .collect()
}

fn largest_step(sound: &[i16]) -> i32 {
    sound.windows(2).map(|pair| (i32::from(pair[1]) - i32::from(pair[0])).abs()).max().unwrap_or(0)
}

fn energy(sound: &[i16]) -> f64 {
    sound.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / sound.len() as f64
}

#[test]
fn the_period_of_a_voice_is_found() {
    for period in PERIOD_MIN..=PERIOD_MAX {
        let mut concealer = Concealer::new();
        concealer.on_sound(&mut voice(period, 800));
        let Pitch::Period(found) = concealer.pitch() else { panic!("{period}: {:?}", concealer.pitch()) };
        assert!(found % period == 0, "{period}: {found}");
    }
    assert_eq!(Concealer::new().pitch(), Pitch::Quiet);
}

#[test]
fn noise_has_no_period() {
    let mut rng = Rng::new(&Seed::from_number(3));
    let mut noise: Vec<i16> = (0..800).map(|_| rng.below(8000) as i16 - 4000).collect();
    let mut concealer = Concealer::new();
    concealer.on_sound(&mut noise);
    assert!(matches!(concealer.pitch(), Pitch::Unclear(PERIOD_MIN..=PERIOD_MAX)));
}

#[test]
fn a_short_gap_in_a_voice_differs_little_from_the_voice() {
    for period in [41, 57, 80, 113] {
        let whole = voice(period, 1600);
        let mut concealer = Concealer::new();
        concealer.on_sound(&mut whole[..800].to_vec());
        let mut filled = [0; 80];
        concealer.fill(&mut filled);
        let error: Vec<i16> = filled.iter().zip(&whole[800..]).map(|(a, b)| a.wrapping_sub(*b)).collect();
        let ratio = energy(&error) / energy(&whole[800..880]);
        assert!(ratio < 0.01, "period {period}: error {ratio} of the voice");
    }
}

#[test]
fn a_long_gap_fades_to_silence_in_60_ms() {
    let mut concealer = Concealer::new();
    concealer.on_sound(&mut voice(64, 800));
    let mut filled = [0; 640];
    for block in filled.chunks_mut(160) {
        concealer.fill(block);
    }
    let parts: Vec<f64> = filled.chunks(160).map(energy).collect();
    assert!(parts[0] > parts[1] && parts[1] > parts[2] && parts[2] > 0.0, "{parts:?}");
    assert_eq!(parts[3], 0.0);
    assert!(filled[480..].iter().all(|sample| *sample == 0));
}

#[test]
fn a_gap_begins_grows_and_ends_without_a_click() {
    for gap in [80, 160, 320, 480, 800] {
        let whole = voice(71, 3000);
        let voice_step = largest_step(&whole);
        let mut concealer = Concealer::new();
        let mut played = whole[..800].to_vec();
        concealer.on_sound(&mut played);
        let mut filled = alloc::vec![0; gap];
        concealer.fill(&mut filled);
        played.extend(&filled);
        let mut after = whole[800 + gap..1100 + gap].to_vec();
        concealer.on_sound(&mut after);
        played.extend(&after);
        assert!(
            largest_step(&played) <= voice_step * 5 / 4,
            "gap {gap}: {} {voice_step}",
            largest_step(&played)
        );
        assert_eq!(played[played.len() - 200..], whole[900 + gap..1100 + gap]);
    }
}

#[test]
fn loud_noise_never_overflows() {
    let mut rng = Rng::new(&Seed::from_number(5));
    let mut concealer = Concealer::new();
    for _ in 0..500 {
        let mut block: Vec<i16> =
            (0..1 + rng.below(500)).map(|_| if rng.random_bool(500) { i16::MIN } else { i16::MAX }).collect();
        if rng.random_bool(500) {
            concealer.on_sound(&mut block);
        } else {
            concealer.fill(&mut block);
        }
    }
    concealer.fill(&mut []);
    concealer.on_sound(&mut []);
}

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

//! Tested: tones, speech-like sound, writing and reading files, conversion, levels, invalid files. Not tested: a slow
//! disk.

use super::*;
use ringway_media::{Level, Sound, g711};
use ringway_test_support::tone::share_at;
use std::path::Path;

fn take(source: &mut Source, samples: usize) -> Vec<i16> {
    let mut all = vec![0; samples];
    all.chunks_mut(160).for_each(|block| source.fill(block));
    all
}

fn write_wav(path: &Path, spec: hound::WavSpec, frames: usize, sample: impl Fn(usize) -> f64) {
    let mut file = hound::WavWriter::create(path, spec).unwrap();
    for at in 0..frames {
        for _ in 0..spec.channels {
            match spec.sample_format {
                hound::SampleFormat::Float => file.write_sample(sample(at) as f32).unwrap(),
                hound::SampleFormat::Int => {
                    let scale = f64::from(1_u32 << (spec.bits_per_sample - 2));
                    file.write_sample((sample(at) * scale) as i32).unwrap();
                }
            }
        }
    }
    file.finalize().unwrap();
}

#[test]
fn a_tone_is_pure_and_continuous_over_blocks() {
    let samples = take(&mut Source::tone(440).unwrap(), 8000);
    assert!(share_at(&samples, 440.0) > 0.99 && share_at(&samples, 600.0) < 0.01);
    for wrong in [0, 4000, 48_000] {
        assert!(Source::tone(wrong).unwrap_err().to_string().contains("3999"));
    }
}

#[test]
fn speech_like_sound_has_syllables_and_pauses_and_repeats() {
    let samples = take(&mut Source::speech_like(), 30 * 8000);
    let levels: Vec<u16> = samples.chunks(800).map(|block| Level::of(block).rms).collect();
    let loud = levels.iter().filter(|&&rms| rms > 1000).count();
    let silent = levels.iter().filter(|&&rms| rms == 0).count();
    assert!(loud > levels.len() / 3 && silent > 10, "{loud} loud, {silent} silent of {}", levels.len());
    assert!(samples.iter().all(|&sample| sample.unsigned_abs() < 32_000), "nothing is cut off");
}

#[test]
fn the_recording_equals_the_played_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wav");
    let sent = take(&mut Source::speech_like(), 16_000);
    let mut pair = CallSound::new(
        Input::Source(Source::samples(sent.clone())),
        Sink::Wav(WavRecorder::create(&path).unwrap()),
        None,
    );
    // Ringing is not recorded.
    pair.play(&[7; 160]);
    pair.play_ringback(&mut [7; 160]);
    pair.on_answered();
    for _ in 0..100 {
        let mut block = [0; 160];
        pair.capture(&mut block);
        pair.play(&block);
    }
    pair.into_sink().finish().unwrap();
    let spec = hound::WavReader::open(&path).unwrap().spec();
    assert_eq!((spec.channels, spec.sample_rate, spec.bits_per_sample), (1, 8000, 16));
    let mut source = Source::wav(&path).unwrap();
    assert_eq!(take(&mut source, 16_000), sent);
    assert_eq!(take(&mut source, 160), [0; 160], "after its end a file is silent");
    assert_eq!(take(&mut Source::wav(&path).unwrap().looped(), 20_000)[16_000..], sent[..4000]);
}

/// Format tag, encoder and decoder.
type G711 = (u16, fn(i16) -> u8, fn(u8) -> i16);

/// A WAV file with this format tag; `extensible`: as a sub-format.
fn g711_file(tag: u16, extensible: bool, channels: u16, coded: &[u8]) -> Vec<u8> {
    let mut format = Vec::new();
    let (outer, rate) = (if extensible { 0xfffe } else { tag }, 8000_u32);
    for field in [outer, channels] {
        format.extend(field.to_le_bytes());
    }
    format.extend(rate.to_le_bytes());
    format.extend((rate * u32::from(channels)).to_le_bytes());
    format.extend([channels.to_le_bytes(), 8_u16.to_le_bytes()].concat());
    if extensible {
        format.extend([22, 0, 8, 0, 0, 0, 0, 0]);
        format.extend(tag.to_le_bytes());
        format.extend(*b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71");
    } else {
        format.extend([0, 0]);
    }
    let mut file = b"RIFF\0\0\0\0WAVE".to_vec();
    for (name, body) in [(b"fmt ", format.as_slice()), (b"odd ", b"x"), (b"data", coded)] {
        file.extend(name);
        file.extend((body.len() as u32).to_le_bytes());
        file.extend(body);
        file.extend(vec![0; body.len() % 2]);
    }
    file
}

#[test]
fn files_of_mulaw_and_alaw_are_played() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wav");
    let sound = take(&mut Source::tone(440).unwrap(), 8000);
    let codes: [G711; 2] =
        [(7, g711::mulaw_encode, g711::mulaw_decode), (6, g711::alaw_encode, g711::alaw_decode)];
    for (tag, encode, decode) in codes {
        let coded: Vec<u8> = sound.iter().map(|sample| encode(*sample)).collect();
        let expected: Vec<i16> = coded.iter().map(|byte| decode(*byte)).collect();
        for extensible in [false, true] {
            std::fs::write(&path, g711_file(tag, extensible, 1, &coded)).unwrap();
            let played = take(&mut Source::wav(&path).unwrap(), 8000);
            let is_near = |(a, b): (&i16, &i16)| (i32::from(*a) - i32::from(*b)).abs() <= 1;
            assert!(played.iter().zip(&expected).all(is_near), "{tag}");
            let stereo: Vec<u8> = coded.iter().flat_map(|byte| [*byte; 2]).collect();
            std::fs::write(&path, g711_file(tag, extensible, 2, &stereo)).unwrap();
            assert_eq!(take(&mut Source::wav(&path).unwrap(), 8000), played);
        }
    }
    // Whatever is cut off or wrong is refused or played as far as it is there.
    let whole = g711_file(7, true, 1, &[0x55; 100]);
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let _ = Source::wav(&path);
    }
    std::fs::write(&path, g711_file(7, false, 0, &[0x55; 100])).unwrap();
    assert!(Source::wav(&path).is_err());
}

#[test]
fn memory_stores_up_to_its_capacity() {
    let mut pair = CallSound::new(Input::Microphone, Sink::memory(200), None);
    let mut block = [1; 160];
    pair.capture(&mut block);
    assert_eq!(block, [0; 160], "without a card the microphone is silent");
    pair.on_answered();
    pair.play(&[1; 160]);
    pair.play(&[2; 160]);
    let Sink::Memory(kept) = pair.into_sink() else { panic!("it is the sink it was") };
    assert_eq!((kept.len(), &kept[158..162]), (200, &[1, 1, 2, 2][..]));
}

#[test]
fn files_of_any_rate_and_format_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wav");
    for (rate, channels, bits) in
        [(48_000, 2, 16), (44_100, 1, 24), (16_000, 1, 32), (11_025, 3, 8), (8000, 2, 16), (6000, 1, 16)]
    {
        for sample_format in [hound::SampleFormat::Int, hound::SampleFormat::Float] {
            let bits_per_sample = if sample_format == hound::SampleFormat::Float { 32 } else { bits };
            let spec = hound::WavSpec { channels, sample_rate: rate, bits_per_sample, sample_format };
            let tone =
                |hz: f64, at: usize| (at as f64 * hz * 2.0 * std::f64::consts::PI / f64::from(rate)).sin();
            write_wav(&path, spec, rate as usize, |at| tone(1000.0, at) * 0.8);
            let samples = take(&mut Source::wav(&path).unwrap(), 8000);
            let share = share_at(&samples[400..7600], 1000.0);
            assert!(share > 0.97, "{spec:?}: {share}");
        }
    }
    // Frequencies above half the new rate are removed and do not alias.
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    write_wav(&path, spec, 48_000, |at| (at as f64 * 7000.0 * 2.0 * std::f64::consts::PI / 48_000.0).sin());
    assert!(Level::of(&take(&mut Source::wav(&path).unwrap(), 8000)[400..7600]).rms < 50);
}

#[test]
fn a_file_without_sound_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.wav");
    let error = Source::wav(&path).unwrap_err().to_string();
    assert!(error.contains("x.wav") && error.lines().count() == 1, "{error}");
    for bytes in [&b""[..], b"RIFF", b"not a wav at all, but long enough to be read as a header of one"] {
        std::fs::write(&path, bytes).unwrap();
        assert!(Source::wav(&path).is_err());
    }
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 1,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    write_wav(&path, spec, 100, |_| 0.0);
    assert!(Source::wav(&path).unwrap_err().to_string().contains("4,000"));
    assert!(WavRecorder::create(&folder.path().join("no/such.wav")).is_err());
}

#[test]
fn a_truncated_file_is_played_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole.wav"), folder.path().join("cut.wav"));
    let mut recorder = WavRecorder::create(&whole).unwrap();
    recorder.take(&[100; 400]);
    recorder.finish().unwrap();
    let bytes = std::fs::read(&whole).unwrap();
    for length in 0..bytes.len() {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let _ = Source::wav(&cut);
    }
}

//! Sound in files: a tone to send, and detection of a tone in a recording. A sound card of two named pipes, for
//! programs that support only ALSA: their output is recorded, and their input is a tone, both in real time.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ringway_test_support::tone::{energy, energy_at};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Sample rate, that of G.711.
const RATE: u32 = 8000;

/// Minimum RMS of a window with a tone: 20 dB below a test tone.
const LOUD: f64 = 0.05;

/// Length of the window in which a tone is searched.
const WINDOW_S: f64 = 0.05;

/// A recording: mono samples between -1 and 1, and their rate in Hz.
pub(crate) struct Recording {
    samples: Vec<f64>,
    rate: f64,
}

/// A sine at half of full scale.
struct Tone {
    hz: f64,
    samples: u32,
}

/// A 16-bit mono WAV file that is being written.
struct Recorder {
    file: BufWriter<File>,
    bytes: u32,
}

/// Writes a sine of `hz` that lasts `seconds`: 16-bit mono WAV, at half of full scale.
pub(crate) fn write_tone(path: &Path, hz: f64, seconds: u32) -> Result<()> {
    const SECOND: usize = RATE as usize * 2;
    let mut tone = Tone::new(hz);
    let mut recorder = Recorder::create(path)?;
    for _ in 0..seconds {
        recorder.write(&tone.next_bytes::<SECOND>())?;
    }
    recorder.finish()
}

/// Writes the same tone in two channels without a header, as [`Recording::read_stereo`] reads it.
pub(crate) fn write_stereo_tone(path: &Path, hz: f64, seconds: u32) -> Result<()> {
    const SECOND: usize = RATE as usize * 2;
    let mut tone = Tone::new(hz);
    let mut file =
        BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?);
    for _ in 0..seconds {
        for sample in tone.next_bytes::<SECOND>().chunks_exact(2) {
            file.write_all(sample)?;
            file.write_all(sample)?;
        }
    }
    Ok(file.flush()?)
}

impl Tone {
    pub(crate) const fn new(hz: f64) -> Self {
        Self { hz, samples: 0 }
    }

    /// The next `BYTES` bytes: half as many samples.
    fn next_bytes<const BYTES: usize>(&mut self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for pair in bytes.chunks_exact_mut(2) {
            let phase = std::f64::consts::TAU * self.hz * f64::from(self.samples) / f64::from(RATE);
            let sample = (phase.sin() * 0.5 * f64::from(i16::MAX)) as i16;
            pair.copy_from_slice(&sample.to_le_bytes());
            self.samples = self.samples.wrapping_add(1);
        }
        bytes
    }
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut recorder = Self { file: BufWriter::new(file), bytes: 0 };
        recorder.write_header()?;
        Ok(recorder)
    }

    /// Appends 16-bit little-endian samples.
    pub(crate) fn write(&mut self, samples: &[u8]) -> Result<()> {
        self.file.write_all(samples)?;
        self.bytes += u32::try_from(samples.len())?;
        Ok(())
    }

    /// Writes the lengths into the header.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.file.rewind()?;
        self.write_header()?;
        Ok(self.file.flush()?)
    }

    fn write_header(&mut self) -> Result<()> {
        self.file.write_all(b"RIFF")?;
        self.file.write_all(&(36 + self.bytes).to_le_bytes())?;
        self.file.write_all(b"WAVEfmt ")?;
        self.file.write_all(&16_u32.to_le_bytes())?;
        self.file.write_all(&1_u16.to_le_bytes())?; // PCM
        self.file.write_all(&1_u16.to_le_bytes())?; // one channel
        self.file.write_all(&RATE.to_le_bytes())?;
        self.file.write_all(&(RATE * 2).to_le_bytes())?;
        self.file.write_all(&2_u16.to_le_bytes())?;
        self.file.write_all(&16_u16.to_le_bytes())?;
        self.file.write_all(b"data")?;
        self.file.write_all(&self.bytes.to_le_bytes())?;
        Ok(())
    }
}

impl Recording {
    /// Reads a 16-bit mono WAV file, also one whose lengths are missing because its writer was killed.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::decode(&bytes).with_context(|| format!("{} is not 16-bit mono WAV", path.display()))
    }

    /// Reads two channels of 16 bits without a header at 8,000 Hz; the left one is used.
    pub(crate) fn read_stereo(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let samples = bytes.chunks_exact(4).map(|frame| sample(&frame[..2])).collect();
        Ok(Self { samples, rate: f64::from(RATE) })
    }

    /// Length in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.samples.len() as f64 / self.rate
    }

    /// Root mean square: 0.354 for a tone at half of full scale.
    pub(crate) fn rms(&self) -> f64 {
        (energy(&self.samples) / (self.samples.len().max(1)) as f64).sqrt()
    }

    /// Share of the energy at `hz`: 1 for that tone alone, 0 for silence. By Goertzel's algorithm in windows
    /// of 50 ms, so that a lost packet changes the phase in one window only.
    fn share_at(&self, hz: f64) -> f64 {
        let total = energy(&self.samples);
        if total == 0.0 {
            return 0.0;
        }
        self.windows(WINDOW_S).map(|window| energy_at(window, hz / self.rate)).sum::<f64>() / total
    }

    /// Time in seconds during which `hz` dominated.
    fn seconds_of(&self, hz: f64) -> f64 {
        self.moments_of(hz, WINDOW_S, LOUD).len() as f64 * WINDOW_S
    }

    /// Start times, in seconds, of the windows of `window_s` in which `hz` dominated: an RMS above `least`,
    /// of which at least two thirds of the energy are at `hz`.
    pub(crate) fn moments_of(&self, hz: f64, window_s: f64, least: f64) -> Vec<f64> {
        let is_it = |window: &[f64]| {
            let total = energy(window);
            (total / window.len() as f64).sqrt() > least
                && energy_at(window, hz / self.rate) > total * 2.0 / 3.0
        };
        let windows = self.windows(window_s).enumerate().filter(|(_, window)| is_it(window));
        windows.map(|(index, _)| index as f64 * window_s).collect()
    }

    /// Fails unless the recording is at least `seconds` of mostly the tone `hz`.
    pub(crate) fn expect_tone(&self, hz: f64, seconds: f64) -> Result<()> {
        let (length, rms, received) = (self.seconds(), self.rms(), self.seconds_of(hz));
        if received < seconds {
            bail!(
                "{hz} Hz was heard for {received:.1} s, expected {seconds:.1} s; {length:.1} s recorded, RMS {rms:.3}, \
                 {:.0} % of all energy at {hz} Hz",
                self.share_at(hz) * 100.0
            );
        }
        Ok(())
    }

    fn windows(&self, window_s: f64) -> impl Iterator<Item = &[f64]> {
        self.samples.chunks_exact(((self.rate * window_s) as usize).max(1))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4)? != b"RIFF" || bytes.get(8..12)? != b"WAVE" {
            return None;
        }
        let mut rest = bytes.get(12..)?;
        let mut rate = None;
        loop {
            let (kind, body) = (rest.get(..4)?, rest.get(8..)?);
            let declared = usize::try_from(u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?)).ok()?;
            let chunk = body.get(..declared).unwrap_or(body);
            match kind {
                b"fmt " => {
                    let (channels, bits) = (chunk.get(2..4)?, chunk.get(14..16)?);
                    if channels != 1_u16.to_le_bytes() || bits != 16_u16.to_le_bytes() {
                        return None;
                    }
                    rate = Some(u32::from_le_bytes(chunk.get(4..8)?.try_into().ok()?));
                }
                b"data" => {
                    let chunk = if declared == 0 { body } else { chunk };
                    let samples = chunk.chunks_exact(2).map(sample).collect();
                    return Some(Self { samples, rate: f64::from(rate?) });
                }
                _ => {}
            }
            rest = body.get(declared + declared % 2..)?;
        }
    }
}

/// Sample of two bytes, -1 to 1.
fn sample(pair: &[u8]) -> f64 {
    match *pair {
        [low, high] => f64::from(i16::from_le_bytes([low, high])) / f64::from(i16::MAX),
        _ => 0.0,
    }
}

/// A sound card in a program's home folder, with the ALSA devices `speaker` and `microphone`: 16-bit mono.
pub(crate) struct SoundCard {
    recording: PathBuf,
    is_out: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl SoundCard {
    /// Adds a card to `home`, the program's `HOME`: the microphone has `tone_hz` at 8,000 Hz, and the
    /// speaker's output, at `oversampling` times 8,000 Hz, is written to `heard.wav` there.
    ///
    /// A full pipe has space again after a whole page was read. So a program that plays at 8,000 Hz is
    /// blocked for a quarter of a second at a time; one that plays faster, for less.
    pub(crate) fn insert(home: &Path, tone_hz: f64, oversampling: usize) -> Result<Self> {
        let (speaker, microphone) = (home.join("speaker"), home.join("microphone"));
        for pipe in [&speaker, &microphone] {
            mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .with_context(|| format!("cannot make the pipe {}", pipe.display()))?;
        }
        let devices = format!(
            "pcm.speaker {{ type file; slave.pcm null; file \"{}\"; format raw }}\n\
             pcm.microphone {{ type file; slave.pcm null; file \"/dev/null\"; infile \"{}\"; format raw }}\n",
            speaker.display(),
            microphone.display()
        );
        std::fs::write(home.join(".asoundrc"), devices)?;
        let (from, to) = (opened(&speaker)?, opened(&microphone)?);
        let recording = home.join("heard.wav");
        let speaker =
            Speaker { pipe: from, waiting: Vec::new(), oversampling, to: Recorder::create(&recording)? };
        let is_out = Arc::new(AtomicBool::new(false));
        let flag = is_out.clone();
        let thread = std::thread::spawn(move || run(speaker, to, Tone::new(tone_hz), &flag));
        Ok(Self { recording, is_out, thread: Some(thread) })
    }

    /// Ends the recording; returns its file.
    pub(crate) fn take_out(&mut self) -> Result<PathBuf> {
        self.is_out.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| anyhow::anyhow!("the sound card broke"))??;
        }
        Ok(self.recording.clone())
    }
}

impl Drop for SoundCard {
    fn drop(&mut self) {
        // A caller that needs the result of the recording has called this before.
        let _ = self.take_out();
    }
}

/// The end of the pipe that a program plays into.
struct Speaker {
    pipe: File,
    /// Bytes of an incomplete sample at 8,000 Hz.
    waiting: Vec<u8>,
    oversampling: usize,
    to: Recorder,
}

impl Speaker {
    /// Records up to twenty milliseconds; returns the number of bytes.
    fn play(&mut self) -> Result<usize> {
        let mut block = vec![0; BLOCK_BYTES * self.oversampling];
        let length = match self.pipe.read(&mut block) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error).context("speaker"),
        };
        self.waiting.extend_from_slice(block.get(..length).unwrap_or_default());
        // The sound comes from a telephone call and has nothing above 4,000 Hz, so dropping samples does not
        // distort it.
        let samples = self.waiting.chunks_exact(2 * self.oversampling);
        let rest = samples.remainder().to_vec();
        for sample in samples {
            self.to.write(sample.get(..2).unwrap_or_default())?;
        }
        self.waiting = rest;
        Ok(length)
    }
}

/// Transfers twenty milliseconds in each direction every twenty milliseconds. A program that is slower loses
/// input; one that is faster is blocked by the full pipe.
fn run(mut speaker: Speaker, mut microphone: File, mut tone: Tone, is_out: &AtomicBool) -> Result<()> {
    let begun = Instant::now();
    for tick in 1_u32.. {
        speaker.play()?;
        match microphone.write(&tone.next_bytes::<BLOCK_BYTES>()) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("microphone"),
        }
        if is_out.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep((begun + TICK * tick).saturating_duration_since(Instant::now()));
    }
    while speaker.play()? > 0 {}
    speaker.to.finish()
}

/// Opens a pipe for reading and writing, so that it never ends and opening does not block. Its size is the
/// minimum, one page.
fn opened(pipe: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(pipe)?;
    rustix::pipe::fcntl_setpipe_size(&file, 4096)?;
    Ok(file)
}

const TICK: Duration = Duration::from_millis(20);

/// Twenty milliseconds of 16-bit samples at 8,000 Hz.
const BLOCK_BYTES: usize = 320;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_distinguished_from_another_and_from_silence() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tone.wav");
        write_tone(&file, 440.0, 2).unwrap();
        let tone = Recording::read(&file).unwrap();
        assert!((tone.seconds() - 2.0).abs() < 1e-9);
        assert!((tone.rms() - 0.354).abs() < 0.01, "{}", tone.rms());
        assert!(tone.share_at(440.0) > 0.95, "{}", tone.share_at(440.0));
        assert!(tone.share_at(1000.0) < 0.05, "{}", tone.share_at(1000.0));
        tone.expect_tone(440.0, 1.5).unwrap();
        assert!(tone.expect_tone(1000.0, 1.5).is_err());
        assert!(tone.expect_tone(440.0, 3.0).is_err());
        assert!((tone.seconds_of(440.0) - 2.0).abs() < 0.06 && tone.seconds_of(1000.0) == 0.0);
        let silence = Recording { samples: vec![0.0; 16_000], rate: 8000.0 };
        assert!(silence.expect_tone(440.0, 1.0).is_err());
    }

    #[test]
    fn a_file_that_is_not_wav_is_rejected() {
        assert!(Recording::decode(b"RIFF").is_none());
        assert!(Recording::decode(b"RIFF\0\0\0\0WAVEfmt \xff\xff\xff\xff").is_none());
    }
}

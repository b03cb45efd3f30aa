//! A sound card of two named pipes, for programs that support only ALSA: their output is recorded, and their
//! input is a tone, both in real time.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::audio::{Recorder, Tone};

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

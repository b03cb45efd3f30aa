//! Where received sound goes: a file, memory, or nowhere.

use super::SAMPLE_RATE_HZ;
use rtrb::{Consumer, Producer, RingBuffer};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// Where sound that was received goes to.
#[derive(Debug)]
pub enum Sink {
    /// Nowhere.
    Null,
    /// Into a file.
    Wav(WavRecorder),
    /// Into memory, as far as there is room.
    Memory(Vec<i16>),
}

impl Sink {
    /// Keeps the first `samples` that come.
    pub fn memory(samples: usize) -> Self {
        Self::Memory(Vec::with_capacity(samples))
    }

    /// Takes what comes next.
    pub fn take(&mut self, block: &[i16]) {
        match self {
            Self::Null => {}
            Self::Wav(recorder) => recorder.take(block),
            Self::Memory(kept) => {
                let room = kept.capacity() - kept.len();
                kept.extend_from_slice(block.get(..room.min(block.len())).unwrap_or_default());
            }
        }
    }

    /// Waits until all is written. An error is the file's.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Null | Self::Memory(_) => Ok(()),
            Self::Wav(recorder) => recorder.finish(),
        }
    }
}

/// Records into a 16-bit WAV file. The media thread hands samples over; a thread of its own writes them.
///
/// The file is whole every second, also when the program is killed. What the disk does not take in time is left out and
/// told at the end.
#[derive(Debug)]
pub struct WavRecorder {
    samples: Producer<i16>,
    dropped: u64,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl WavRecorder {
    /// Begins a file, over one that is there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: SAMPLE_RATE_HZ,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let file = hound::WavWriter::create(path, spec).map_err(io_error)?;
        let (samples, from_thread) = RingBuffer::new(RING_SAMPLES);
        let body = move || write(file, from_thread);
        let writer = std::thread::Builder::new().name("recorder".to_owned()).spawn(body)?;
        Ok(Self { samples, dropped: 0, writer: Some(writer) })
    }

    /// Takes what comes next, without waiting.
    pub fn take(&mut self, block: &[i16]) {
        match self.samples.push_entire_slice(block) {
            Ok(()) => {}
            Err(_) => self.dropped += block.len() as u64,
        }
    }

    /// Writes what is left and closes the file. Sound that the disk did not take in time is an error too.
    pub fn finish(mut self) -> io::Result<()> {
        let dropped = self.dropped;
        let writer = self.writer.take();
        // The writer ends when nothing can come any more.
        drop(self);
        match writer.map(JoinHandle::join) {
            Some(Ok(written)) => written?,
            Some(Err(_)) | None => return Err(io::Error::other("the recorder's thread has panicked")),
        }
        if dropped > 0 {
            return Err(io::Error::other(format!("the disk was too slow: {dropped} samples are missing")));
        }
        Ok(())
    }
}

fn write(mut file: hound::WavWriter<BufWriter<File>>, mut samples: Consumer<i16>) -> io::Result<()> {
    let mut since_flush = 0;
    loop {
        // Asked first: what was pushed before the end is then seen below.
        let is_last = samples.is_abandoned();
        let count = samples.slots();
        if let Ok(chunk) = samples.read_chunk(count) {
            for sample in chunk {
                file.write_sample(sample).map_err(io_error)?;
            }
        }
        since_flush += count;
        if since_flush >= SAMPLE_RATE_HZ as usize {
            file.flush().map_err(io_error)?;
            since_flush = 0;
        }
        if is_last {
            return file.finalize().map_err(io_error);
        }
        std::thread::sleep(WRITE_EVERY);
    }
}

fn io_error(error: hound::Error) -> io::Error {
    match error {
        hound::Error::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// Four seconds of sound: how long the disk may be busy.
const RING_SAMPLES: usize = 4 * SAMPLE_RATE_HZ as usize;

const WRITE_EVERY: Duration = Duration::from_millis(50);

//! Sinks of received sound: a file, memory, or none.

use super::SAMPLE_RATE_HZ;
use rtrb::{Consumer, Producer, RingBuffer};
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// Sink of received sound.
#[derive(Debug)]
pub enum Sink {
    /// Discards samples.
    Null,
    /// Records into a file.
    Wav(WavRecorder),
    /// Stores samples in memory up to the capacity.
    Memory(Vec<i16>),
}

impl Sink {
    /// Creates a sink that stores the first `samples` samples.
    pub fn memory(samples: usize) -> Self {
        Self::Memory(Vec::with_capacity(samples))
    }

    /// Processes the next block.
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

    /// Waits until everything is written. The error is that of the file.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Null | Self::Memory(_) => Ok(()),
            Self::Wav(recorder) => recorder.finish(),
        }
    }
}

/// Records into a 16-bit WAV file. The media thread queues samples; another thread writes them.
///
/// The file is valid after every second, even if the program is killed. Samples that the disk does not accept in time
/// are dropped, and reported at the end.
#[derive(Debug)]
pub struct WavRecorder {
    samples: Producer<i16>,
    dropped: u64,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl WavRecorder {
    /// Creates a file that only its owner may read; an existing one is replaced, and keeps its mode.
    pub fn create(path: &Path) -> io::Result<Self> {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: SAMPLE_RATE_HZ,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let file = File::options().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
        let file = hound::WavWriter::new(BufWriter::new(file), spec).map_err(io_error)?;
        let (samples, from_thread) = RingBuffer::new(RING_SAMPLES);
        let body = move || write(file, from_thread);
        let writer = std::thread::Builder::new().name("recorder".to_owned()).spawn(body)?;
        Ok(Self { samples, dropped: 0, writer: Some(writer) })
    }

    /// Queues the next block without blocking.
    pub fn take(&mut self, block: &[i16]) {
        match self.samples.push_entire_slice(block) {
            Ok(()) => {}
            Err(_) => self.dropped += block.len() as u64,
        }
    }

    /// Writes the queued samples and closes the file. Dropped samples are an error.
    pub fn finish(mut self) -> io::Result<()> {
        let dropped = self.dropped;
        let writer = self.writer.take();
        // The writer ends when the queue is abandoned.
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
        // Checked first, so that the samples pushed before the end are read below.
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
        std::thread::sleep(WRITE_INTERVAL);
    }
}

fn io_error(error: hound::Error) -> io::Error {
    match error {
        hound::Error::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// Mode of a new recording.
const FILE_MODE: u32 = 0o600;

/// Capacity of the queue: four seconds during which the disk may be busy.
const RING_SAMPLES: usize = 4 * SAMPLE_RATE_HZ as usize;

const WRITE_INTERVAL: Duration = Duration::from_millis(50);

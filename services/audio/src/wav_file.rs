//! Reader of WAV files: RIFF chunks, their format, and their samples mixed into one channel.
//!
//! Lengths in the file are hints, because a program that writes into a pipe does not have them: 0, `0xffffffff`, and lengths
//! beyond the end of the file stand for all that follows. Reading is sequential, so the file may be a pipe too.

use ringway_media::g711;
use std::io::{self, Read};
use std::ops::RangeInclusive;

/// Sound of a WAV file.
#[derive(Debug)]
pub(crate) struct WavFile {
    /// Samples per second.
    pub(crate) rate_hz: u32,
    /// Samples, -1 to 1, all channels mixed.
    pub(crate) samples: Vec<f32>,
}

/// Error of reading a WAV file.
#[derive(Debug)]
pub(crate) enum WavError {
    /// It cannot be read.
    Io(io::Error),
    /// It is not a WAV file, or one of an unsupported kind: the reason.
    Unusable(String),
}

impl WavFile {
    /// Reads a file; an incomplete last frame is left out.
    pub(crate) fn read(mut file: impl Read) -> Result<Self, WavError> {
        let head: [u8; 12] = exact(&mut file)?.ok_or_else(|| unusable(NOT_WAV))?;
        if !(head.starts_with(b"RIFF") || head.starts_with(b"RF64")) || !head.ends_with(b"WAVE") {
            return Err(unusable(NOT_WAV));
        }
        let mut format = None;
        let mut is_after_odd = false;
        for _ in 0..CHUNKS_MAX {
            let Some(chunk) = Chunk::read(&mut file, is_after_odd)? else { return Err(unusable(NO_SOUND)) };
            is_after_odd = chunk.length % 2 == 1;
            match &chunk.name {
                b"fmt " => format = Some(read_format(&mut file, chunk.length)?),
                b"data" => {
                    let format = format.ok_or_else(|| unusable("its sound comes before its format"))?;
                    return read_samples(file, chunk.length, &format);
                }
                _ => skip(&mut file, chunk.length.into())?,
            }
        }
        Err(unusable(NO_SOUND))
    }
}

impl From<io::Error> for WavError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Header of a chunk.
struct Chunk {
    name: [u8; 4],
    length: u32,
}

impl Chunk {
    /// Reads the next header; `None` at the end. After a chunk of odd length comes a pad byte, which some programs omit.
    fn read(file: &mut impl Read, is_after_odd: bool) -> io::Result<Option<Self>> {
        let Some(mut head) = exact::<8>(file)? else { return Ok(None) };
        if is_after_odd && !is_unpadded(&head) {
            let Some([last]) = exact(file)? else { return Ok(None) };
            head.rotate_left(1);
            head[7] = last;
        }
        let [a, b, c, d, length @ ..] = head;
        Ok(Some(Self { name: [a, b, c, d], length: u32::from_le_bytes(length) }))
    }
}

/// True if a header follows a chunk of odd length without a pad byte, which is 0 as a rule.
fn is_unpadded(head: &[u8; 8]) -> bool {
    let is_needed = |name: Option<&[u8]>| name == Some(b"fmt ") || name == Some(b"data");
    let is_name = head.iter().take(4).all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    is_needed(head.get(..4)) || is_name && !is_needed(head.get(1..5))
}

/// Format of the samples.
struct Format {
    coding: Coding,
    channels: u16,
    rate_hz: u32,
    /// Bytes of one sample of one channel.
    sample_bytes: usize,
}

/// Coding of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Integers of any length; those of 8 bits are unsigned.
    Integer,
    Float,
    ALaw,
    MuLaw,
}

fn read_format(file: &mut impl Read, length: u32) -> Result<Format, WavError> {
    let mut body = Vec::new();
    file.take(length.min(FORMAT_BYTES_MAX).into()).read_to_end(&mut body)?;
    skip(file, u64::from(length).saturating_sub(body.len() as u64))?;
    let too_short = || unusable("its format is cut off");
    let short = |at: usize| -> Result<u16, WavError> {
        let bytes = body.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u16::from_le_bytes).ok_or_else(too_short)
    };
    let (channels, block_bytes, bits) = (short(2)?, short(12)?, short(14)?);
    let rate_hz = u32::from(short(4)?) | u32::from(short(6)?) << 16;
    let tag = match short(0)? {
        EXTENSIBLE => {
            let id = body.get(SUB_FORMAT..SUB_FORMAT + 16).ok_or_else(too_short)?;
            if !id.ends_with(&SUB_FORMAT_END) {
                return Err(unusable("its coding is not supported: an unknown sub-format"));
            }
            short(SUB_FORMAT)?
        }
        tag => tag,
    };
    if channels == 0 || !RATES_HZ.contains(&rate_hz) {
        return Err(unusable("its rate is not between 4,000 and 384,000 Hz, or it has no channels"));
    }
    // Bits that do not fill their bytes are the upper ones.
    let sample_bytes = match usize::from(block_bytes).checked_div(channels.into()) {
        Some(bytes)
            if bytes * 8 >= bits.into() && bytes * usize::from(channels) == usize::from(block_bytes) =>
        {
            bytes
        }
        _ => usize::from(bits).div_ceil(8),
    };
    let coding = match (tag, sample_bytes) {
        (PCM, 1..=4) => Coding::Integer,
        (FLOAT, 4 | 8) => Coding::Float,
        (ALAW, 1) => Coding::ALaw,
        (MULAW, 1) => Coding::MuLaw,
        (PCM | FLOAT | ALAW | MULAW, _) => {
            return Err(unusable(&format!(
                "{bits} bits in {sample_bytes} bytes are not supported for its coding"
            )));
        }
        (tag, _) => {
            let name = CODINGS.iter().find(|(known, _)| *known == tag).map_or("unknown", |(_, name)| name);
            return Err(unusable(&format!("its coding is not supported: {name} (format {tag:#06x})")));
        }
    };
    Ok(Format { coding, channels, rate_hz, sample_bytes })
}

fn read_samples(mut file: impl Read, length: u32, format: &Format) -> Result<WavFile, WavError> {
    let mut first = Vec::new();
    let mut left = u64::from(length);
    if length == 0 {
        (&mut file).take(4).read_to_end(&mut first)?;
        if TRAILING.iter().any(|name| first == *name) {
            return Err(unusable(NO_SOUND));
        }
    }
    if matches!(length, 0 | u32::MAX) {
        left = u64::MAX;
    }
    let frame_bytes = format.sample_bytes * usize::from(format.channels);
    let mut sound = first.as_slice().chain(file.take(left));
    let mut samples = Vec::new();
    let mut block = vec![0; frame_bytes * (BLOCK_BYTES / frame_bytes).max(1)];
    loop {
        let filled = fill(&mut sound, &mut block)?;
        let frames = block.get(..filled).unwrap_or_default().chunks_exact(frame_bytes);
        if samples.len() + frames.len() > FRAMES_MAX {
            return Err(unusable(
                "it is longer than 20 minutes at 48,000 Hz, or as many samples at another rate",
            ));
        }
        samples.extend(frames.map(|frame| format.mix(frame)));
        if filled < block.len() {
            break;
        }
    }
    if samples.is_empty() {
        return Err(unusable(NO_SOUND));
    }
    Ok(WavFile { rate_hz: format.rate_hz, samples })
}

impl Format {
    /// Mean of the channels of a frame, -1 to 1.
    fn mix(&self, frame: &[u8]) -> f32 {
        let sum: f32 = frame.chunks_exact(self.sample_bytes).map(|sample| self.coding.decode(sample)).sum();
        sum / f32::from(self.channels)
    }
}

impl Coding {
    /// Value of a sample, -1 to 1.
    fn decode(self, sample: &[u8]) -> f32 {
        match (self, sample) {
            (Self::Integer, [byte]) => (f32::from(*byte) - 128.0) / 128.0,
            (Self::Integer, bytes) => {
                // The upper bytes of 32 bits.
                let mut wide = [0; 4];
                let at = wide.len() - bytes.len().min(wide.len());
                wide.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
                i32::from_le_bytes(wide) as f32 / 2_147_483_648.0
            }
            (Self::Float, bytes) => match (bytes.try_into(), bytes.try_into()) {
                (Ok(four), _) => f32::from_le_bytes(four),
                (_, Ok(eight)) => f64::from_le_bytes(eight) as f32,
                (Err(_), Err(_)) => 0.0,
            },
            (Self::ALaw, bytes) => companded(bytes, g711::alaw_decode),
            (Self::MuLaw, bytes) => companded(bytes, g711::mulaw_decode),
        }
    }
}

fn companded(bytes: &[u8], decode: fn(u8) -> i16) -> f32 {
    f32::from(decode(bytes.first().copied().unwrap_or_default())) / 32_768.0
}

/// Reads exactly so many bytes; `None` where the file ends before.
fn exact<const N: usize>(file: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    Ok((fill(file, &mut bytes)? == N).then_some(bytes))
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn skip(file: &mut impl Read, bytes: u64) -> io::Result<()> {
    io::copy(&mut file.take(bytes), &mut io::sink()).map(|_| ())
}

fn unusable(reason: &str) -> WavError {
    WavError::Unusable(reason.into())
}

const NOT_WAV: &str = "it is not a WAV file";
const NO_SOUND: &str = "it has no sound";

/// Supported rates in Hz.
const RATES_HZ: RangeInclusive<u32> = 4_000..=384_000;

/// Maximum length of a file in samples per channel: 240 MB during the conversion.
const FRAMES_MAX: usize = 60_000_000;

/// Format tags (RFC 2361).
const PCM: u16 = 1;
const FLOAT: u16 = 3;
const ALAW: u16 = 6;
const MULAW: u16 = 7;
const EXTENSIBLE: u16 = 0xfffe;
/// Names of codings that are not supported.
const CODINGS: [(u16, &str); 5] =
    [(2, "Microsoft ADPCM"), (0x11, "IMA ADPCM"), (0x31, "GSM 6.10"), (0x40, "G.721 ADPCM"), (0x55, "MP3")];

/// Offset of the sub-format in an extensible format: its tag, and an end that all have (RFC 2361 §4).
const SUB_FORMAT: usize = 24;
const SUB_FORMAT_END: [u8; 14] = *b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71";

/// Chunks that follow the sound; before one of these a length of 0 is meant.
const TRAILING: [&[u8]; 8] = [b"LIST", b"id3 ", b"ID3 ", b"bext", b"cue ", b"fact", b"iXML", b"JUNK"];

/// More are not searched for the sound.
const CHUNKS_MAX: usize = 100;
const FORMAT_BYTES_MAX: u32 = 64;
/// Bytes that are read at once, and at least one frame.
const BLOCK_BYTES: usize = 64 * 1024;

#[cfg(test)]
#[path = "wav_file_tests.rs"]
mod tests;

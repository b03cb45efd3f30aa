//! WAV files with µ-law or A-law, which hound does not read.

use ringway_media::g711;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// A WAV file with one byte a sample.
pub(crate) struct G711File {
    decode: Decoder,
    pub(crate) channels: u16,
    pub(crate) rate_hz: u32,
    coded: Vec<u8>,
}

type Decoder = fn(u8) -> i16;

impl G711File {
    /// Reads a file, at most `frames_max` frames of it. `None`: it is another kind of file, or cannot be read.
    pub(crate) fn read(path: &Path, frames_max: u32) -> Option<Self> {
        let mut file = BufReader::new(File::open(path).ok()?);
        let mut head = [0; 12];
        file.read_exact(&mut head).ok()?;
        if !head.starts_with(b"RIFF") || !head.ends_with(b"WAVE") {
            return None;
        }
        let mut format = None;
        for _ in 0..CHUNKS_MAX {
            let mut head = [0; 8];
            file.read_exact(&mut head).ok()?;
            let [a, b, c, d, length @ ..] = head;
            let length = u32::from_le_bytes(length);
            match (&[a, b, c, d], format) {
                (b"fmt ", _) => {
                    let mut body = vec![0; length.min(FORMAT_BYTES_MAX) as usize];
                    file.read_exact(&mut body).ok()?;
                    format = Some(format_of(&body)?);
                    file.seek_relative(i64::from(length) - body.len() as i64 + i64::from(length % 2)).ok()?;
                }
                (b"data", Some((decode, channels, rate_hz))) => {
                    let bytes_max = u64::from(frames_max) * u64::from(channels);
                    let mut coded = Vec::new();
                    file.take(bytes_max.min(length.into())).read_to_end(&mut coded).ok()?;
                    return Some(Self { decode, channels, rate_hz, coded });
                }
                _ => file.seek_relative(i64::from(length) + i64::from(length % 2)).ok()?,
            }
        }
        None
    }

    /// Its samples, -1 to 1, the channels of a frame one after the other.
    pub(crate) fn samples(&self) -> impl Iterator<Item = f32> {
        self.coded.iter().map(|byte| f32::from((self.decode)(*byte)) / 32_768.0)
    }
}

/// Decoder, channels and rate of a format chunk; `None`: it is not G.711.
fn format_of(body: &[u8]) -> Option<(Decoder, u16, u32)> {
    let short = |at: usize| Some(u16::from_le_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let tag = match short(0)? {
        EXTENSIBLE => short(SUB_FORMAT)?,
        tag => tag,
    };
    let decode: Decoder = match tag {
        ALAW => g711::alaw_decode,
        MULAW => g711::mulaw_decode,
        _ => return None,
    };
    let (channels, bits) = (short(2)?, short(14)?);
    let rate_hz = u32::from_le_bytes(body.get(4..8)?.try_into().ok()?);
    (channels > 0 && bits == 8).then_some((decode, channels, rate_hz))
}

/// Format tags (RFC 2361).
const ALAW: u16 = 6;
const MULAW: u16 = 7;
const EXTENSIBLE: u16 = 0xfffe;
/// Offset of the sub-format's tag in an extensible format.
const SUB_FORMAT: usize = 24;

/// More are not looked through for the sound.
const CHUNKS_MAX: usize = 100;
const FORMAT_BYTES_MAX: u32 = 64;

//! G.711 encoder and decoder (ITU-T G.711, bit-exact with the reference of G.191): 16-bit samples to 8 bits
//! and back.
//!
//! G.711 uses 13 bits (A-law) and 14 bits (µ-law); 16-bit samples contain them left-justified. Negative
//! samples are mapped by their one's complement, so that the two halves of a code are symmetric.

use ringway_sdp::Codec;

/// Encodes each sample of `sound` into the byte of `coded` at the same index. The excess of the longer slice
/// is ignored.
pub fn encode(codec: Codec, sound: &[i16], coded: &mut [u8]) {
    let law = match codec {
        Codec::Pcmu => mulaw_encode,
        Codec::Pcma => alaw_encode,
    };
    for (byte, sample) in coded.iter_mut().zip(sound) {
        *byte = law(*sample);
    }
}

/// Decodes each byte of `coded` into the sample of `sound` at the same index. The excess of the longer slice
/// is ignored.
pub fn decode(codec: Codec, coded: &[u8], sound: &mut [i16]) {
    let table = match codec {
        Codec::Pcmu => &MULAW,
        Codec::Pcma => &ALAW,
    };
    for (sample, byte) in sound.iter_mut().zip(coded) {
        *sample = table[usize::from(*byte)];
    }
}

/// Encodes a sample in µ-law (G.711 table 2).
pub const fn mulaw_encode(sample: i16) -> u8 {
    let folded = ((if sample < 0 { !sample } else { sample }) >> 2) as u16;
    // With 33 added, the chords start at powers of two; 13 bits are left.
    let magnitude = if folded + MULAW_BIAS > 0x1fff { 0x1fff } else { folded + MULAW_BIAS };
    let chord = 10 - magnitude.leading_zeros() as u16;
    let step = magnitude >> (chord + 1) & 0x0f;
    let sign = if sample < 0 { 0x80 } else { 0 };
    // All bits are sent inverted.
    !(sign | (chord << 4 | step) as u8)
}

/// Decodes a µ-law byte (G.711 table 2).
pub const fn mulaw_decode(byte: u8) -> i16 {
    let bits = !byte;
    let chord = bits >> 4 & 7;
    let step = (bits & 0x0f) as i16;
    let magnitude = ((2 * step + 33) << chord) - MULAW_BIAS as i16;
    let sample = magnitude << 2;
    if bits & 0x80 != 0 { -sample } else { sample }
}

/// Encodes a sample in A-law (G.711 table 1).
pub const fn alaw_encode(sample: i16) -> u8 {
    let magnitude = ((if sample < 0 { !sample } else { sample }) >> 4) as u16;
    // The first two chords have steps of the same size.
    let code = if magnitude < 32 {
        magnitude
    } else {
        let chord = 12 - magnitude.leading_zeros() as u16;
        chord << 4 | magnitude >> (chord - 1) & 0x0f
    };
    let sign = if sample < 0 { 0 } else { 0x80 };
    // Every second bit is sent inverted.
    (sign | code as u8) ^ 0x55
}

/// Decodes an A-law byte (G.711 table 1).
pub const fn alaw_decode(byte: u8) -> i16 {
    let bits = byte ^ 0x55;
    let chord = bits >> 4 & 7;
    let step = (bits & 0x0f) as i16;
    // The middle of the step: half a step more, in units of half steps.
    let halves = 2 * step + 1;
    let magnitude = if chord == 0 { halves } else { (halves + 32) << (chord - 1) };
    let sample = magnitude << 3;
    if bits & 0x80 != 0 { sample } else { -sample }
}

const fn table(decode_alaw: bool) -> [i16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = if decode_alaw { alaw_decode(byte as u8) } else { mulaw_decode(byte as u8) };
        byte += 1;
    }
    table
}

const MULAW_BIAS: u16 = 33;
static MULAW: [i16; 256] = table(false);
static ALAW: [i16; 256] = table(true);

#[cfg(test)]
#[path = "g711_tests.rs"]
mod tests;

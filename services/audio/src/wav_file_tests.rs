//! Tests of files with odd chunks, with lengths that are hints, with all formats, and with hostile bytes.

use super::*;

/// Format with this tag, channels, bits, and bytes for each sample.
fn format(tag: u16, channels: u16, bits: u16, sample_bytes: u16) -> Vec<u8> {
    let block = channels * sample_bytes;
    let rates = [8000_u32, 8000 * u32::from(block)].map(u32::to_le_bytes).concat();
    let ends = [block, bits].map(u16::to_le_bytes).concat();
    [[tag, channels].map(u16::to_le_bytes).concat(), rates, ends].concat()
}

fn extensible(tag: u16, channels: u16, bits: u16, valid_bits: u16) -> Vec<u8> {
    let more = [22, valid_bits, 3, 0, tag].map(u16::to_le_bytes).concat();
    [format(EXTENSIBLE, channels, bits, bits / 8), more, SUB_FORMAT_END.to_vec()].concat()
}

fn chunk(name: &str, length: u32, body: &[u8]) -> Vec<u8> {
    [name.as_bytes(), &length.to_le_bytes(), body].concat()
}

fn padded(name: &str, body: &[u8]) -> Vec<u8> {
    [chunk(name, body.len() as u32, body), vec![0; body.len() % 2]].concat()
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    [b"RIFF\xff\xff\xff\xffWAVE".to_vec(), chunks.concat()].concat()
}

fn read(bytes: &[u8]) -> Result<Vec<f32>, String> {
    match WavFile::read(bytes) {
        Ok(file) => Ok(file.samples),
        Err(WavError::Unusable(reason)) => Err(reason),
        Err(WavError::Io(error)) => panic!("{error}"),
    }
}

/// Four samples of 16 bits, and their values.
const SOUND: [u8; 8] = [0, 0x40, 0, 0xc0, 0, 0x20, 0, 0x80];
const VALUES: [f32; 4] = [0.5, -0.5, 0.25, -1.0];

fn pcm16() -> Vec<u8> {
    padded("fmt ", &format(PCM, 1, 16, 2))
}

#[test]
fn odd_chunks_have_a_pad_byte_or_none() {
    let sound = || padded("data", &SOUND);
    let odd = |body: &[u8]| chunk("LIST", body.len() as u32, body);
    let odd_format = chunk("fmt ", 19, &[&format(PCM, 1, 16, 2)[..], &[1, 0, 9]].concat());
    for chunks in [
        [padded("LIST", b"x"), pcm16(), sound()],
        [pcm16(), padded("LIST", b"12345"), sound()],
        [odd(b"x"), pcm16(), sound()],
        [pcm16(), odd(b"12345"), sound()],
        [[odd(b"x"), b"!".to_vec()].concat(), pcm16(), sound()],
        [[odd_format.clone(), vec![0]].concat(), padded("odd ", b"123"), sound()],
        [odd_format, padded("odd ", b"123"), sound()],
    ] {
        assert_eq!(read(&file(&chunks)).as_deref(), Ok(&VALUES[..]), "{chunks:?}");
    }
}

#[test]
fn lengths_are_hints() {
    for length in [8, 0, u32::MAX, u32::MAX - 1, 9, 1000, 0x7fff_f000] {
        let bytes = file(&[pcm16(), chunk("data", length, &SOUND)]);
        assert_eq!(read(&bytes).as_deref(), Ok(&VALUES[..]), "{length:#x}");
        let rf64 = [b"RF64", &bytes[4..]].concat();
        assert_eq!(read(&rf64).as_deref(), Ok(&VALUES[..]));
    }
    // A true length ends the sound, and an incomplete last frame is left out.
    let followed = file(&[pcm16(), chunk("data", 4, &SOUND[..4]), padded("LIST", b"1234")]);
    assert_eq!(read(&followed).as_deref(), Ok(&VALUES[..2]));
    assert_eq!(read(&file(&[pcm16(), chunk("data", 7, &SOUND[..7])])).as_deref(), Ok(&VALUES[..3]));
    for empty in [
        file(&[pcm16()]),
        file(&[pcm16(), chunk("data", 0, b"")]),
        file(&[pcm16(), chunk("data", 0, b""), padded("LIST", b"1234")]),
        file(&[pcm16(), chunk("LIST", u32::MAX, &SOUND), padded("data", &SOUND)]),
    ] {
        assert_eq!(read(&empty), Err("it has no sound".into()));
    }
}

#[test]
fn every_coding_is_read_by_its_format_or_sub_format() {
    let four = |samples: [f32; 4]| samples.map(f32::to_le_bytes).concat();
    let eight = |samples: [f32; 4]| samples.map(|sample| f64::from(sample).to_le_bytes()).concat();
    let wide =
        |bytes: usize| SOUND.chunks(2).flat_map(|two| [vec![0; bytes - 2], two.to_vec()].concat()).collect();
    let cases: [(u16, u16, Vec<u8>); 6] = [
        (PCM, 8, vec![0xc0, 0x40, 0xa0, 0]),
        (PCM, 16, SOUND.to_vec()),
        (PCM, 24, wide(3)),
        (PCM, 32, wide(4)),
        (FLOAT, 32, four(VALUES)),
        (FLOAT, 64, eight(VALUES)),
    ];
    for (tag, bits, sound) in cases {
        for format in [format(tag, 1, bits, bits / 8), extensible(tag, 1, bits, bits)] {
            let bytes = file(&[padded("fmt ", &format), padded("data", &sound)]);
            assert_eq!(read(&bytes).as_deref(), Ok(&VALUES[..]), "{tag} {bits}");
        }
    }
    // 20 bits in 24, 12 bits in 16: the upper ones.
    for (format, sound) in [(extensible(PCM, 1, 24, 20), wide(3)), (format(PCM, 1, 12, 2), SOUND.to_vec())] {
        let bytes = file(&[padded("fmt ", &format), padded("data", &sound)]);
        assert_eq!(read(&bytes).as_deref(), Ok(&VALUES[..]));
    }
    let stereo = file(&[padded("fmt ", &format(PCM, 2, 16, 2)), padded("data", &SOUND)]);
    assert_eq!(read(&stereo).as_deref(), Ok(&[0.0, -0.375][..]));
}

#[test]
fn an_error_names_its_cause() {
    let with = |format: Vec<u8>| file(&[padded("fmt ", &format), padded("data", &SOUND)]);
    let mut unknown = extensible(PCM, 1, 16, 16);
    unknown[30] = 7;
    let mut slow = format(PCM, 1, 16, 2);
    slow[4..8].copy_from_slice(&1_u32.to_le_bytes());
    for (bytes, reason) in [
        (b"OggS and more than twelve bytes".to_vec(), "not a WAV file"),
        (with(format(0x11, 1, 4, 1)), "IMA ADPCM (format 0x0011)"),
        (with(format(0x1234, 1, 16, 2)), "unknown (format 0x1234)"),
        (with(extensible(0x55, 2, 0, 0)), "MP3"),
        (with(unknown), "unknown sub-format"),
        (with(extensible(PCM, 1, 16, 16)[..30].to_vec()), "format is cut off"),
        (with(format(PCM, 1, 16, 2)[..12].to_vec()), "format is cut off"),
        (with(format(PCM, 1, 64, 8)), "64 bits in 8 bytes"),
        (with(format(FLOAT, 1, 16, 2)), "16 bits in 2 bytes"),
        (with(format(PCM, 1, 0, 0)), "0 bits in 0 bytes"),
        (with(format(PCM, 0, 16, 2)), "no channels"),
        (with(slow), "4,000"),
        (file(&[padded("data", &SOUND), pcm16()]), "before its format"),
        (file(&vec![padded("LIST", b""); 200]), "no sound"),
    ] {
        let error = read(&bytes).unwrap_err();
        assert!(error.contains(reason) && error.lines().count() == 1, "{error}");
    }
}

/// Files cut anywhere and with any byte changed: no panic, and no more samples than bytes.
#[test]
fn hostile_files_are_played_or_refused() {
    let formats = [
        format(PCM, 2, 16, 2),
        extensible(FLOAT, 1, 32, 32),
        format(MULAW, 1, 8, 1),
        extensible(PCM, 3, 24, 20),
    ];
    for format in formats {
        let whole =
            file(&[padded("LIST", b"123"), padded("fmt ", &format), padded("data", &SOUND.repeat(3))]);
        for length in 0..=whole.len() {
            let samples = read(&whole[..length]).unwrap_or_default();
            assert!(samples.len() <= length);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let samples = read(&changed).unwrap_or_default();
                assert!(samples.len() <= whole.len());
            }
        }
    }
}

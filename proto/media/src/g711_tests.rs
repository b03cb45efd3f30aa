use super::*;
use alloc::vec::Vec;

/// Table 2a of G.711: the decoded value, in 14 bits, of the first and last code of every chord.
#[test]
fn mulaw_decodes_to_the_values_of_the_recommendation() {
    let table = [
        (0x80, 8031),
        (0x8f, 4191),
        (0x90, 3999),
        (0x9f, 2079),
        (0xa0, 1983),
        (0xaf, 1023),
        (0xb0, 975),
        (0xbf, 495),
        (0xc0, 471),
        (0xcf, 231),
        (0xd0, 219),
        (0xdf, 99),
        (0xe0, 93),
        (0xef, 33),
        (0xf0, 30),
        (0xfe, 2),
        (0xff, 0),
    ];
    for (byte, value) in table {
        assert_eq!(mulaw_decode(byte), 4 * value, "{byte:#x}");
        assert_eq!(mulaw_decode(byte & 0x7f), -4 * value, "{byte:#x} negative");
    }
}

/// Table 1a of G.711: the decoded value, in 13 bits, of the first and last code of every chord.
#[test]
fn alaw_decodes_to_the_values_of_the_recommendation() {
    let table = [
        (0xff, 4032),
        (0xf0, 2112),
        (0xef, 2016),
        (0xe0, 1056),
        (0xdf, 1008),
        (0xd0, 528),
        (0xcf, 504),
        (0xc0, 264),
        (0xbf, 252),
        (0xb0, 132),
        (0xaf, 126),
        (0xa0, 66),
        (0x9f, 63),
        (0x90, 33),
        (0x8f, 31),
        (0x80, 1),
    ];
    for (byte, value) in table {
        assert_eq!(alaw_decode(byte ^ 0x55), 8 * value, "{byte:#x}");
        assert_eq!(alaw_decode(byte & 0x7f ^ 0x55), -8 * value, "{byte:#x} negative");
    }
}

/// The decision values of both tables: an interval includes its lower end.
#[test]
fn a_code_begins_at_its_decision_value() {
    let mulaw =
        [(0, 0xff), (1, 0xfe), (3, 0xfd), (31, 0xef), (35, 0xee), (95, 0xdf), (4063, 0x8f), (7903, 0x80)];
    for (decision, byte) in mulaw {
        assert_eq!(mulaw_encode(4 * decision), byte, "{decision}");
        if decision > 0 {
            assert_ne!(mulaw_encode(4 * decision - 1), byte, "below {decision}");
        }
    }
    let alaw =
        [(0, 0x80), (2, 0x81), (62, 0x9f), (64, 0xa0), (68, 0xa1), (128, 0xb0), (2048, 0xf0), (3968, 0xff)];
    for (decision, byte) in alaw {
        assert_eq!(alaw_encode(8 * decision), byte ^ 0x55, "{decision}");
        if decision > 0 {
            assert_ne!(alaw_encode(8 * decision - 1), byte ^ 0x55, "below {decision}");
        }
    }
}

#[test]
fn every_code_is_reproduced_and_the_halves_are_symmetric() {
    for byte in 0..=u8::MAX {
        assert_eq!(alaw_encode(alaw_decode(byte)), byte);
        // µ-law has two zeros; encoding 0 gives the positive one.
        let again = if byte == 0x7f { 0xff } else { byte };
        assert_eq!(mulaw_encode(mulaw_decode(byte)), again);
    }
    for sample in 0..=i16::MAX {
        assert_eq!(mulaw_encode(sample) & 0x7f, mulaw_encode(!sample), "{sample}");
        assert_eq!(alaw_encode(sample) & 0x7f, alaw_encode(!sample), "{sample}");
    }
}

#[test]
fn every_sample_is_reproduced_within_half_a_step() {
    for sample in i16::MIN..=i16::MAX {
        let wide = i32::from(sample);
        // The steps are a sixteenth of a chord; µ-law clips the last 643 values.
        let clipped = wide.clamp(-32_635, 32_635);
        let error = (i32::from(mulaw_decode(mulaw_encode(sample))) - clipped).abs();
        assert!(error <= (clipped.abs() + 132) / 32 + 4, "µ-law {sample}: {error}");
        let error = (i32::from(alaw_decode(alaw_encode(sample))) - wide).abs();
        assert!(error <= (wide.abs() / 32).max(16), "A-law {sample}: {error}");
    }
}

#[test]
fn blocks_are_coded_sample_by_sample() {
    let sound: Vec<i16> = (0..160).map(|at| (at - 80) * 400).collect();
    for codec in [Codec::Pcmu, Codec::Pcma] {
        let mut coded = [0; 160];
        encode(codec, &sound, &mut coded);
        let mut decoded = [0; 160];
        decode(codec, &coded, &mut decoded);
        let mut again = [0; 160];
        encode(codec, &decoded, &mut again);
        assert_eq!(coded, again);
    }
}

//! Rendering of the short authentication string (RFC 6189 §5.1.6, §7).

use crate::algorithm::SasType;
use crate::sas_words::{EVEN, ODD};
use alloc::string::String;

/// Renders the leftmost bits of the SAS hash: `pdo8`, or `topmost Istanbul`.
pub(crate) fn render(kind: SasType, value: [u8; 4]) -> String {
    match kind {
        SasType::B32 => base32(u32::from_be_bytes(value)),
        SasType::B256 => words(&value[..2]),
    }
}

fn base32(bits: u32) -> String {
    let character = |shift: u32| char::from(ALPHABET[(bits >> shift & 31) as usize]);
    [27, 22, 17, 12].into_iter().map(character).collect()
}

/// Words of two and of three syllables alternate, so that a missing or swapped word is noticed.
fn words(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (place, &byte) in bytes.iter().enumerate() {
        if place > 0 {
            text.push(' ');
        }
        text.push_str(if place % 2 == 0 { EVEN[usize::from(byte)] } else { ODD[usize::from(byte)] });
    }
    text
}

/// Alphabet without characters that are easily confused.
const ALPHABET: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn twenty_bits_are_four_characters() {
        assert_eq!(render(SasType::B32, [0, 0, 0, 0]), "yyyy");
        assert_eq!(render(SasType::B32, [0xff, 0xff, 0xff, 0xff]), "9999");
        // 1, 2, 3, 4 in groups of five bits, and unused bits.
        let bits: u32 = 1 << 27 | 2 << 22 | 3 << 17 | 4 << 12 | 0xfff;
        assert_eq!(render(SasType::B32, bits.to_be_bytes()), "bndr");
        // Only the leftmost 20 bits count.
        assert_eq!(render(SasType::B32, [0x12, 0x34, 0x50, 0]), render(SasType::B32, [0x12, 0x34, 0x5f, 9]));
    }

    #[test]
    fn sixteen_bits_are_two_words() {
        assert_eq!(render(SasType::B256, [0x00, 0x00, 9, 9]), "aardvark adroitness");
        assert_eq!(render(SasType::B256, [0xe5, 0x82, 0, 0]), "topmost Istanbul");
        assert_eq!(render(SasType::B256, [0xff, 0xff, 0, 0]), "Zulu Yucatan");
    }

    #[test]
    fn the_well_known_fingerprint_in_words() {
        let bytes = [
            0xe5, 0x82, 0x94, 0xf2, 0xe9, 0xa2, 0x27, 0x48, 0x6e, 0x8b, 0x06, 0x1b, 0x31, 0xcc, 0x52, 0x8f,
            0xd7, 0xfa, 0x3f, 0x19,
        ];
        assert_eq!(
            words(&bytes),
            "topmost Istanbul Pluto vagabond treadmill Pacific brackish dictator goldfish Medusa \
             afflict bravado chatter revolver Dupont midsummer stopwatch whimsical cowbell bottomless"
        );
    }

    #[test]
    fn no_word_occurs_twice_and_the_lists_are_sorted_except_for_one_pair() {
        let mut out_of_order = Vec::new();
        for list in [&EVEN, &ODD] {
            let lower: Vec<String> = list.iter().map(|word| word.to_lowercase()).collect();
            assert!((0..256).all(|place| !lower[place + 1..].contains(&lower[place])));
            out_of_order
                .extend(lower.windows(2).filter(|pair| pair[0] > pair[1]).map(|pair| pair[1].clone()));
        }
        assert_eq!(out_of_order, ["apollo"], "as it was published");
        assert!(EVEN.iter().all(|word| !ODD.contains(word)));
    }
}

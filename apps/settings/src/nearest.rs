//! Suggestion for a misspelled word.

use alloc::vec::Vec;

/// The word of `words` that is the most similar to `word`, if one is similar enough to be meant.
///
/// ```
/// use ringway_settings::nearest;
///
/// assert_eq!(nearest("lisen", &["listen", "domains"]), Some("listen"));
/// assert_eq!(nearest("color", &["listen", "domains"]), None);
/// ```
pub fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(CHARS_MAX).collect();
    let distances = words.iter().map(|known| (distance(&word, known), *known));
    let (edits, known) = distances.min_by_key(|(edits, _)| *edits)?;
    let longest = word.len().max(known.chars().count());
    (3 * edits <= longest).then_some(known)
}

/// Number of characters to insert, delete or replace (Levenshtein distance).
fn distance(word: &[char], known: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (line, letter) in known.chars().take(CHARS_MAX).enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (cell, own) in row.iter_mut().zip(core::iter::once(None).chain(word.iter().map(Some))) {
            let above = *cell;
            *cell = match own {
                None => left,
                Some(own) => (diagonal + usize::from(*own != letter)).min(above + 1).min(left + 1),
            };
            (diagonal, left) = (above, *cell);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Characters that are compared.
const CHARS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_single_changes() {
        for (word, known, edits) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            let word: Vec<char> = word.chars().collect();
            assert_eq!(distance(&word, known), edits, "{word:?} {known}");
        }
    }

    #[test]
    fn only_a_similar_word_is_suggested() {
        let known = ["scenario", "transports", "rates", "seconds"];
        assert_eq!(nearest("senario", &known), Some("scenario"));
        assert_eq!(nearest("second", &known), Some("seconds"));
        assert_eq!(nearest("rate", &known), Some("rates"));
        assert_eq!(nearest("x", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("rates", &[]), None);
    }
}

//! Words and blanks that must not be committed.

use super::File;

/// Left-over work and left-over debugging; whole words. Written in two pieces, so that this file does not find itself.
const LEFT_OVER: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("dbg", "!")];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/tm", "p/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub(super) fn findings(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let at = number + 1;
        if line.ends_with([' ', '\t']) {
            findings.push(file.finding(at, "trailing blanks"));
        }
        for word in LEFT_OVER {
            if has_word(line, word) {
                findings.push(file.finding(at, format!("{word} must not be committed")));
            }
        }
        for path in MACHINE_PATHS {
            if has_path(line, path) {
                findings.push(file.finding(at, format!("{path} is a path of one machine")));
            }
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(file.finding(file.text.lines().count(), "the last line does not end"));
    }
    findings
}

/// True if the line has `word` as a whole word: no letter, digit or underscore before or after it.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !is_part(before) && !is_part(after)
    })
}

/// True if an absolute path begins so: not in the middle of a longer one, nor of an address.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}/".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_overs_paths_and_blanks_are_found() {
        let bad = [
            concat!("// TO", "DO later\n"),
            concat!("dbg", "!(x);\n"),
            concat!("open(\"/tm", "p/x\")\n"),
            "trailing \n",
            "no end",
        ];
        for text in bad {
            let file = File { path: "a.rs".into(), text: text.into() };
            assert_eq!(findings(&file).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn longer_words_and_longer_paths_are_not() {
        for text in
            [concat!("TO", "DOS\n"), concat!("XX", "XX\n"), concat!("https://example.org/tm", "p/x\n")]
        {
            let file = File { path: "a.rs".into(), text: text.into() };
            assert!(findings(&file).is_empty(), "{text:?}");
        }
    }
}

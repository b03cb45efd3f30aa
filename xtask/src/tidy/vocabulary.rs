//! The rules of language: first lines of doc comments, words with a plainer term, words and blanks that must not be
//! committed.
//!
//! Prose is checked with one list: comments, strings and documents; identifiers with another. `docs/reference/glossary.md` lists our own terms.

use super::File;

/// First words that make a doc comment a question instead of a statement.
const QUESTIONS: [&str; 9] = ["What", "How", "Where", "Whether", "When", "Why", "Who", "Whose", "Which"];

/// Words and phrases in lower case, each with the term to write instead. Written in two pieces where this file would find
/// itself.
const WORDS: [(&str, &str); 30] = [
    (concat!("look", "-up"), "lookup"),
    (concat!("look", "-ups"), "lookups"),
    (concat!("cha", "nce"), "randomness, or `random` as an adjective"),
    (concat!("wis", "hes"), "requests, or `requested actions`"),
    (concat!("wis", "h"), "request"),
    (concat!("is to", "ld"), "gets, receives or `is notified`"),
    (concat!("are to", "ld"), "get, receive or `are notified`"),
    (concat!("is as", "ked"), "the call or the query itself"),
    (concat!("are as", "ked"), "the call or the query itself"),
    (concat!("hea", "rs"), "receives"),
    (concat!("kno", "ws"), "has, stores, supports or recognises"),
    (concat!("stan", "ds"), "is"),
    (concat!("sto", "od"), "was"),
    (concat!("li", "es"), "is"),
    (concat!("repeti", "tion"), "retransmission (SIP) or repeat"),
    (concat!("repeti", "tions"), "retransmissions (SIP) or repeats"),
    (concat!("doub", "led"), "duplicated"),
    (concat!("be", "at"), "tick (packet interval)"),
    (concat!("be", "ats"), "ticks (packet intervals)"),
    (concat!("pla", "ce"), "index, position, slot or line"),
    (concat!("pla", "ces"), "indexes, positions, slots or lines"),
    (concat!("ten", "ant"), "value (of a slab with generational keys)"),
    (concat!("ten", "ants"), "values (of a slab with generational keys)"),
    (concat!("means ", "itself"), "identity-mapped"),
    (concat!("no text ", "in utf-8"), "not valid UTF-8"),
    (concat!("cannot ", "be had"), "not supported in this build"),
    (concat!("without ", "a word"), "silently"),
    (concat!("by ", "itself"), "locally, or name the cause"),
    (concat!("from ", "outside"), "from the network"),
    (concat!("who", "ever"), "the role: caller, client, reader"),
];

/// Words of identifiers, each with the term to write instead.
const IDENTIFIER_WORDS: [(&str, &str); 17] = [
    (concat!("to", "ld"), "reported, notified, or the name of the value"),
    (concat!("te", "ll"), "send, report or notify"),
    (concat!("te", "lls"), "reports"),
    (concat!("surroun", "dings"), "the parts by their names"),
    (concat!("sit", "ting"), "session"),
    (concat!("be", "at"), "tick or heartbeat"),
    (concat!("be", "ats"), "ticks or heartbeats"),
    (concat!("cha", "nce"), "random"),
    (concat!("wi", "sh"), "request"),
    (concat!("wis", "hes"), "requests"),
    (concat!("la", "mp"), "dialog state"),
    (concat!("la", "mps"), "dialog states"),
    (concat!("l", "it"), "shown"),
    (concat!("ten", "ant"), "value"),
    (concat!("cle", "rk"), "worker"),
    (concat!("sto", "od"), "was"),
    (concat!("kno", "ws"), "has"),
];

/// Identifiers that are names of metrics.
const METRICS: [&str; 3] =
    [concat!("lamps", "_left_out"), concat!("lamps", "_lit"), concat!("lamps", "_refused")];

/// Idioms that hold a word of [`WORDS`] in its usual sense.
const IDIOMS: [&str; 3] = [concat!("in pla", "ce"), concat!("take pla", "ce"), concat!("takes pla", "ce")];

pub(super) fn findings(file: &File) -> Vec<String> {
    if file.is_rust() { code_findings(file) } else { document_findings(file) }
}

fn code_findings(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut previous = None;
    for (number, line) in file.text.lines().enumerate() {
        let doc = doc_text(line);
        if let (Some((marker, text)), true) = (doc, doc.map(|(marker, _)| marker) != previous)
            && let Some(word) = question(text)
        {
            findings.push(file.finding(
                number + 1,
                format!("{marker} begins with `{word}`; write a noun phrase or a verb in the third person"),
            ));
        }
        previous = doc.map(|(marker, _)| marker);
        findings.extend(word_findings(file, number + 1, &prose_of(line)));
        findings.extend(identifier_findings(file, number + 1, line));
    }
    findings
}

/// Findings of the identifiers in the code of a line.
fn identifier_findings(file: &File, number: usize, line: &str) -> Vec<String> {
    let prose = prose_of(line);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // Most lines have none of the words.
    let lower = line.to_lowercase();
    if IDENTIFIER_WORDS.iter().all(|(word, _)| !lower.contains(word)) || line.trim_start().starts_with("//") {
        return Vec::new();
    }
    let names = line.split(|c| !is_name(c)).filter(|name| !name.is_empty() && !METRICS.contains(name));
    let mut findings = Vec::new();
    for name in names.filter(|name| !prose.contains(name)) {
        let found = IDENTIFIER_WORDS.iter().find(|(word, _)| words_of(name).iter().any(|part| part == word));
        findings.extend(
            found.map(|(word, term)| file.finding(number, format!("`{name}` has `{word}`; write {term}"))),
        );
    }
    findings
}

/// Words of an identifier, in lower case: those of `snake_case`, `SCREAMING_CASE` and `CamelCase`.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in name.split('_') {
        let mut is_lower = false;
        let mut word = String::new();
        for c in part.chars() {
            if c.is_ascii_uppercase() && is_lower {
                words.push(std::mem::take(&mut word));
            }
            is_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
            word.push(c.to_ascii_lowercase());
        }
        words.push(word);
    }
    words
}

fn document_findings(file: &File) -> Vec<String> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    lines.flat_map(|(number, line)| word_findings(file, number + 1, &without_names(line))).collect()
}

/// The line of a document without the targets of its links, which name files, and without words in backquotes, which are names.
fn without_names(line: &str) -> String {
    let mut parts = line.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    text.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The marker and the text of a line that is a doc comment.
fn doc_text(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let of = |marker: &'static str| line.strip_prefix(marker).map(|text| (marker, text.trim_start()));
    of("///").or_else(|| of("//!"))
}

/// The question word that the text begins with.
fn question(text: &str) -> Option<&'static str> {
    let first = text.split(|c: char| !c.is_alphabetic()).next()?;
    QUESTIONS.into_iter().find(|word| *word == first)
}

/// The comment and the strings of a line of code. Strings over several lines are cut at the line's end.
fn prose_of(line: &str) -> String {
    let (mut prose, mut in_string, mut escaped, mut previous) = (String::new(), false, false, ' ');
    for (at, c) in line.char_indices() {
        let rest = line.get(at..).unwrap_or_default();
        if in_string {
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            prose.push(if in_string { c } else { ' ' });
        } else if rest.starts_with("//") {
            prose.push_str(rest);
            break;
        } else {
            in_string = c == '"' && !matches!(previous, '\'' | '\\');
        }
        previous = c;
    }
    prose
}

fn word_findings(file: &File, line: usize, prose: &str) -> Vec<String> {
    let mut prose = prose.to_lowercase();
    for idiom in IDIOMS {
        prose = prose.replace(idiom, "");
    }
    let found = WORDS.iter().filter(|(word, _)| has_word(&prose, word));
    found.map(|(word, term)| file.finding(line, format!("`{word}`; write {term}"))).collect()
}

/// Left-over work and left-over debugging; whole words. Written in two pieces, so that this file does not find itself.
const LEFT_OVER: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("dbg", "!")];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/tm", "p/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub(super) fn committed_findings(file: &File) -> Vec<String> {
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
fn has_word(line: &str, word: &str) -> bool {
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

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_question_at_the_start_of_a_doc_comment_is_found() {
        let text = "//! How it works.\n\n/// A list.\n/// Where it ends.\nstruct A;\n    /// Whether b.\n    b: bool,\n";
        let message = |line: u32, marker: &str, word: &str| {
            format!(
                "proto/sip/a.rs:{line}: {marker} begins with `{word}`; write a noun phrase or a verb in the third person"
            )
        };
        assert_eq!(
            findings(&file("proto/sip/a.rs", text)),
            [message(1, "//!", "How"), message(6, "///", "Whether")]
        );
        assert!(findings(&file("proto/sip/a.rs", "/// Whatever.\n/// However.\nfn a() {}\n")).is_empty());
    }

    #[test]
    fn a_word_is_found_in_comments_and_strings_and_the_term_is_named() {
        let word = WORDS[0].0;
        for text in [
            format!("a(); // one {word}\n"),
            format!("let a = \"a \\\" {word}\";\n"),
            format!("/// {}.\n", word.to_uppercase()),
        ] {
            let expected = format!("proto/users/a.rs:1: `{word}`; write lookup");
            assert_eq!(findings(&file("proto/users/a.rs", &text)), [expected], "{text}");
        }
        for text in [format!("a {word}\n"), format!("[b](c) {word}\n"), format!("[{word}](c) d\n")] {
            assert_eq!(findings(&file("proto/sip/README.md", &text)).len(), 1, "{text}");
        }
        assert!(findings(&file("proto/sip/README.md", &format!("[b]({word}.md) c\n"))).is_empty());
    }

    #[test]
    fn a_word_in_an_identifier_is_found() {
        let (word, other) = (IDENTIFIER_WORDS[0].0, IDENTIFIER_WORDS[3].0);
        let camel = format!("{}{}", other[..1].to_uppercase(), &other[1..]);
        for text in [
            format!("let {word} = 1;\n"),
            format!("fn is_{word}_again() {{}}\n"),
            format!("struct Own{camel};\n"),
            format!("const {}_MAX: u8 = 1;\n", word.to_uppercase()),
        ] {
            assert_eq!(findings(&file("proto/users/a.rs", &text)).len(), 1, "{text}");
        }
        for text in [
            format!("let un{word} = 1; // \n"),
            format!("a(\"{word}\");\n"),
            format!("let {} = 1;\n", METRICS[0]),
        ] {
            assert!(findings(&file("proto/users/a.rs", &text)).is_empty(), "{text}");
        }
    }

    #[test]
    fn identifiers_longer_words_and_idioms_are_not() {
        let word = WORDS[9].0;
        for text in [
            format!("let {word} = '\"'; {word}(\"\");\n"),
            format!("// a {word}llor\n"),
            format!("// changed {}, the rest is read {}\n", IDIOMS[0], IDIOMS[0]),
        ] {
            assert!(findings(&file("proto/sip/a.rs", &text)).is_empty(), "{text}");
        }
    }

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
            assert_eq!(committed_findings(&file).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn longer_words_and_longer_paths_are_not() {
        for text in
            [concat!("TO", "DOS\n"), concat!("XX", "XX\n"), concat!("https://example.org/tm", "p/x\n")]
        {
            let file = File { path: "a.rs".into(), text: text.into() };
            assert!(committed_findings(&file).is_empty(), "{text:?}");
        }
    }
}

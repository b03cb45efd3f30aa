//! Regular expressions of scenario files.

use regex::bytes::{Regex, RegexBuilder};
use ringway_load::Pattern;
use std::ops::Range;
use std::sync::Arc;

/// Compiles a POSIX extended regular expression. Of several alternatives the first one that matches is taken, not the longest one.
///
/// # Errors
/// An expression that is not one, or whose automaton is too large.
pub(super) fn compile(text: &str) -> Result<Arc<dyn Pattern>, String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("the expression has more than {EXPRESSION_BYTES_MAX} bytes"));
    }
    let built = RegexBuilder::new(&with_escapes(text))
        .unicode(false)
        // As in POSIX a dot is any byte.
        .dot_matches_new_line(true)
        .size_limit(AUTOMATON_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .nest_limit(NEST_MAX)
        .build();
    match built {
        Ok(regex) => Ok(Arc::new(Expression(regex))),
        Err(regex::Error::CompiledTooBig(_)) => {
            Err(format!("the expression {text:?} is too large; take smaller numbers of repeats"))
        }
        Err(error) => {
            let reason = error.to_string();
            let last = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(format!("the expression {text:?} is not a regular expression: {last}"))
        }
    }
}

#[derive(Debug)]
struct Expression(Regex);

impl Pattern for Expression {
    fn find(&self, text: &[u8], groups: &mut [Option<Range<usize>>]) -> bool {
        let Some(found) = self.0.captures(text) else { return false };
        for (group, range) in groups.iter_mut().zip(found.iter()) {
            *group = range.map(|range| range.range());
        }
        true
    }
}

/// The expression with escapes in its brackets, inside of which POSIX has neither escapes nor sets.
fn with_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        out.push(letter);
        match letter {
            '\\' => {
                let escaped = rest.chars().next();
                out.extend(escaped);
                rest = rest.get(escaped.map_or(0, char::len_utf8)..).unwrap_or_default();
            }
            '[' => rest = bracket(rest, &mut out),
            _ => {}
        }
    }
    out
}

/// Appends the rest of a bracket expression; returns the text after it.
fn bracket<'t>(text: &'t str, out: &mut String) -> &'t str {
    let mut rest = text;
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    while let Some(letter) = rest.chars().next() {
        if let Some(class) = class_of(rest) {
            out.push_str(class);
            rest = rest.get(class.len()..).unwrap_or_default();
            continue;
        }
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        match letter {
            ']' => {
                out.push(']');
                return rest;
            }
            '[' | '\\' | '&' | '~' => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    rest
}

/// Class that a text begins with: `[:alnum:]`.
fn class_of(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("[:")?.split_once(":]")?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    text.get(..name.len() + 4).filter(|_| is_name)
}

/// Maximum length of an expression.
const EXPRESSION_BYTES_MAX: usize = 1_024;
/// Maximum size of a compiled expression.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;
/// Maximum depth of groups.
const NEST_MAX: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expression: &str, text: &str) -> Option<Vec<String>> {
        let mut groups = [const { None }; 10];
        let is_found = compile(expression).unwrap().find(text.as_bytes(), &mut groups);
        let part = |range: Option<Range<usize>>| range.map(|range| text[range].to_owned());
        is_found.then(|| groups.into_iter().map_while(part).collect())
    }

    #[test]
    fn expressions_of_scenario_files_match_as_in_posix() {
        let text = "SIP/2.0 200 OK\r\nFrom: <sip:a@[::1]:5060>;tag=x\\y\r\n\r\no=user 1 2\r\n";
        let first = |expression| found(expression, text).unwrap().remove(0);
        assert_eq!(first("[0-9]{3}"), "200");
        assert_eq!(first("tag=[^;\r]*"), "tag=x\\y");
        assert_eq!(first("x[\\]y"), "x\\y");
        assert_eq!(first("@[][:0-9]+"), "@[::1]:5060");
        assert_eq!(first("OK..From"), "OK\r\nFrom");
        let groups = found("o=([[:alnum:]]*) ([[:alnum:]]*) ([[:alnum:]]*)", text).unwrap();
        assert_eq!(groups, ["o=user 1 2", "user", "1", "2"]);
        assert_eq!(found("^From", text), None, "only at the start of the text");
        assert_eq!(found("OK\\.", text), None);
    }

    #[test]
    fn expressions_that_are_wrong_or_too_large_are_refused() {
        let error = |expression: &str| compile(expression).unwrap_err();
        assert!(
            error("(a").contains("\"(a\" is not a regular expression: unclosed group"),
            "{}",
            error("(a")
        );
        assert!(error("((a{100}){100}){100}").contains("too large"));
        assert!(error(&"a".repeat(EXPRESSION_BYTES_MAX + 1)).contains("more than 1024 bytes"));
        assert!(error(&["(".repeat(60), ")".repeat(60)].concat()).contains("not a regular expression"));
    }

    #[test]
    fn a_search_takes_time_in_proportion_to_the_text() {
        let expression = compile("(a*)*(a*)*b").unwrap();
        assert!(!expression.find(&b"a".repeat(8_192), &mut [const { None }; 10]));
    }
}

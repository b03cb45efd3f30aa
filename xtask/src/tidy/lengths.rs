//! Files and functions that one can hold in the head.

use super::File;

/// Lines of a file of code, without its inline tests.
const CODE_LINES: usize = 600;
/// Lines of a file of tests.
const TEST_LINES: usize = 900;
/// Lines of a function. The rule is "about 70"; this is where "about" ends.
const FUNCTION_LINES: usize = 80;

pub(super) fn findings(file: &File) -> Vec<String> {
    let Some(code) = code_of(file) else {
        let lines = file.text.lines().count();
        let is_long = lines > TEST_LINES;
        let finding = is_long
            .then(|| file.finding(lines, format!("{lines} lines of tests; the limit is {TEST_LINES}")));
        return finding.into_iter().collect();
    };
    let mut findings = Vec::new();
    if code.len() > CODE_LINES {
        findings.push(
            file.finding(code.len(), format!("{} lines of code; the limit is {CODE_LINES}", code.len())),
        );
    }
    for (at, length) in functions(&code) {
        if length > FUNCTION_LINES {
            findings.push(
                file.finding(at + 1, format!("a function of {length} lines; the limit is {FUNCTION_LINES}")),
            );
        }
    }
    findings
}

/// Lines of a file of code without its inline tests, which are last in a file. `None` for a file of tests.
pub(super) fn code_of(file: &File) -> Option<Vec<&str>> {
    let path = &file.path;
    if path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs") {
        return None;
    }
    let mut lines: Vec<&str> = file.text.lines().collect();
    let is_start = |pair: &[&str]| matches!(pair, ["#[cfg(test)]", module] if module.starts_with("mod ") && module.ends_with('{'));
    if let Some(end) = lines.windows(2).position(is_start) {
        lines.truncate(end);
    }
    Some(lines)
}

/// First line of each function, from 0, and its length without the rows of tables in it. In formatted code the brace
/// that ends it is alone on its line, with the indentation of the function's first line.
fn functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = code.starts_with("fn ")
            || (code.starts_with("pub") || code.starts_with("const ")) && code.contains(" fn ");
        if !is_function || line.trim_end().ends_with(['}', ';']) {
            continue;
        }
        let indent = line.len() - code.len();
        let ends = |line: &&str| line.len() == indent + 1 && line.ends_with('}');
        let rest = lines.get(start..).unwrap_or_default();
        // A function declared without a body, over several lines, ends before the next blank line.
        let signature = rest.iter().take_while(|line| !line.trim().is_empty());
        let has_body = signature.clone().any(|line| line.trim_end().ends_with('{'));
        if let (true, Some(end)) = (has_body, rest.iter().position(ends)) {
            let rows = rest.iter().take(end).filter(|line| is_table_row(line)).count();
            found.push((start, end + 1 - rows));
        }
    }
    found
}

/// A line that is one tuple of a list: data, not steps.
fn is_table_row(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('(') && line.ends_with("),")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_function_is_found_and_a_long_test_is_not() {
        let long =
            format!("impl A {{\n    pub fn long(&self) {{\n{}    }}\n}}\n", "        x();\n".repeat(90));
        let file = File { path: "proto/a/src/lib.rs".into(), text: long.clone() };
        let found = findings(&file);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("proto/a/src/lib.rs:2: a function of 92 lines"), "{found:?}");
        let tested = format!("fn short() {{\n}}\n\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(findings(&File { path: "proto/a/src/lib.rs".into(), text: tested }).is_empty());
    }

    #[test]
    fn a_long_file_is_found() {
        let file = File { path: "proto/a/src/lib.rs".into(), text: "// line\n".repeat(601) };
        assert_eq!(findings(&file), ["proto/a/src/lib.rs:601: 601 lines of code; the limit is 600"]);
        let file = File { path: "proto/a/src/lib_tests.rs".into(), text: "// line\n".repeat(601) };
        assert!(findings(&file).is_empty());
    }
}

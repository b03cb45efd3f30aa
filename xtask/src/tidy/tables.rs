//! Tables of documents: short cells in README.md, tests that exist in SECURITY.md, figures with a source in BENCHMARKS.md.

use std::collections::HashSet;

use super::File;

const README: &str = "README.md";
/// Maximum length of a cell of a table in README.md, in characters.
const CELL_CHARACTERS_MAX: usize = 120;
const SECURITY: &str = "SECURITY.md";
/// Column of the tests in a table of threats, from 0.
const TESTS_COLUMN: usize = 2;
const BENCHMARKS: &str = "BENCHMARKS.md";
/// The section whose figures are those of the other sections.
const SUMMARY: &str = "## Summary";
/// Maximum number of lines of that section.
const SUMMARY_LINES_MAX: usize = 25;

pub(super) fn findings(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        match file.path.as_str() {
            README => findings.extend(cell_findings(file)),
            SECURITY => findings.extend(test_findings(file, &functions(files))),
            BENCHMARKS => findings.extend(figure_findings(file)),
            _ => {}
        }
    }
    findings
}

fn cell_findings(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, cells) in rows(&file.text) {
        for cell in cells {
            let length = cell.chars().count();
            if length > CELL_CHARACTERS_MAX {
                findings.push(file.finding(
                    number,
                    format!(
                        "a cell of {length} characters; the limit is {CELL_CHARACTERS_MAX}: link to a page"
                    ),
                ));
            }
        }
    }
    findings
}

/// Names of all functions.
fn functions(files: &[File]) -> HashSet<&str> {
    let lines = files.iter().filter(|file| file.is_rust()).flat_map(|file| file.text.lines());
    lines.filter_map(|line| line.trim_start().strip_prefix("fn ")?.split(['(', '<']).next()).collect()
}

/// Names in the column of tests that are no function.
fn test_findings(file: &File, functions: &HashSet<&str>) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, cells) in rows(&file.text) {
        for name in cells.get(TESTS_COLUMN).into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            if !functions.contains(name) {
                findings.push(file.finding(number, format!("there is no test `{name}`")));
            }
        }
    }
    findings
}

/// Numbers in the tables of the summary that no other section has, and a summary that is too long.
fn figure_findings(file: &File) -> Vec<String> {
    let Some((before, rest)) = file.text.split_once(SUMMARY) else {
        return vec![file.finding(1, format!("the file has no `{SUMMARY}`"))];
    };
    let (summary, others) = rest.split_once("\n## ").unwrap_or((rest, ""));
    let sources: HashSet<&str> = numbers(others).collect();
    let first = before.lines().count() + 1;
    let mut findings = Vec::new();
    let lines = summary.trim_end().lines().count();
    if lines > SUMMARY_LINES_MAX {
        findings.push(
            file.finding(first, format!("a summary of {lines} lines; the limit is {SUMMARY_LINES_MAX}")),
        );
    }
    for (number, cells) in rows(summary) {
        for figure in cells.iter().flat_map(|cell| numbers(cell)).filter(|figure| !sources.contains(figure)) {
            findings
                .push(file.finding(first + number - 1, format!("no other section has the figure {figure}")));
        }
    }
    findings
}

/// Words that begin with a digit, up to the last digit of each.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let words =
        text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | '`' | '|' | '-'));
    words.filter_map(|word| {
        let word = word.trim_start_matches(['+', '≤', '<']).trim_end_matches(|c: char| !c.is_ascii_digit());
        word.starts_with(|c: char| c.is_ascii_digit()).then_some(word)
    })
}

/// Rows of tables: number of the line from 1, and the cells without blanks around them.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    lines.map(|(number, line)| {
        let cells = line.trim().trim_matches('|').split('|').map(str::trim);
        (number + 1, cells.collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: String) -> File {
        File { path: path.into(), text }
    }

    #[test]
    fn a_long_cell_of_the_readme_is_found() {
        let (short, long) = ("é".repeat(CELL_CHARACTERS_MAX), "x".repeat(CELL_CHARACTERS_MAX + 1));
        let text = format!("{long}\n| {short} | a |\n| a | {long} |\n");
        let expected = "README.md:3: a cell of 121 characters; the limit is 120: link to a page";
        assert_eq!(findings(&[file(README, text.clone())]), [expected]);
        assert!(findings(&[file("docs/README.md", text)]).is_empty());
    }

    #[test]
    fn a_test_that_is_not_there_is_found() {
        let text = "| Threat | Rule | Tests | Limit |\n| a | `b` | `is_there`, `is_gone` | `c` |\n";
        let files = [
            file(SECURITY, text.to_owned()),
            file("a.rs", "    #[test]\n    fn is_there() {}\n    // is_gone\n".to_owned()),
        ];
        assert_eq!(findings(&files), ["SECURITY.md:2: there is no test `is_gone`"]);
    }

    #[test]
    fn a_figure_without_a_source_and_a_long_summary_are_found() {
        let text = |summary: &str| {
            format!(
                "# B\n\n{SUMMARY}\n\nBy 9 hands.\n\n{summary}\n## T\n| x | 6.80 µs (6.35-7.15), 1.55 × |\n"
            )
        };
        let good = text("| REGISTER | 6.80 µs, 7.15 | **missed** |\n");
        assert!(findings(&[file(BENCHMARKS, good)]).is_empty());
        let bad = text("| REGISTER | 6.80 µs |\n| call | 6.8 µs |\n");
        assert_eq!(
            findings(&[file(BENCHMARKS, bad)]),
            ["BENCHMARKS.md:8: no other section has the figure 6.8"]
        );
        let long = text(&"a\n".repeat(SUMMARY_LINES_MAX));
        assert_eq!(findings(&[file(BENCHMARKS, long)]).len(), 1);
        assert_eq!(
            findings(&[file(BENCHMARKS, "# B\n".to_owned())]),
            ["BENCHMARKS.md:1: the file has no `## Summary`"]
        );
    }
}

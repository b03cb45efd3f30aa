//! Documents: links that point at something that is there; short cells in README.md, tests that exist in SECURITY.md,
//! figures with a source in BENCHMARKS.md.

use std::collections::HashSet;
use std::path::Path;

use super::File;

/// The file whose table says where everything is.
const MAP: &str = "ARCHITECTURE.md";
/// The heading of that table.
const WHERE_IS: &str = "Where is";
/// The table of contents of all documents, for readers and for mdbook.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Folders with pages for users.
const PAGES: [&str; 3] = ["docs/start/", "docs/recipes/", "docs/reference/"];
/// Maximum size of a page for users, in bytes.
const PAGE_BYTES_MAX: usize = 30_000;

/// Relative links of a Markdown file that lead nowhere.
pub(super) fn findings(root: &Path, file: &File) -> Vec<String> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let is_elsewhere = path.is_empty() || path.contains(':');
            let is_there = is_elsewhere || root.join(folder).join(path).exists();
            if !is_there || !has_heading(root, folder, file, target) {
                findings.push(file.finding(number + 1, format!("the link to {target} leads nowhere")));
            }
        }
    }
    findings
}

/// True if the heading after `#` in a link to this file or another Markdown file exists.
fn has_heading(root: &Path, folder: &Path, file: &File, target: &str) -> bool {
    let Some((path, heading)) = target.split_once('#') else { return true };
    let other;
    let text = match path {
        "" => &file.text,
        path if path.ends_with(".md") && !path.contains(':') => {
            other = std::fs::read_to_string(root.join(folder).join(path)).unwrap_or_default();
            &other
        }
        _ => return true,
    };
    let mut is_code = false;
    text.lines().any(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#') && anchor(line) == heading
    })
}

/// Anchor that forges make of a heading: lower-case, `-` for a space, no punctuation.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let text: String = heading.trim_start_matches('#').trim().chars().filter(kept).collect();
    text.to_lowercase().replace(' ', "-")
}

/// Documents that are not in the summary, and pages for users that are too long.
pub(super) fn page_findings(files: &[File]) -> Vec<String> {
    let Some(summary) = files.iter().find(|file| file.path == SUMMARY) else {
        return vec![format!("{SUMMARY}:1: the file is missing")];
    };
    let mut findings = Vec::new();
    let documents = files.iter().filter(|file| file.path.ends_with(".md") && file.path != SUMMARY);
    for (file, name) in documents.filter_map(|file| Some((file, file.path.strip_prefix("docs/")?))) {
        if !summary.text.contains(&format!("]({name})")) {
            findings.push(file.finding(1, format!("the page is not in {SUMMARY}")));
        }
        let is_page = PAGES.iter().any(|folder| file.path.starts_with(folder));
        let bytes = file.text.len();
        if is_page && bytes > PAGE_BYTES_MAX {
            findings.push(
                file.finding(1, format!("{bytes} bytes; a page has up to {PAGE_BYTES_MAX}: divide it")),
            );
        }
    }
    findings
}

/// Paths in the table "Where is …?" that do not exist.
pub(super) fn where_is_findings(root: &Path, files: &[File]) -> Vec<String> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else {
        return vec![format!("{MAP}:1: the file is missing")];
    };
    let mut findings = Vec::new();
    let (mut in_table, mut paths) = (false, 0_usize);
    for (number, line) in map.text.lines().enumerate() {
        if line.starts_with('#') {
            in_table = line.contains(WHERE_IS);
        }
        if !in_table || !line.starts_with('|') {
            continue;
        }
        for quoted in line.split('`').skip(1).step_by(2) {
            // What has a slash or a file's ending is a path; other code in the table is a name.
            let is_path = quoted.contains('/')
                || Path::new(quoted).extension().is_some_and(|kind| kind == "rs" || kind == "md");
            if !is_path || quoted.contains([' ', '*', '<']) {
                continue;
            }
            paths += 1;
            if !root.join(quoted).exists() {
                findings.push(map.finding(number + 1, format!("`{quoted}` does not exist")));
            }
        }
    }
    if paths == 0 {
        findings.push(map.finding(1, format!("no table under a heading \"{WHERE_IS} …?\"")));
    }
    findings
}

const README: &str = "README.md";
/// Maximum length of a cell of a table in README.md, in characters.
const CELL_CHARACTERS_MAX: usize = 120;
const SECURITY: &str = "SECURITY.md";
/// Column of the tests in a table of threats, from 0.
const TESTS_COLUMN: usize = 2;
const BENCHMARKS: &str = "BENCHMARKS.md";
/// The section whose figures are those of the other sections.
const SUMMARY_HEADING: &str = "## Summary";
/// Maximum number of lines of that section.
const SUMMARY_LINES_MAX: usize = 25;

pub(super) fn table_findings(files: &[File]) -> Vec<String> {
    let mut table_findings = Vec::new();
    for file in files {
        match file.path.as_str() {
            README => table_findings.extend(cell_findings(file)),
            SECURITY => table_findings.extend(test_findings(file, &functions(files))),
            BENCHMARKS => table_findings.extend(figure_findings(file)),
            _ => {}
        }
    }
    table_findings
}

fn cell_findings(file: &File) -> Vec<String> {
    let mut table_findings = Vec::new();
    for (number, cells) in rows(&file.text) {
        for cell in cells {
            let length = cell.chars().count();
            if length > CELL_CHARACTERS_MAX {
                table_findings.push(file.finding(
                    number,
                    format!(
                        "a cell of {length} characters; the limit is {CELL_CHARACTERS_MAX}: link to a page"
                    ),
                ));
            }
        }
    }
    table_findings
}

/// Names of all functions.
fn functions(files: &[File]) -> HashSet<&str> {
    let lines = files.iter().filter(|file| file.is_rust()).flat_map(|file| file.text.lines());
    lines.filter_map(|line| line.trim_start().strip_prefix("fn ")?.split(['(', '<']).next()).collect()
}

/// Names in the column of tests that are no function.
fn test_findings(file: &File, functions: &HashSet<&str>) -> Vec<String> {
    let mut table_findings = Vec::new();
    for (number, cells) in rows(&file.text) {
        for name in cells.get(TESTS_COLUMN).into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            if !functions.contains(name) {
                table_findings.push(file.finding(number, format!("there is no test `{name}`")));
            }
        }
    }
    table_findings
}

/// Numbers in the tables of the summary that no other section has, and a summary that is too long.
fn figure_findings(file: &File) -> Vec<String> {
    let Some((before, rest)) = file.text.split_once(SUMMARY_HEADING) else {
        return vec![file.finding(1, format!("the file has no `{SUMMARY_HEADING}`"))];
    };
    let (summary, others) = rest.split_once("\n## ").unwrap_or((rest, ""));
    let sources: HashSet<&str> = numbers(others).collect();
    let first = before.lines().count() + 1;
    let mut table_findings = Vec::new();
    let lines = summary.trim_end().lines().count();
    if lines > SUMMARY_LINES_MAX {
        table_findings.push(
            file.finding(first, format!("a summary of {lines} lines; the limit is {SUMMARY_LINES_MAX}")),
        );
    }
    for (number, cells) in rows(summary) {
        for figure in cells.iter().flat_map(|cell| numbers(cell)).filter(|figure| !sources.contains(figure)) {
            table_findings
                .push(file.finding(first + number - 1, format!("no other section has the figure {figure}")));
        }
    }
    table_findings
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

    #[test]
    fn a_link_to_nothing_is_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here.md"), "## A part, `of` it\n").unwrap();
        let text = "# Top\n[a](here.md#a-part-of-it) [b](https://example.org/x#y) [c](gone.md) [d](#top) [e](here.md)\n\
                    [f](here.md#b) [g](#c)\n";
        let file = File { path: "README.md".into(), text: text.into() };
        let nowhere = [(2, "gone.md"), (3, "here.md#b"), (3, "#c")]
            .map(|(line, target)| format!("README.md:{line}: the link to {target} leads nowhere"));
        assert_eq!(findings(folder.path(), &file), nowhere);
    }

    #[test]
    fn a_page_must_be_in_the_summary_and_not_too_long() {
        let file = |path: &str, text: String| File { path: path.into(), text };
        let long = "x".repeat(PAGE_BYTES_MAX + 1);
        let summary = "- [A](start/a.md)\n- [C](recipes/c.md)\n- [Plan](plan.md)\n".to_owned();
        let mut files = vec![
            file(SUMMARY, summary),
            file("docs/start/a.md", "x".repeat(PAGE_BYTES_MAX)),
            file("docs/start/b.md", String::new()),
            file("docs/recipes/c.md", long.clone()),
            file("docs/plan.md", long.clone()),
            file("README.md", long),
        ];
        let expected = [
            "docs/start/b.md:1: the page is not in docs/SUMMARY.md",
            "docs/recipes/c.md:1: 30001 bytes; a page has up to 30000: divide it",
        ];
        assert_eq!(page_findings(&files), expected);
        files.remove(0);
        assert_eq!(page_findings(&files), ["docs/SUMMARY.md:1: the file is missing"]);
    }

    #[test]
    fn a_path_in_the_map_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here.rs"), "").unwrap();
        let text = "# Where is …?\n| a | `here.rs` |\n| b | `gone/away.rs`, `Server` |\n";
        let map = File { path: MAP.into(), text: text.into() };
        assert_eq!(
            where_is_findings(folder.path(), &[map]),
            ["ARCHITECTURE.md:3: `gone/away.rs` does not exist"]
        );
        assert_eq!(where_is_findings(folder.path(), &[]).len(), 1);
    }

    fn file(path: &str, text: String) -> File {
        File { path: path.into(), text }
    }

    #[test]
    fn a_long_cell_of_the_readme_is_found() {
        let (short, long) = ("é".repeat(CELL_CHARACTERS_MAX), "x".repeat(CELL_CHARACTERS_MAX + 1));
        let text = format!("{long}\n| {short} | a |\n| a | {long} |\n");
        let expected = "README.md:3: a cell of 121 characters; the limit is 120: link to a page";
        assert_eq!(table_findings(&[file(README, text.clone())]), [expected]);
        assert!(table_findings(&[file("docs/README.md", text)]).is_empty());
    }

    #[test]
    fn a_test_that_is_not_there_is_found() {
        let text = "| Threat | Rule | Tests | Limit |\n| a | `b` | `is_there`, `is_gone` | `c` |\n";
        let files = [
            file(SECURITY, text.to_owned()),
            file("a.rs", "    #[test]\n    fn is_there() {}\n    // is_gone\n".to_owned()),
        ];
        assert_eq!(table_findings(&files), ["SECURITY.md:2: there is no test `is_gone`"]);
    }

    #[test]
    fn a_figure_without_a_source_and_a_long_summary_are_found() {
        let text = |summary: &str| {
            format!(
                "# B\n\n{SUMMARY_HEADING}\n\nBy 9 hands.\n\n{summary}\n## T\n| x | 6.80 µs (6.35-7.15), 1.55 × |\n"
            )
        };
        let good = text("| REGISTER | 6.80 µs, 7.15 | **missed** |\n");
        assert!(table_findings(&[file(BENCHMARKS, good)]).is_empty());
        let bad = text("| REGISTER | 6.80 µs |\n| call | 6.8 µs |\n");
        assert_eq!(
            table_findings(&[file(BENCHMARKS, bad)]),
            ["BENCHMARKS.md:8: no other section has the figure 6.8"]
        );
        let long = text(&"a\n".repeat(SUMMARY_LINES_MAX));
        assert_eq!(table_findings(&[file(BENCHMARKS, long)]).len(), 1);
        assert_eq!(
            table_findings(&[file(BENCHMARKS, "# B\n".to_owned())]),
            ["BENCHMARKS.md:1: the file has no `## Summary`"]
        );
    }
}

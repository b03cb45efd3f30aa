//! `cargo xtask tidy`: the house rules that no compiler checks.
//!
//! Each finding is one line: file, line, what is wrong. The rules run as a test too, so that `cargo test` shows them.

mod architecture;
mod documents;
mod modules;
mod signatures;
mod vocabulary;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask::workspace::root;

pub(crate) fn run() -> Result<()> {
    let findings = findings(&root())?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} violations of the house rules (CONTRIBUTING.md)", findings.len());
    }
    println!("tidy: nothing found");
    Ok(())
}

/// One text file of the project.
struct File {
    /// From the root, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// A finding at a line of this file, counted from 1.
    fn finding(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

fn findings(root: &Path) -> Result<Vec<String>> {
    let files = files(root)?;
    let mut findings = Vec::new();
    for file in &files {
        findings.extend(vocabulary::committed_findings(file));
        findings.extend(vocabulary::findings(file));
        if file.is_rust() {
            findings.extend(length_findings(file));
            findings.extend(architecture::unsafe_findings(file));
            findings.extend(signatures::findings(file));
        }
        if file.path.ends_with(".md") {
            findings.extend(documents::findings(root, file));
            findings.extend(architecture::decision_findings(root, file));
        }
    }
    findings.extend(modules::findings(&files));
    findings.extend(modules::core_findings(&files));
    findings.extend(documents::where_is_findings(root, &files));
    findings.extend(documents::page_findings(&files));
    findings.extend(documents::table_findings(&files));
    let workspace = workspace(root)?;
    findings.extend(architecture::crate_findings(&workspace, &files)?);
    findings.extend(architecture::dependency_findings(&workspace, &files)?);
    Ok(findings)
}

/// The workspace's manifest.
fn workspace(root: &Path) -> Result<toml::Table> {
    let text =
        std::fs::read_to_string(root.join("Cargo.toml")).context("cannot read the workspace's Cargo.toml")?;
    text.parse().context("the workspace's Cargo.toml is not TOML")
}

/// All text files, without what is built, received (test data and corpora are bytes from elsewhere) or generated.
fn files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder));
        for entry in entries.with_context(|| format!("cannot read the folder {}", folder.display()))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let name = path.to_string_lossy().into_owned();
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                files.push(File { path: name, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Lines of a file of code, without its inline tests.
const CODE_LINES: usize = 600;
/// Lines of a file of tests.
const TEST_LINES: usize = 900;
/// Lines of a function. The rule is "about 70"; this is where "about" ends.
const FUNCTION_LINES: usize = 80;

fn length_findings(file: &File) -> Vec<String> {
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
fn code_of(file: &File) -> Option<Vec<&str>> {
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

const NOT_OURS: [&str; 10] = [
    ".git",
    "target",
    "Cargo.lock",
    "testdata",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/Cargo.lock",
    "apps/metal/image/target",
    "apps/metal/image/Cargo.lock",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let findings = findings(&root()).unwrap();
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }

    #[test]
    fn a_long_function_is_found_and_a_long_test_is_not() {
        let long =
            format!("impl A {{\n    pub fn long(&self) {{\n{}    }}\n}}\n", "        x();\n".repeat(90));
        let file = File { path: "proto/a/src/lib.rs".into(), text: long.clone() };
        let found = length_findings(&file);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("proto/a/src/lib.rs:2: a function of 92 lines"), "{found:?}");
        let tested = format!("fn short() {{\n}}\n\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(length_findings(&File { path: "proto/a/src/lib.rs".into(), text: tested }).is_empty());
    }

    #[test]
    fn a_long_file_is_found() {
        let file = File { path: "proto/a/src/lib.rs".into(), text: "// line\n".repeat(601) };
        assert_eq!(length_findings(&file), ["proto/a/src/lib.rs:601: 601 lines of code; the limit is 600"]);
        let file = File { path: "proto/a/src/lib_tests.rs".into(), text: "// line\n".repeat(601) };
        assert!(length_findings(&file).is_empty());
    }
}

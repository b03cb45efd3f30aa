//! `cargo xtask tidy`: the house rules that no compiler checks.
//!
//! Each finding is one line: file, line, what is wrong. The rules run as a test too, so that `cargo test` shows them.

mod architecture;
mod lengths;
mod links;
mod modules;
mod tables;
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
            findings.extend(lengths::findings(file));
            findings.extend(architecture::unsafe_findings(file));
        }
        if file.path.ends_with(".md") {
            findings.extend(links::findings(root, file));
            findings.extend(architecture::decision_findings(root, file));
        }
    }
    findings.extend(modules::findings(&files));
    findings.extend(modules::core_findings(&files));
    findings.extend(links::where_is_findings(root, &files));
    findings.extend(links::page_findings(&files));
    findings.extend(tables::findings(&files));
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
}

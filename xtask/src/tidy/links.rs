//! Documents that point at something that is there.

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
}

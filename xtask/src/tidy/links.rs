//! Documents that point at something that is there.

use std::path::Path;

use super::File;

/// The file whose table says where everything is.
const MAP: &str = "ARCHITECTURE.md";
/// The heading of that table.
const WHERE_IS: &str = "Where is";
/// The guide that has a table of contents.
const GUIDE: &str = "docs/user-guide.md";

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

/// The user guide has a table of contents with every heading of the second level.
pub(super) fn contents_findings(files: &[File]) -> Vec<String> {
    let Some(guide) = files.iter().find(|file| file.path == GUIDE) else {
        return vec![format!("{GUIDE}:1: the file is missing")];
    };
    let headings = guide.text.lines().enumerate().filter(|(_, line)| line.starts_with("## "));
    let missing = headings.filter(|(_, line)| {
        anchor(line) != "contents" && !guide.text.contains(&format!("](#{})", anchor(line)))
    });
    missing
        .map(|(number, line)| guide.finding(number + 1, format!("`{line}` is not in the contents")))
        .collect()
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
    fn a_heading_must_be_in_the_contents() {
        let guide = |text: &str| [File { path: GUIDE.into(), text: text.into() }];
        let text = "## Contents\n- [One](#one)\n## One\n## Two\n";
        assert_eq!(
            contents_findings(&guide(text)),
            ["docs/user-guide.md:4: `## Two` is not in the contents"]
        );
        assert_eq!(contents_findings(&[]).len(), 1);
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

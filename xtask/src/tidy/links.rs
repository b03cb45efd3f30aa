//! Documents that point at something that is there.

use std::path::Path;

use super::File;

/// The file whose table says where everything is.
const MAP: &str = "ARCHITECTURE.md";
/// The heading of that table.
const WHERE_IS: &str = "Where is";

/// Relative links of a Markdown file that lead nowhere.
pub(super) fn findings(root: &Path, file: &File) -> Vec<String> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let is_elsewhere = path.is_empty() || path.contains(':');
            if !is_elsewhere && !root.join(folder).join(path).exists() {
                findings.push(file.finding(number + 1, format!("the link to {target} leads nowhere")));
            }
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
        std::fs::write(folder.path().join("here.md"), "").unwrap();
        let text = "[a](here.md#part) [b](https://example.org/x) [c](gone.md)\n";
        let file = File { path: "README.md".into(), text: text.into() };
        assert_eq!(findings(folder.path(), &file), ["README.md:1: the link to gone.md leads nowhere"]);
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

//! ARCHITECTURE.md and the decisions against what they describe: dependencies of the crates, files of the decisions, and the
//! files that may have unsafe code.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::File;

/// The file whose first table says what each crate may depend on.
const MAP: &str = "ARCHITECTURE.md";
/// Heading of the last column of that table.
const HEADING: &str = "May depend on";

/// Crates by folder, each with the folders of the crates that it may depend on: `proto/sip`, `services/*`.
type Permissions<'t> = BTreeMap<&'t str, Vec<String>>;

/// Dependencies of crates of ours that the table does not permit, and crates that it does not have.
///
/// # Errors
/// A manifest is not TOML.
pub(super) fn dependency_findings(workspace: &toml::Table, files: &[File]) -> Result<Vec<String>> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else {
        return Ok(vec![format!("{MAP}:1: the file is missing")]);
    };
    let shared = workspace.get("workspace").and_then(|table| table.get("dependencies"));
    let permissions = permissions(&map.text);
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_crate(&file.path)) {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        let Some(permitted) = permissions.get(folder) else {
            findings.push(map.finding(1, format!("the crate {folder} is not in the table of crates")));
            continue;
        };
        let manifest: toml::Table =
            file.text.parse().with_context(|| format!("{} is not TOML", file.path))?;
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for name in dependencies.into_iter().flat_map(toml::Table::keys) {
            let path = shared.and_then(|shared| shared.get(name)?.get("path")?.as_str());
            if let Some(path) = path.filter(|path| !permitted.iter().any(|pattern| covers(pattern, path))) {
                findings.push(file.finding(1, format!("{MAP} does not permit a dependency on {path}")));
            }
        }
    }
    Ok(findings)
}

/// Decisions without a status, and files in their status lines that do not exist.
pub(super) fn decision_findings(root: &Path, file: &File) -> Vec<String> {
    let is_decision =
        file.path.strip_prefix("docs/decisions/").is_some_and(|name| name.starts_with(char::is_numeric));
    if !is_decision {
        return Vec::new();
    }
    let Some(start) = file.text.lines().position(|line| line.starts_with("Status: ")) else {
        return vec![file.finding(1, "a decision needs a line `Status: …`")];
    };
    let lines = (start + 1..).zip(file.text.lines().skip(start).take_while(|line| !line.is_empty()));
    let paths =
        lines.flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |path| (number, path)));
    paths
        .filter(|(_, path)| path.contains('/') && !path.contains(' ') && !root.join(path).exists())
        .map(|(number, path)| file.finding(number, format!("`{path}` does not exist")))
        .collect()
}

/// True for the manifest of a crate of the workspace.
fn is_crate(path: &str) -> bool {
    let is_part = ["proto/", "drivers/", "services/", "apps/", "tests/", "xtask/"];
    path.ends_with("/Cargo.toml") && is_part.iter().any(|part| path.starts_with(part))
}

/// The rows of the table: folder of the crate, and the names in backticks in its last column. A name without a folder is a crate of `proto/`.
fn permissions(map: &str) -> Permissions<'_> {
    let rows =
        map.lines().skip_while(|line| !line.contains(HEADING)).take_while(|line| line.starts_with('|'));
    let mut permissions = Permissions::new();
    for row in rows {
        let mut cells = row.trim_matches('|').split(" | ");
        let folder = cells.next().and_then(|cell| cell.split('`').nth(1));
        if let (Some(folder), Some(last)) = (folder, cells.last()) {
            let names = last.split('`').skip(1).step_by(2);
            let folders =
                names.map(|name| if is_folder(name) { name.to_owned() } else { format!("proto/{name}") });
            permissions.insert(folder, folders.collect());
        }
    }
    permissions
}

fn is_folder(name: &str) -> bool {
    name.contains('/') || name == "xtask"
}

/// True if a folder is the pattern, or in it for a pattern that ends in `*`.
fn covers(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => folder.starts_with(start),
        None => folder == pattern,
    }
}

/// Files and folders that may contain unsafe code: system calls of the drivers and of the load generator, the hardware
/// without an operating system, and the C library that SRTP is compared with.
const UNSAFE_PLACES: [&str; 4] = [
    "drivers/linux/src/sys/",
    "apps/metal/image/src/",
    "apps/lab/src/sys.rs",
    "tests/testbed/src/libsrtp.rs",
];

/// Crates that drivers must not depend on: a driver waits for nothing but its sockets. ARCHITECTURE.md says which crates of ours each may use.
const NOT_FOR_DRIVERS: [&str; 3] = ["hyper", "rusqlite", "tokio"];

/// Unsafe code outside the files for it.
pub(super) fn unsafe_findings(file: &File) -> Vec<String> {
    if UNSAFE_PLACES.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let is_unsafe = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        // Inside a literal the word is right after a quote, a backtick or a bracket of prose; code has it at a word's
        // start.
        words.any(|word| word == "unsafe") && !code.contains(['"', '`'])
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_unsafe(line));
    lines
        .map(|(number, _)| {
            file.finding(
                number + 1,
                "unsafe code belongs into drivers/linux/src/sys/ or apps/metal/image/src/",
            )
        })
        .collect()
}

/// Crates of `proto/` that could reach an operating system, and drivers that could wait for more than their sockets.
pub(super) fn crate_findings(workspace: &toml::Table, files: &[File]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files {
        let is_pure = file.path.starts_with("proto/");
        if is_pure && file.path.ends_with("/src/lib.rs") {
            for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
                if !file.text.lines().any(|line| line == attribute) {
                    findings.push(file.finding(1, format!("{attribute} is missing")));
                }
            }
        }
        if file.path.ends_with("/Cargo.toml") {
            let manifest: toml::Table =
                file.text.parse().with_context(|| format!("{} is not TOML", file.path))?;
            findings.extend(driver_findings(file, &manifest));
            if is_pure {
                findings.extend(pure_dependency_findings(file, &manifest, workspace));
            }
        }
    }
    Ok(findings)
}

fn driver_findings(file: &File, manifest: &toml::Table) -> Vec<String> {
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let is_forbidden =
        |name: &&String| file.path.starts_with("drivers/") && NOT_FOR_DRIVERS.contains(&name.as_str());
    let names = dependencies.into_iter().flat_map(toml::Table::keys).filter(is_forbidden);
    names
        .map(|name| file.finding(line_of(file, name), format!("a driver must not depend on {name}")))
        .collect()
}

/// The line on which a manifest names a dependency, from 1.
fn line_of(file: &File, name: &str) -> usize {
    file.text.lines().position(|line| line.starts_with(name)).unwrap_or(0) + 1
}

fn pure_dependency_findings(file: &File, manifest: &toml::Table, workspace: &toml::Table) -> Vec<String> {
    let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table) else {
        return Vec::new();
    };
    let shared = workspace.get("workspace").and_then(|table| table.get("dependencies"));
    let mut findings = Vec::new();
    for (name, own) in dependencies {
        let at = line_of(file, name);
        let from_workspace = own.get("workspace").and_then(toml::Value::as_bool) == Some(true);
        let Some(entry) = shared.and_then(|shared| shared.get(name)).filter(|_| from_workspace) else {
            findings.push(file.finding(at, format!("{name} must be named in the workspace's dependencies")));
            continue;
        };
        match entry.get("path").and_then(toml::Value::as_str) {
            Some(path) if path.starts_with("proto/") => {}
            Some(path) => findings.push(file.finding(at, format!("proto/ must not depend on {path}"))),
            None if entry.get("default-features").and_then(toml::Value::as_bool) == Some(false) => {}
            None => findings.push(file.finding(at, format!("{name} must be without its default features"))),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_dependency_that_the_table_does_not_permit_is_found() {
        let workspace = "[workspace.dependencies]\na = { path = \"proto/a\" }\nb = { path = \"services/b\" }\nserde = \"1\"\n";
        let map = "| Crate | What it is | May depend on |\n|---|---|---|\n| `proto/a` | x \\| y | nothing |\n\
                   | `apps/c` | z | `a`, `drivers/*` |\n\n| `apps/d` | not in the table | `a` |\n";
        let manifest = "[dependencies]\na.workspace = true\nb.workspace = true\nserde.workspace = true\n";
        let files = [
            file(MAP, map),
            file("proto/a/Cargo.toml", "[dependencies]\nserde.workspace = true\n"),
            file("apps/c/Cargo.toml", manifest),
            file("apps/d/Cargo.toml", manifest),
        ];
        let expected = [
            "apps/c/Cargo.toml:1: ARCHITECTURE.md does not permit a dependency on services/b",
            "ARCHITECTURE.md:1: the crate apps/d is not in the table of crates",
        ];
        assert_eq!(dependency_findings(&workspace.parse().unwrap(), &files).unwrap(), expected);
    }

    #[test]
    fn a_decision_without_a_status_and_with_a_lost_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here.rs"), "").unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        let text = "# 0001: x\n\nStatus: built. Modules: `a/`,\n`a/gone.rs`, `Type`.\n\nSee `b/gone.rs`.\n";
        let found = decision_findings(folder.path(), &file("docs/decisions/0001-x.md", text));
        assert_eq!(found, ["docs/decisions/0001-x.md:4: `a/gone.rs` does not exist"]);
        let found = decision_findings(folder.path(), &file("docs/decisions/0002-y.md", "# 0002: y\n"));
        assert_eq!(found, ["docs/decisions/0002-y.md:1: a decision needs a line `Status: …`"]);
        assert!(decision_findings(folder.path(), &file("docs/plan.md", "")).is_empty());
    }

    fn found(path: &str, manifest: &str) -> Vec<String> {
        let workspace = r#"
            [workspace.dependencies]
            ringway-sip = { path = "proto/sip" }
            ringway-srtp = { path = "proto/srtp" }
            ringway-linux = { path = "drivers/linux" }
            memchr = { version = "2", default-features = false }
            rand = "0.9"
        "#;
        let file = File { path: path.into(), text: manifest.into() };
        let manifest = manifest.parse().unwrap();
        let mut findings = driver_findings(&file, &manifest);
        if path.starts_with("proto/") {
            findings.extend(pure_dependency_findings(&file, &manifest, &workspace.parse().unwrap()));
        }
        findings
    }

    #[test]
    fn a_pure_crate_depends_on_pure_crates_only() {
        let good = "[dependencies]\nringway-sip.workspace = true\nmemchr.workspace = true\n";
        assert!(found("proto/server/Cargo.toml", good).is_empty());
        for bad in ["ringway-linux.workspace = true", "rand.workspace = true", "libc = \"0.2\""] {
            assert_eq!(
                found("proto/server/Cargo.toml", &format!("[dependencies]\n{bad}\n")).len(),
                1,
                "{bad}"
            );
        }
    }

    #[test]
    fn a_driver_has_no_runtime_and_no_database() {
        for bad in NOT_FOR_DRIVERS {
            let manifest = format!("[dependencies]\n{bad} = \"1\"\n");
            assert_eq!(found("drivers/linux/Cargo.toml", &manifest).len(), 1, "{bad}");
            assert!(found("apps/ringway/Cargo.toml", &manifest).is_empty(), "{bad}");
        }
    }

    #[test]
    fn unsafe_code_has_one_place() {
        let text = "// unsafe is only a word here\nlet a = \"unsafe\";\n#![forbid(unsafe_code)]\nlet b = unsafe { c() };\n";
        let file = |path: &str| File { path: path.into(), text: text.into() };
        assert_eq!(unsafe_findings(&file("apps/ringway/src/main.rs")).len(), 1);
        assert_eq!(unsafe_findings(&file("apps/metal/src/machine.rs")).len(), 1);
        assert!(unsafe_findings(&file("drivers/linux/src/sys/epoll.rs")).is_empty());
        assert!(unsafe_findings(&file("apps/metal/image/src/port.rs")).is_empty());
    }
}

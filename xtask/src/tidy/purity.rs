//! Rules for dependencies between crates and for the files with unsafe code.

use anyhow::{Context, Result};

use super::File;

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
                findings.extend(dependency_findings(file, &manifest, workspace));
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

fn dependency_findings(file: &File, manifest: &toml::Table, workspace: &toml::Table) -> Vec<String> {
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
            findings.extend(dependency_findings(&file, &manifest, &workspace.parse().unwrap()));
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

//! Rules for dependencies between crates and for the files with unsafe code.

use std::path::Path;

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

/// Forbidden dependencies: a folder, and how the names of the crates begin that no crate in it may depend on.
const FORBIDDEN: [(&str, &[&[&str]]); 18] = [
    ("proto/server", &[&["ringway-agent", "ringway-sdp"], CIPHERS]),
    ("proto/agent", &[&["ringway-server"], CIPHERS]),
    ("proto/phone", &[&["ringway-server", "ringway-transaction"]]),
    ("proto/load", &[&["ringway-server", "ringway-agent", "ringway-auth"]]),
    ("proto/media", &[SIGNALLING]),
    ("proto/srtp", &[SIGNALLING, &["ringway-zrtp", "ringway-media"]]),
    ("proto/zrtp", &[SIGNALLING, &["ringway-srtp", "ringway-media"]]),
    ("proto/sdp", &[SIGNALLING, CIPHERS]),
    (
        "proto/auth",
        &[
            &["ringway-transaction", "ringway-server", "ringway-agent", "ringway-sdp", "ringway-users"],
            CIPHERS,
        ],
    ),
    ("proto/users", &[&["ringway-transaction", "ringway-server", "ringway-agent", "ringway-sdp"], CIPHERS]),
    ("proto/stream", &[SIGNALLING, CIPHERS, &["ringway-sdp"]]),
    ("proto/datagram", &[SIGNALLING, CIPHERS, &["ringway-sdp"]]),
    ("proto/stun", &[SIGNALLING, CIPHERS, &["ringway-sdp"]]),
    ("proto/sip", &[&["ringway-"]]),
    ("proto/sansio", &[&["ringway-"]]),
    ("drivers", &[SIGNALLING, SERVICES, &["hyper", "rusqlite", "tokio"]]),
    ("services", &[SIGNALLING]),
    ("services/journal", &[&["ringway-"]]),
];

/// The crates of `proto/` that know SIP.
const SIGNALLING: &[&str] =
    &["ringway-sip", "ringway-transaction", "ringway-auth", "ringway-agent", "ringway-server"];
/// The crates of `proto/` that bring AES and elliptic curves.
const CIPHERS: &[&str] = &["ringway-srtp", "ringway-zrtp", "ringway-media"];
/// The crates of `services/`.
const SERVICES: &[&str] = &["ringway-admin", "ringway-journal", "ringway-store"];

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

/// Crates of `proto/` that could reach an operating system, and forbidden dependencies of other crates.
pub(super) fn crate_findings(root: &Path, files: &[File]) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(root.join("Cargo.toml")).context("cannot read the workspace's Cargo.toml")?;
    let workspace: toml::Table = text.parse().context("the workspace's Cargo.toml is not TOML")?;
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
            findings.extend(forbidden_findings(file, &manifest));
            if is_pure {
                findings.extend(dependency_findings(file, &manifest, &workspace));
            }
        }
    }
    Ok(findings)
}

fn forbidden_findings(file: &File, manifest: &toml::Table) -> Vec<String> {
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let is_forbidden = |name: &str| {
        FORBIDDEN
            .iter()
            .filter(|(folder, _)| file.path.starts_with(&format!("{folder}/")))
            .any(|(_, groups)| groups.iter().copied().flatten().any(|begin| name.starts_with(*begin)))
    };
    let names = dependencies.into_iter().flat_map(toml::Table::keys).filter(|name| is_forbidden(name));
    names
        .map(|name| file.finding(line_of(file, name), format!("this crate must not depend on {name}")))
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
        let mut findings = forbidden_findings(&file, &manifest);
        if path.starts_with("proto/") {
            findings.extend(dependency_findings(&file, &manifest, &workspace.parse().unwrap()));
        }
        findings
    }

    #[test]
    fn a_pure_crate_knows_pure_crates_only() {
        let good = "[dependencies]\nringway-sip.workspace = true\nmemchr.workspace = true\n";
        assert!(found("proto/server/Cargo.toml", good).is_empty());
        for bad in ["ringway-linux.workspace = true", "rand.workspace = true", "libc = \"0.2\""] {
            assert_eq!(
                found("proto/server/Cargo.toml", &format!("[dependencies]\n{bad}\n")).len(),
                1,
                "{bad}"
            );
        }
        let knows_sip = "[dependencies]\nringway-sip.workspace = true\n";
        for stranger in ["proto/sip", "proto/sdp", "proto/srtp", "proto/zrtp", "proto/media", "proto/sansio"]
        {
            assert_eq!(found(&format!("{stranger}/Cargo.toml"), knows_sip).len(), 1, "{stranger}");
        }
        assert!(found("proto/agent/Cargo.toml", knows_sip).is_empty());
        let knows_ciphers = "[dependencies]\nringway-srtp.workspace = true\n";
        for stranger in ["proto/agent", "proto/sdp", "proto/zrtp", "proto/server", "proto/users"] {
            assert_eq!(found(&format!("{stranger}/Cargo.toml"), knows_ciphers).len(), 1, "{stranger}");
        }
        assert!(found("proto/media/Cargo.toml", knows_ciphers).is_empty());
    }

    #[test]
    fn a_driver_knows_no_service_and_the_journal_no_crate_of_ours() {
        for bad in ["ringway-store.workspace = true", "tokio = \"1\"", "ringway-sip.workspace = true"] {
            let manifest = format!("[dependencies]\n{bad}\n");
            assert_eq!(found("drivers/linux/Cargo.toml", &manifest).len(), 1, "{bad}");
            assert!(found("apps/ringway/Cargo.toml", &manifest).is_empty(), "{bad}");
        }
        let knows_users = "[dependencies]\nringway-users.workspace = true\n";
        assert_eq!(found("services/journal/Cargo.toml", knows_users).len(), 1);
        assert!(found("services/store/Cargo.toml", knows_users).is_empty());
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

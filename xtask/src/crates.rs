//! Licences and sources of the crates, by the rules of `deny.toml`.
//!
//! `cargo deny` checks them where it is installed. Elsewhere this module reads `cargo metadata`, so that no run is without
//! the check. It has no advisories: their database is not on every machine.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::workspace::{cargo, first_line, root, succeed};

pub(crate) fn run() -> Result<()> {
    if first_line(&mut cargo(&["deny", "--version"])).is_some() {
        return succeed(&mut cargo(&["deny", "check", "bans", "licenses", "sources"]));
    }
    let rules: toml::Table = fs::read_to_string(root().join("deny.toml"))?.parse().context("deny.toml")?;
    let allowed = rules.get("licenses").and_then(|licenses| licenses.get("allow"));
    let allowed = allowed.and_then(toml::Value::as_array).context("deny.toml has no licenses.allow")?;
    let allowed: BTreeSet<&str> = allowed.iter().filter_map(toml::Value::as_str).collect();
    let mut findings = Vec::new();
    let mut count = 0;
    for manifest in ["Cargo.toml", "apps/metal/image/Cargo.toml"] {
        let output = cargo(&["metadata", "--format-version", "1", "--locked", "--manifest-path", manifest])
            .output()?;
        if !output.status.success() {
            bail!("`cargo metadata` failed for {manifest}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
        for package in metadata["packages"].as_array().into_iter().flatten() {
            count += 1;
            findings.extend(finding(package, &allowed));
        }
    }
    findings.sort();
    findings.dedup();
    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    println!(
        "crates: {count} with a permitted licence and source (cargo-deny is not installed: no advisories)"
    );
    Ok(())
}

/// Fault of one package of `cargo metadata`.
fn finding(package: &Value, allowed: &BTreeSet<&str>) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    match package["source"].as_str() {
        None | Some(CRATES_IO) => {}
        Some(other) => return Some(format!("{name}: the source {other} is not permitted (deny.toml)")),
    }
    // A crate with a file of its own instead of an expression is a decision of deny.toml's.
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} names no licence"));
    };
    let is_permitted = Licences { words: words(licence), allowed }.all();
    (!is_permitted).then(|| format!("{name}: {licence} is not in `licenses.allow` (deny.toml)"))
}

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Words and parentheses of an SPDX expression; `/` is an old form of OR.
fn words(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().rev().map(str::to_owned).collect()
}

/// Evaluation of an SPDX expression (SPDX 2.3, annex D): OR binds weaker than AND.
struct Licences<'a> {
    /// The rest of the expression, the next word last.
    words: Vec<String>,
    allowed: &'a BTreeSet<&'a str>,
}

impl Licences<'_> {
    /// True if the whole expression is permitted.
    fn all(mut self) -> bool {
        self.any() && self.words.is_empty()
    }

    fn any(&mut self) -> bool {
        let mut permitted = self.each();
        while self.take("OR") {
            permitted |= self.each();
        }
        permitted
    }

    fn each(&mut self) -> bool {
        let mut permitted = self.one();
        while self.take("AND") {
            permitted &= self.one();
        }
        permitted
    }

    fn one(&mut self) -> bool {
        let Some(word) = self.words.pop() else { return false };
        if word == "(" {
            return self.any() && self.take(")");
        }
        if self.take("WITH") {
            // An exception permits more, but is another text: it is not in the list.
            self.words.pop();
            return false;
        }
        self.allowed.contains(word.as_str())
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.last().is_some_and(|next| next == word);
        if is_next {
            self.words.pop();
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_permitted_by_the_list() {
        let allowed = BTreeSet::from(["MIT", "ISC"]);
        let permitted = |expression| Licences { words: words(expression), allowed: &allowed }.all();
        for good in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "ISC AND (GPL-3.0 OR MIT)", "A WITH B OR MIT"] {
            assert!(permitted(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT WITH X", "(MIT", "MIT)", "MIT ISC", "OR MIT"] {
            assert!(!permitted(bad), "{bad}");
        }
    }

    #[test]
    fn a_crate_from_elsewhere_or_without_a_licence_is_a_finding() {
        let allowed = BTreeSet::from(["MIT"]);
        let package = |source: Value, license: Value| {
            let package =
                serde_json::json!({"name": "a", "version": "1.0.0", "source": source, "license": license});
            finding(&package, &allowed)
        };
        assert_eq!(package(Value::Null, "MIT".into()), None);
        assert_eq!(package(CRATES_IO.into(), "MIT".into()), None);
        assert!(package("git+https://example.org/a".into(), "MIT".into()).is_some());
        assert!(package(CRATES_IO.into(), Value::Null).is_some());
        assert!(package(CRATES_IO.into(), "GPL-3.0".into()).is_some());
    }
}

//! Files of the server that a plain call enters: how much of it a reader, and a processor, has to go through.
//!
//! The server runs over memory in a build without optimization, where each function is one, under callgrind, which writes the
//! file of each function that was called.

use super::instructions::has_valgrind;
use super::without_sockets;
use anyhow::{Context, Result, bail};
use ringway_test_support::process::run_to_end;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use xtask::workspace::{cargo, succeed, target_dir};

/// Calls in a run: one is enough, and a few show what is done now and then.
const CALLS: &str = "8";

/// Folder of the server's sources.
const SERVER: &str = "proto/server/src/";

/// Prints the files that a call between two users enters, with every feature off, and their number; the REGISTERs before it do not
/// count.
///
/// # Errors
/// valgrind is missing, the program does not build or run, or more files are entered than [`FILES_MAX`] and [`PROXY_FILES_MAX`].
pub(super) fn run() -> Result<()> {
    has_valgrind()?;
    succeed(&mut cargo(&["build", "--workspace", "--example", without_sockets::PROGRAM]))?;
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let file = folder.path().join("call");
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--quiet",
        "--tool=callgrind",
        "--collect-atstart=no",
        "--toggle-collect=in_memory::calls",
    ]);
    valgrind.arg(format!("--callgrind-out-file={}", file.display()));
    valgrind.arg(target_dir().join("debug/examples").join(without_sockets::PROGRAM)).args(["call", CALLS]);
    run_to_end(&mut valgrind, "")?;
    let profile = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let entered = entered(&profile);
    let of_proxy = entered.iter().filter(|path| path.starts_with("proxy/")).count();
    entered.iter().for_each(|path| println!("{SERVER}{path}"));
    println!(
        "{} files of the server (must {FILES_MAX}), {of_proxy} of the proxy (must {PROXY_FILES_MAX})",
        entered.len()
    );
    if entered.len() > FILES_MAX || of_proxy > PROXY_FILES_MAX {
        bail!(
            "a plain call enters more of the server than it should: a stage that does not apply is to be left out"
        );
    }
    Ok(())
}

/// Files below [`SERVER`] in a profile of callgrind. `fl`, `fi` and `fe` begin what was executed in a file; a name is written once, with
/// a number.
fn entered(profile: &str) -> BTreeSet<String> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut files = BTreeSet::new();
    for line in profile.lines() {
        let Some((kind, rest)) = line.split_once("=(") else { continue };
        let Some((number, name)) = rest.split_once(')') else { continue };
        if !matches!(kind, "fl" | "fi" | "fe" | "cfi" | "cfl") {
            continue;
        }
        if let Some(name) = name.strip_prefix(' ') {
            names.insert(number, name);
        }
        if matches!(kind, "fl" | "fi" | "fe")
            && let Some((_, path)) = names.get(number).and_then(|name| name.split_once(SERVER))
        {
            files.insert(path.to_owned());
        }
    }
    files
}

/// Maximum number of files of the server.
const FILES_MAX: usize = 55;
/// Maximum number of files of the proxy.
const PROXY_FILES_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_executed_functions_are_found_and_those_of_others_are_not() {
        let profile = "fl=(1) /w/proto/server/src/proxy/fork.rs\nfn=(1) fork\n4 10\ncfi=(2) /w/proto/server/src/dialog/edge.rs\n\
                       cfn=(2) part\ncalls=1 9\n4 3\nfi=(3) /w/proto/sip/src/uri.rs\n1 1\nfe=(1)\n2 2\n";
        assert_eq!(entered(profile), BTreeSet::from(["proxy/fork.rs".to_owned()]));
    }
}

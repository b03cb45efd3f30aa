//! Runs cargo with its messages as JSON, and counts what it compiled; checks that `proto/` and the crates of the image build
//! without an operating system.
//!
//! A file of the target folder has each compilation once: what was compiled, by which step, with which features. Two
//! entries for one crate that differ in nothing but features are a waste of time.
//!
//! A crate with its own panic handler that uses all of them is checked: any dependency on std would add a second handler
//! (E0152). It has the profile and the target of the image, so that both share what they compile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::image;
use xtask::workspace::{cargo, root, shown, target_dir};

/// The step that compiles first.
const FIRST: &str = "build";

/// A test program that cargo built.
pub(crate) struct Built {
    /// Package, kind and name: `ringway test ringway`.
    pub(crate) name: String,
    /// `test` for integration tests, `lib`, `bin`.
    pub(crate) kind: String,
    /// Folder of the package.
    pub(crate) folder: PathBuf,
    pub(crate) program: PathBuf,
}

/// Runs cargo, records what it compiles for `step`, and returns the programs that it built.
///
/// # Errors
/// Cargo fails; its messages were printed.
pub(crate) fn run(step: &str, command: &mut Command) -> Result<Vec<Built>> {
    let shown = shown(command);
    // Words after `--` are not cargo's.
    let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let place = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut cargo = Command::new(command.get_program());
    cargo.args(&words[..place]).arg("--message-format=json-render-diagnostics").args(&words[place..]);
    if let Some(folder) = command.get_current_dir() {
        cargo.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => cargo.env(name, value),
            None => cargo.env_remove(name),
        };
    }
    let mut child =
        cargo.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{shown}`"))?;
    let output = child.stdout.take().context("cargo has an output")?;
    let mut built = Vec::new();
    let mut entries = String::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            println!("{line}");
            continue;
        };
        if message["reason"] == "compiler-artifact" && !is_documentation(&message) {
            entries.push_str(&entry(step, &message));
            built.extend(program(&message));
        }
    }
    let status = child.wait()?;
    fs::create_dir_all(target_dir().join("ci"))?;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(record())?;
    file.write_all(entries.as_bytes())?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(built)
}

/// Forgets what was recorded.
pub(crate) fn forget() {
    let _ = fs::remove_file(record());
}

/// Prints the number of recorded compilations.
///
/// # Errors
/// A crate was compiled with two sets of features where one would do.
pub(crate) fn check() -> Result<()> {
    let Ok(text) = fs::read_to_string(record()) else { return Ok(()) };
    let mut features: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut new = BTreeSet::new();
    for line in text.lines() {
        let mut parts = line.split('\t');
        if let (Some(state), Some(what), Some(with)) = (parts.next(), parts.next(), parts.next()) {
            features.entry(what).or_default().insert(with);
            if state == "new" {
                new.insert((what, with));
            }
        }
    }
    println!("compilations: {}", new.len());
    let twice: Vec<String> = features
        .iter()
        .filter(|(_, with)| with.len() > 1)
        .map(|(what, with)| format!("{what}: {}", with.iter().copied().collect::<Vec<_>>().join(" and ")))
        .collect();
    if !twice.is_empty() {
        bail!("compiled with different features:\n  {}", twice.join("\n  "));
    }
    Ok(())
}

fn record() -> PathBuf {
    target_dir().join("ci/compilations.tsv")
}

/// A line of the record: what was compiled, and behind a tab its features.
fn entry(step: &str, message: &Value) -> String {
    let target = &message["target"];
    let profile = &message["profile"];
    // Compilations for this program, before the first step, count as those of that step.
    let is_new = message["fresh"] == false || step == FIRST;
    format!(
        "{}\t{step} {} {} {} {} {} {}\t{}\n",
        if is_new { "new" } else { "fresh" },
        message["package_id"].as_str().unwrap_or_default(),
        target["kind"],
        target["name"].as_str().unwrap_or_default(),
        profile["opt_level"].as_str().unwrap_or_default(),
        profile["debuginfo"],
        profile["test"],
        message["features"]
    )
}

/// True for what rustdoc made; it is not a run of the compiler.
fn is_documentation(message: &Value) -> bool {
    message["filenames"][0].as_str().is_some_and(|file| file.ends_with("index.html"))
}

/// A program that the message announces.
fn program(message: &Value) -> Option<Built> {
    let program = PathBuf::from(message["executable"].as_str()?);
    let target = &message["target"];
    let kind = target["kind"][0].as_str()?.to_owned();
    let is_test = message["profile"]["test"] == true;
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let name = format!("{package} {kind} {}", target["name"].as_str()?);
    is_test.then_some(Built { name, kind, folder, program })
}

/// Folders of the crates outside `proto/` that must also build without std.
const PURE_ELSEWHERE: [&str; 5] =
    ["apps/metal", "apps/settings", "apps/ui", "drivers/ethernet", "services/tls-bare"];

pub(crate) fn check_purity() -> Result<()> {
    let crates = pure_crates()?;
    let folder = target_dir().join("purity");
    std::fs::create_dir_all(folder.join("src"))?;
    let mut manifest = String::from(
        "[package]\nname = \"purity\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n",
    );
    let mut code = String::from("#![no_std]\n");
    for (name, path) in &crates {
        writeln!(manifest, "{name} = {{ path = {path:?} }}")?;
        writeln!(code, "use {} as _;", name.replace('-', "_"))?;
    }
    manifest.push_str(&image::profiles()?);
    code.push_str("#[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {\n    loop {}\n}\n");
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    std::fs::write(folder.join("src/lib.rs"), code)?;
    // The same versions as the workspace's, so that nothing is resolved again.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut check = cargo(&["check", "--quiet", "--offline"]);
    check.args(image::CHECK).current_dir(&folder).arg("--target-dir").arg(image::target_folder());
    run("purity", &mut check).context("a dependency uses std (E0152 names it)")?;
    println!("purity: no dependency of {} crates uses std", crates.len());
    Ok(())
}

/// Name and folder of every crate in `proto/`, and of the others that must build without std.
fn pure_crates() -> Result<Vec<(String, String)>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root().join("proto")).context("cannot read the folder proto")? {
        folders.push(entry?.path());
    }
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    if folders.is_empty() {
        bail!("there is no crate in proto/");
    }
    folders.extend(PURE_ELSEWHERE.map(|folder| root().join(folder)));
    let mut crates = Vec::new();
    for folder in folders {
        let text = std::fs::read_to_string(folder.join("Cargo.toml"))
            .with_context(|| format!("cannot read {}/Cargo.toml", folder.display()))?;
        let manifest: toml::Table =
            text.parse().with_context(|| format!("{}/Cargo.toml", folder.display()))?;
        let name =
            manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        let name = name.with_context(|| format!("{}/Cargo.toml names no package", folder.display()))?;
        crates.push((name.to_owned(), folder.display().to_string()));
    }
    crates.sort();
    Ok(crates)
}

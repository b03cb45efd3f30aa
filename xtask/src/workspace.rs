//! Root of the workspace, and execution of its tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Root folder of the workspace: the parent of this crate's folder.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo, run in the root folder.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Cargo's target folder.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Runs a command with its output shown.
///
/// # Errors
/// It cannot be started, or fails.
pub fn succeed(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Form of the program `ringway`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As users have it.
    Release,
    /// As `cargo test --workspace` makes it.
    Debug,
}

/// Builds the program `ringway`.
///
/// # Errors
/// It does not build.
pub fn built_server(form: Form) -> Result<PathBuf> {
    println!("building ringway");
    let (words, folder): (&[&str], _) = match form {
        Form::Release => (&["--release", "--package", "ringway"], "release"),
        // The features of the whole workspace, so that all crates are those of its tests.
        Form::Debug => (&["--workspace", "--bin", "ringway"], "debug"),
    };
    succeed(cargo(&["build", "--quiet"]).args(words))?;
    let program = target_dir().join(folder).join("ringway");
    program.is_file().then_some(program).with_context(|| format!("cargo built no {folder}/ringway"))
}

/// First line of a command's output; `None` if it cannot be run or fails.
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next().unwrap_or_default().to_owned())
}

/// True if a program of this name is in the path.
pub fn has_program(name: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A command as a line of text.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    if let Some(first) = words.first_mut()
        && let Some(name) = Path::new(first.as_str()).file_name()
    {
        *first = name.to_string_lossy().into_owned();
    }
    words.join(" ")
}

//! Programs of others that a test needs, and the program of the test itself.

use std::io::Write as _;

/// True if `program` is in the path. Otherwise a line says that the test is skipped, and which Debian `package` it lacks.
///
/// # Panics
/// The program is missing and the variable `CI` is set: a run of all checks must skip nothing.
pub fn has(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        return true;
    }
    let test = std::thread::current();
    let test = test.name().unwrap_or_default();
    let why = format!("skipped: {test}: {program} is not installed (`apt-get install {package}`)");
    assert!(std::env::var_os("CI").is_none(), "{why}");
    // Past the capture of output, which only a failed test shows.
    let _ = writeln!(std::io::stderr(), "{why}");
    false
}

/// Runs an ignored test of this program in a process of its own: it counts what belongs to a whole process.
///
/// # Panics
/// The test fails, or there is none of this name.
#[track_caller]
pub fn run_alone(test: &str) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

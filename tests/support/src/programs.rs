//! Programs of others that a test needs.

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

//! Files with a password.

use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Password in the first line of a file that others cannot read; the error is what is wrong, and the remedy.
pub(super) fn read(file: &str) -> Result<String, String> {
    match lines(file)?.into_iter().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line),
        None => Err("is empty; write the password into its first line".to_owned()),
    }
}

/// Lines of such a file.
pub(super) fn lines(file: &str) -> Result<Vec<String>, String> {
    let unreadable = |error| format!("cannot be read: {error}; check the path");
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if metadata.len() > PASSWORD_BYTES_MAX || !metadata.is_file() {
        return Err("is no file of at most 1 KiB; give one with the password, or secret, in its first line"
            .to_owned());
    }
    if metadata.permissions().mode() & 0o007 != 0 {
        return Err(format!("is open to every user of this machine; run `chmod o= {file}`"));
    }
    let text = fs::read_to_string(file).map_err(unreadable)?;
    Ok(text.lines().map(str::to_owned).collect())
}

const PASSWORD_BYTES_MAX: u64 = 1024;

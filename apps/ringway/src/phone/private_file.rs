//! Files that hold secrets: written whole, and read only if nobody else can.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Its owner reads and writes it, nobody else.
pub(crate) const MODE: u32 = 0o600;

/// Replaces the content of `file` by `bytes` atomically.
pub(crate) fn replace(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    // One that a crash left behind could be open to others, or a link to somewhere.
    match fs::remove_file(fresh) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut open = OpenOptions::new().write(true).create_new(true).mode(mode).open(fresh)?;
    open.write_all(bytes)?;
    open.sync_all()?;
    fs::rename(fresh, file)
}

/// Reads a file of at most `bytes_max`, `None` where there is none. The error is one line; `what` says what it should hold.
pub(crate) fn read(file: &Path, what: &str, bytes_max: u64) -> Result<Option<String>, String> {
    let name = file.display();
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::InvalidData => format!("{name}: {what} is not valid UTF-8; save the file as UTF-8"),
        _ => format!("{name}: cannot read {what}: {error}; check the file"),
    };
    let open = match File::open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    // Asked of the open file: its name could be another file's by now.
    let mode = open.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!("{name}: others may read {what} (mode {mode:o}); run chmod 600 {name}"));
    }
    let mut text = String::new();
    open.take(bytes_max + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > bytes_max {
        return Err(format!("{name}: longer than {bytes_max} bytes; give the file that holds {what}"));
    }
    Ok(Some(text))
}

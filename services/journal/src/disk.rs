//! File operations of a journal behind a trait, so that tests can make each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Flags for opening a file of the journal. A symbolic link in its position would redirect writes to another file.
const FLAGS: libc::c_int = libc::O_NOFOLLOW;

/// File system of the journal.
pub trait Disk: Send + Sync + 'static {
    /// Creates an empty file; truncates an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for appending, truncated to `length` bytes.
    fn append_to(&self, path: &Path, length: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Adds a second name to an existing file, which keeps its content when the first name is removed.
    fn keep(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes the names in `folder` (created, renamed, removed) durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file open for appending.
pub trait DiskFile: Send {
    /// Appends all of `bytes`. After an error any part of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the appended bytes durable.
    fn sync(&mut self) -> io::Result<()>;

    /// Truncates the file to `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// Local file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(FLAGS).open(path)?;
        file.set_len(0)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn append_to(&self, path: &Path, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = open_to_write(path)?;
        file.set_len(length)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn keep(&self, from: &Path, to: &Path) -> io::Result<()> {
        if fs::hard_link(from, to).is_ok() {
            return Ok(());
        }
        // The file system may not support hard links.
        let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
        io::copy(&mut open_to_read(from)?, &mut copy)?;
        copy.sync_all()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

/// Opens an existing file of the journal for reading.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(FLAGS).open(path)
}

/// Opens an existing file of the journal for appending.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).custom_flags(FLAGS).open(path)
}

/// Opens the lock file against a second server; creates it if necessary.
pub(crate) fn open_to_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).custom_flags(FLAGS).open(path)
}

struct LocalFile(File);

impl DiskFile for LocalFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

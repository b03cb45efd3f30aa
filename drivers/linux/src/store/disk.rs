//! The few things the journal asks of a disk, as a trait, so that a test can make each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A place for the journal's files.
pub trait Disk: Send + Sync + 'static {
    /// A new, empty file; one that is there already is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// An existing file, cut to its first `length` bytes, for appending.
    fn append_to(&self, path: &Path, length: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another's name, in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns once the names in `folder` (created, renamed, removed) are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file open for appending.
pub trait DiskFile: Send {
    /// Adds all of `bytes` at the end. After an error any part of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns once what was appended is on the disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Forgets everything after the first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// The machine's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.set_len(0)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn append_to(&self, path: &Path, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_len(length)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
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

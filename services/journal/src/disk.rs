//! The file operations of a journal, as a trait, so that a test can make each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Flags for opening a file of the journal: a symbolic link in its place would lead writes to another file.
const FLAGS: libc::c_int = libc::O_NOFOLLOW;

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

    /// Gives an existing file a second name, under which it stays as it is when the first is removed.
    fn keep(&self, from: &Path, to: &Path) -> io::Result<()>;

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
        let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(FLAGS).open(path)?;
        file.set_len(0)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn append_to(&self, path: &Path, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().append(true).custom_flags(FLAGS).open(path)?;
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
        // Not every file system has links.
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

/// Opens the file that keeps a second server off, and makes it if there is none.
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

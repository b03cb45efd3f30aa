//! A disk with real files that fails on demand and simulates power failures.

use ringway_journal::{Disk, DiskFile, LocalDisk};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Fault of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Every write fails with a full disk after half of its bytes.
    Full,
    /// Every write fails with an I/O error.
    Write,
    /// Every sync fails.
    Sync,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    is_hung: bool,
    is_dead: bool,
    steps_left: Option<u64>,
    syncs: u64,
    /// By path: bytes written, bytes synced.
    files: BTreeMap<PathBuf, (u64, u64)>,
}

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct FakeDisk {
    state: Arc<(Mutex<State>, Condvar)>,
}

impl FakeDisk {
    /// Creates a disk that works.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Makes operations fail with `fault`.
    pub(crate) fn fail(&self, fault: Fault) {
        self.state.0.lock().unwrap().fault = Some(fault);
    }

    /// Makes writes block.
    pub(crate) fn hang(&self) {
        self.state.0.lock().unwrap().is_hung = true;
    }

    /// Ends faults and blocked writes.
    pub(crate) fn mend(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.fault = None;
        state.is_hung = false;
        self.state.1.notify_all();
    }

    /// Discards all operations after `steps` more.
    pub(crate) fn die_after(&self, steps: u64) {
        self.state.0.lock().unwrap().steps_left = Some(steps);
    }

    /// Discards all further operations.
    pub(crate) fn die(&self) {
        self.state.0.lock().unwrap().is_dead = true;
    }

    /// True once operations are discarded.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.0.lock().unwrap().is_dead
    }

    /// Syncs that succeeded.
    pub(crate) fn syncs(&self) -> u64 {
        self.state.0.lock().unwrap().syncs
    }

    /// Bytes that a power failure could lose.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.state.0.lock().unwrap().files.values().map(|(written, synced)| written - synced).sum()
    }

    /// Removes unsynced bytes from each file: all, half or none, by `choice`.
    pub(crate) fn lose_power(&self, choice: u64) {
        for (path, (written, synced)) in &self.state.0.lock().unwrap().files {
            let lost = (written - synced) * (choice % 3) / 2;
            if let Ok(file) = fs::File::options().write(true).open(path) {
                file.set_len(written - lost).unwrap();
            }
        }
    }

    /// Counts one operation; an error if it must not happen. The lock is held meanwhile, so that power does not fail in
    /// the middle.
    fn step(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state.0.lock().unwrap();
        while state.is_hung && !state.is_dead {
            state = self.state.1.wait(state).unwrap();
        }
        if let Some(left) = &mut state.steps_left {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => state.is_dead = true,
            }
        }
        let is_dead = state.is_dead;
        if !is_dead {
            return Ok(state);
        }
        drop(state);
        // After a power failure nothing handles an error, and there is no orderly stop.
        assert!(std::thread::current().name() != Some("journal"), "the power is gone");
        Err(io::Error::other("the power is gone"))
    }

    fn wrap(&self, path: &Path, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FakeFile { disk: self.clone(), path: path.to_owned(), inner })
    }
}

impl Disk for FakeDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.step()?;
        let inner = LocalDisk.create(path)?;
        state.files.insert(path.to_owned(), (0, 0));
        Ok(self.wrap(path, inner))
    }

    fn append_to(&self, path: &Path, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.step()?;
        let inner = LocalDisk.append_to(path, length)?;
        state.files.insert(path.to_owned(), (length, length));
        Ok(self.wrap(path, inner))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        LocalDisk.rename(from, to)?;
        if let Some(lengths) = state.files.remove(from) {
            state.files.insert(to.to_owned(), lengths);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        LocalDisk.remove(path)?;
        state.files.remove(path);
        Ok(())
    }

    fn keep(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _state = self.step()?;
        LocalDisk.keep(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let _state = self.step()?;
        LocalDisk.sync_folder(folder)
    }
}

struct FakeFile {
    disk: FakeDisk,
    path: PathBuf,
    inner: Box<dyn DiskFile>,
}

impl DiskFile for FakeFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.step()?;
        let (reaches, end) = match state.fault {
            Some(Fault::Full) => (bytes.len() / 2, Err(ErrorKind::StorageFull.into())),
            Some(Fault::Write) => (bytes.len() / 2, Err(io::Error::other("a bad sector"))),
            Some(Fault::Sync) | None => (bytes.len(), Ok(())),
        };
        self.inner.append(&bytes[..reaches])?;
        if let Some((written, _)) = state.files.get_mut(&self.path) {
            *written += reaches as u64;
        }
        end
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.step()?;
        if state.fault == Some(Fault::Sync) {
            return Err(io::Error::other("the sync failed"));
        }
        if let Some((written, synced)) = state.files.get_mut(&self.path) {
            *synced = *written;
        }
        state.syncs += 1;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.disk.step()?;
        self.inner.cut(length)?;
        if let Some((written, synced)) = state.files.get_mut(&self.path) {
            *written = length;
            *synced = length.min(*synced);
        }
        Ok(())
    }
}

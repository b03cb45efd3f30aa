//! A disk of real files that fails on demand and knows what would be lost without power.

use ringway_linux::store::{Disk, DiskFile, LocalDisk};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Every write finds the disk full after half of its bytes.
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
    /// A disk that works.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// From now on `fault` happens.
    pub(crate) fn fail(&self, fault: Fault) {
        self.state.0.lock().unwrap().fault = Some(fault);
    }

    /// From now on writes do not return.
    pub(crate) fn hang(&self) {
        self.state.0.lock().unwrap().is_hung = true;
    }

    /// It works again.
    pub(crate) fn mend(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.fault = None;
        state.is_hung = false;
        self.state.1.notify_all();
    }

    /// After `steps` more operations nothing reaches the disk.
    pub(crate) fn die_after(&self, steps: u64) {
        self.state.0.lock().unwrap().steps_left = Some(steps);
    }

    /// From now on nothing reaches the disk.
    pub(crate) fn die(&self) {
        self.state.0.lock().unwrap().is_dead = true;
    }

    /// True once nothing reaches the disk.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.0.lock().unwrap().is_dead
    }

    /// Syncs that succeeded.
    pub(crate) fn syncs(&self) -> u64 {
        self.state.0.lock().unwrap().syncs
    }

    /// Bytes that a loss of power could take.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.state.0.lock().unwrap().files.values().map(|(written, synced)| written - synced).sum()
    }

    /// Takes from each file what was not synced: all of it, half of it, or none, by `choice`.
    pub(crate) fn lose_power(&self, choice: u64) {
        for (path, (written, synced)) in &self.state.0.lock().unwrap().files {
            let lost = (written - synced) * (choice % 3) / 2;
            if let Ok(file) = fs::File::options().write(true).open(path) {
                file.set_len(written - lost).unwrap();
            }
        }
    }

    /// One operation: may it happen?
    fn step(&self) -> io::Result<()> {
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
        drop(state);
        // Without power there is nobody to handle an error, and no orderly stop.
        assert!(!(is_dead && std::thread::current().name() == Some("store")), "the power is gone");
        if is_dead { Err(io::Error::other("the power is gone")) } else { Ok(()) }
    }

    fn fault(&self) -> Option<Fault> {
        self.state.0.lock().unwrap().fault
    }

    fn wrap(&self, path: &Path, inner: Box<dyn DiskFile>, length: u64) -> Box<dyn DiskFile> {
        self.state.0.lock().unwrap().files.insert(path.to_owned(), (length, length));
        Box::new(FakeFile { disk: self.clone(), path: path.to_owned(), inner })
    }
}

impl Disk for FakeDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step()?;
        Ok(self.wrap(path, LocalDisk.create(path)?, 0))
    }

    fn append_to(&self, path: &Path, length: u64) -> io::Result<Box<dyn DiskFile>> {
        self.step()?;
        Ok(self.wrap(path, LocalDisk.append_to(path, length)?, length))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        LocalDisk.rename(from, to)?;
        let mut state = self.state.0.lock().unwrap();
        if let Some(lengths) = state.files.remove(from) {
            state.files.insert(to.to_owned(), lengths);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        LocalDisk.remove(path)?;
        self.state.0.lock().unwrap().files.remove(path);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step()?;
        LocalDisk.sync_folder(folder)
    }
}

struct FakeFile {
    disk: FakeDisk,
    path: PathBuf,
    inner: Box<dyn DiskFile>,
}

impl FakeFile {
    fn note(&self, change: impl FnOnce(&mut (u64, u64))) {
        if let Some(lengths) = self.disk.state.0.lock().unwrap().files.get_mut(&self.path) {
            change(lengths);
        }
    }
}

impl DiskFile for FakeFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let half = &bytes[..bytes.len() / 2];
        let stopped = match (self.disk.step(), self.disk.fault()) {
            (Err(error), _) => error,
            (Ok(()), Some(Fault::Full)) => ErrorKind::StorageFull.into(),
            (Ok(()), Some(Fault::Write)) => io::Error::other("a bad sector"),
            (Ok(()), Some(Fault::Sync) | None) => {
                self.inner.append(bytes)?;
                self.note(|lengths| lengths.0 += bytes.len() as u64);
                return Ok(());
            }
        };
        self.inner.append(half)?;
        self.note(|lengths| lengths.0 += half.len() as u64);
        Err(stopped)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.step()?;
        if self.disk.fault() == Some(Fault::Sync) {
            return Err(io::Error::other("the sync failed"));
        }
        self.note(|lengths| lengths.1 = lengths.0);
        self.disk.state.0.lock().unwrap().syncs += 1;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.disk.step()?;
        self.inner.cut(length)?;
        self.note(|lengths| *lengths = (length, lengths.1.min(length)));
        Ok(())
    }
}

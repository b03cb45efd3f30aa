//! Output of a program: in a file, or read from a pipe continuously so that the program does not block.

use std::fs::{File, OpenOptions};
use std::io::{Read, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

/// Standard output or standard error of a program.
pub(super) enum Output {
    File(File),
    Pipe { bytes: Arc<Mutex<Vec<u8>>>, reader: JoinHandle<()> },
}

impl Output {
    /// An output in a new file, and the file for the program.
    pub(super) fn in_file(path: &Path) -> Result<(Self, File)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok((Self::File(file.try_clone()?), file))
    }

    pub(super) fn of_pipe(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let to = bytes.clone();
        let reader = spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                to.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self::Pipe { bytes, reader }
    }

    /// True if nothing can follow from a program that has ended.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Pipe { reader, .. } => reader.is_finished(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::File(file) => read_all(file).unwrap_or_default(),
            Self::Pipe { bytes, .. } => bytes.lock().unwrap().clone(),
        }
    }

    /// Complete lines.
    pub(super) fn lines(&self) -> String {
        let bytes = self.bytes();
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// The whole file. It does not move the position, which is also that of the program.
fn read_all(file: &File) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or_default()];
    let mut filled = 0;
    while let count @ 1.. = file.read_at(&mut bytes[filled..], filled as u64)? {
        filled += count;
    }
    bytes.truncate(filled);
    Ok(bytes)
}

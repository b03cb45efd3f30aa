//! File of records, one line each.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File that lines are appended to. A line is whole or absent: what a failed write has left is removed.
///
/// The file may be renamed or removed while it is open, as a rotation of logs does: the next lines go into a new one.
///
/// With a limit there are at most two files, `FILE` and the older `FILE.1`, each of at most half of it. `FILE.1` is replaced when
/// `FILE` is full.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    older: PathBuf,
    file: Option<File>,
    /// Maximum length of one file.
    len_max: Option<u64>,
    removed: u64,
}

impl RecordFile {
    /// Opens the file; creates it, readable by its owner only, if necessary. `bytes_max`: of it and the older one.
    ///
    /// # Errors
    /// It cannot be opened for writing, or is no regular file.
    pub fn open(path: &Path, bytes_max: Option<u64>) -> io::Result<Self> {
        Ok(Self { file: Some(open(path)?), ..Self::closed(path, bytes_max) })
    }

    /// Checks that [`RecordFile::open`] would open the file, without changing it.
    ///
    /// # Errors
    /// As [`RecordFile::open`].
    pub fn check(path: &Path) -> io::Result<()> {
        check_is_regular(path)?;
        match OpenOptions::new().read(true).append(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                // It has no name, and is gone when it is closed.
                tempfile::tempfile_in(folder.unwrap_or_else(|| Path::new("."))).map(drop)
            }
            opened => opened.map(drop),
        }
    }

    /// The file, which the first lines open.
    pub fn closed(path: &Path, bytes_max: Option<u64>) -> Self {
        let mut older = path.as_os_str().to_owned();
        older.push(".1");
        let len_max = bytes_max.map(|bytes| bytes / 2);
        Self { path: path.to_owned(), older: older.into(), file: None, len_max, removed: 0 }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file; the next lines open it again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Number of older files that were replaced because of the limit.
    pub const fn removed(&self) -> u64 {
        self.removed
    }

    /// Appends whole lines, or nothing. Lines that together are longer than half of the limit exceed it by that.
    ///
    /// # Errors
    /// The file cannot be opened, rotated or written.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take().filter(|file| is_at(file, &self.path)) {
            Some(file) => file,
            None => open(&self.path)?,
        };
        let mut end = file.metadata()?.len();
        if end > 0 && self.len_max.is_some_and(|max| end + lines.len() as u64 > max) {
            let replaces = self.older.exists();
            fs::rename(&self.path, &self.older)?;
            self.removed += u64::from(replaces);
            file = open(&self.path)?;
            end = file.metadata()?.len();
        }
        match file.write_all(lines) {
            Ok(()) => {
                self.file = Some(file);
                Ok(())
            }
            Err(error) => {
                // If this fails too, the half line is removed when the file is opened again.
                let _ = file.set_len(end);
                Err(error)
            }
        }
    }
}

/// True if the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(found)) => (open.dev(), open.ino()) == (found.dev(), found.ino()),
        (Ok(_) | Err(_), _) => false,
    }
}

/// A FIFO would block, and a device has no lines to cut.
fn check_is_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        false => Ok(()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    check_is_regular(path)?;
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    end_last_line(&mut file)?;
    Ok(file)
}

/// Removes the half line that a crash has left; a line that this program did not write is ended instead.
fn end_last_line(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    let start = len.saturating_sub(TAIL_BYTES);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let line = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    match tail.get(line..) {
        None | Some([]) => Ok(()),
        Some(half) if half.starts_with(b"{\"n\":") => file.set_len(start + line as u64),
        Some(_) => file.write_all(b"\n"),
    }
}

/// Longer than any record.
const TAIL_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn lines_follow_the_path_of_a_rotated_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("calls.jsonl"), folder.path().join("calls.jsonl.1"));
        let mut file = RecordFile::open(&path, None).unwrap();
        file.append(b"1\n").unwrap();
        fs::rename(&path, &old).unwrap();
        file.append(b"2\n").unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("1\n", "2\n"));
        fs::remove_file(&path).unwrap();
        file.append(b"3\n").unwrap();
        assert_eq!(read(&path), "3\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn two_files_of_half_the_limit_have_the_newest_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("calls.jsonl"), folder.path().join("calls.jsonl.1"));
        let mut file = RecordFile::open(&path, Some(64)).unwrap();
        let line = |number: u32| format!("{number:015}\n");
        for number in 0..20 {
            file.append(line(number).as_bytes()).unwrap();
            let len = |path| fs::metadata(path).map_or(0, |found| found.len());
            assert!(len(&path) <= 32 && len(&old) <= 32);
        }
        assert_eq!((read(&old), read(&path)), (line(16) + &line(17), line(18) + &line(19)));
        assert_eq!(file.removed(), 8);
        // The length counts from the file, so a restart changes nothing; other programs may rotate too.
        let mut file = RecordFile::open(&path, Some(64)).unwrap();
        file.append(line(20).as_bytes()).unwrap();
        assert_eq!((read(&old), read(&path)), (line(18) + &line(19), line(20)));
        fs::remove_file(&path).unwrap();
        file.append(line(21).as_bytes()).unwrap();
        assert_eq!((read(&path), file.removed()), (line(21), 1));
    }

    #[test]
    fn a_rotation_that_fails_loses_no_line_and_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("calls.jsonl"), folder.path().join("calls.jsonl.1"));
        let mut file = RecordFile::open(&path, Some(8)).unwrap();
        fs::create_dir(&old).unwrap();
        file.append(b"one\n").unwrap();
        assert!(file.append(b"two\n").is_err());
        assert_eq!((read(&path).as_str(), file.removed()), ("one\n", 0));
        fs::remove_dir(&old).unwrap();
        file.append(b"two\n").unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("one\n", "two\n"));
    }

    #[test]
    fn a_vanished_folder_is_an_error_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("records");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("calls.jsonl");
        let mut file = RecordFile::open(&path, None).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        assert_eq!(file.append(b"1\n").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&inner).unwrap();
        file.append(b"1\n").unwrap();
        assert_eq!(read(&path), "1\n");
    }

    #[test]
    fn the_half_line_of_a_crash_is_removed_and_a_foreign_one_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        for (before, after) in [
            ("{\"n\":1}\n{\"n\":2,\"call", "{\"n\":1}\nnew\n"),
            ("{\"n\":2,\"call", "new\n"),
            ("notes of somebody", "notes of somebody\nnew\n"),
            ("", "new\n"),
        ] {
            fs::write(&path, before).unwrap();
            RecordFile::open(&path, None).unwrap().append(b"new\n").unwrap();
            assert_eq!(read(&path), after);
        }
        assert_eq!(
            RecordFile::open(Path::new("/dev/null"), None).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }

    const LIMITED: &str = "RECORD_FILE_LIMITED";

    /// The limit of the shell is 1 block of 512 or 1,024 bytes; the file is the disk that becomes full.
    #[test]
    fn a_full_disk_leaves_no_half_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        if let Some(path) = std::env::var_os(LIMITED) {
            let mut file = RecordFile::open(Path::new(&path), None).unwrap();
            let line = [vec![b'x'; 299], vec![b'\n']].concat();
            let written = (0..20).take_while(|_| file.append(&line).is_ok()).count();
            assert!(written == 1 || written == 3, "{written}");
            assert!(file.append(&line).is_err(), "still full");
            return;
        }
        let program = std::env::current_exe().unwrap();
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" --exact \"$1\""])
            .arg(program)
            .arg("record_file::tests::a_full_disk_leaves_no_half_line")
            .env(LIMITED, &path)
            // The limit holds for a file that this test's own output goes to, too.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let text = read(&path);
        assert!(text.len().is_multiple_of(300) && text.ends_with('\n'), "{}", text.len());
        RecordFile::open(&path, None).unwrap().append(b"room again\n").unwrap();
        assert!(read(&path).ends_with("\nroom again\n"));
    }
}

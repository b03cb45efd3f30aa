//! Writing of certificates and keys.

use crate::failure::Failure;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Its owner only.
    Owner,
    /// Everybody may read it, as far as the umask permits.
    Public,
}

/// File that is to be written.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    text: String,
    access: Access,
    content: String,
    /// End of its validity, in seconds since 1970.
    not_after: Option<i64>,
}

impl NewFile {
    pub(super) fn key(path: PathBuf, text: String, content: impl Into<String>) -> Self {
        Self { path, text, access: Access::Owner, content: content.into(), not_after: None }
    }

    pub(super) fn certificate(
        path: PathBuf,
        text: String,
        content: impl Into<String>,
        not_after: i64,
    ) -> Self {
        Self { path, text, access: Access::Public, content: content.into(), not_after: Some(not_after) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Content of the file, with the last day of its validity.
    pub(super) fn description(&self) -> String {
        match self.valid_until() {
            Some(day) => format!("{}, valid until {day}", self.content),
            None => self.content.clone(),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({"file": self.path, "content": self.content, "valid_until": self.valid_until()})
    }

    fn valid_until(&self) -> Option<String> {
        let end = jiff::Timestamp::from_second(self.not_after?).ok()?;
        Some(end.strftime("%Y-%m-%d").to_string())
    }

    /// Writes to a temporary file first, so that no key is ever readable by others and no file is half written.
    fn write(&self, folder: &Path, existing: Existing) -> io::Result<()> {
        let mode = match self.access {
            Access::Owner => 0o600,
            Access::Public => 0o644,
        };
        let mut file = tempfile::Builder::new()
            .prefix(".ringway-cert-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)?;
        file.write_all(self.text.as_bytes())?;
        file.as_file().sync_all()?;
        match existing {
            Existing::Replaced => file.persist(&self.path)?,
            Existing::Kept => file.persist_noclobber(&self.path)?,
        };
        Ok(())
    }
}

/// Treatment of a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Kept,
    Replaced,
}

/// Refuses to write if one of the files exists.
pub(super) fn refuse_existing(files: &[NewFile]) -> Result<(), Failure> {
    match files.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        Some(file) => Err(exists(&file.path)),
        None => Ok(()),
    }
}

/// Writes all files to the folder, which is created if it does not exist.
pub(super) fn write(folder: &Path, files: &[NewFile], existing: Existing) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::failed(format!(
            "{}: cannot create the folder: {error}; choose another one by --out",
            folder.display()
        ))
    })?;
    for file in files {
        file.write(folder, existing).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&file.path),
            _ => Failure::failed(format!(
                "{}: cannot write: {error}; make room and permit writing, or choose another folder by --out",
                file.path.display()
            )),
        })?;
    }
    Ok(())
}

fn exists(path: &Path) -> Failure {
    Failure::failed(format!(
        "{}: the file exists already; replace it by --force, or choose another folder by --out",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_appears_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        std::fs::write(&path, "theirs").unwrap();
        let files = [NewFile::key(path.clone(), "ours".to_owned(), "key")];
        let refused = write(folder.path(), &files, Existing::Kept).unwrap_err();
        assert!(refused.lines()[0].contains("exists already"), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        write(folder.path(), &files, Existing::Replaced).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ours");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }
}

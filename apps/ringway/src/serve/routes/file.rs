//! Atomic replacement of a configuration file, and the way back.

use crate::failure::Failure;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A configuration file that exists. Links were followed: the target is replaced, and the link stays.
pub(super) struct RoutesFile {
    target: PathBuf,
}

/// A file that was replaced, with a copy of the old one. Dropping it removes the copy.
pub(super) struct Replaced {
    target: PathBuf,
    written: String,
    old: NamedTempFile,
}

/// Reason why a file cannot be replaced: HTTP status, and what to do.
#[derive(Debug)]
pub(super) struct FileFault {
    pub(super) status: u16,
    pub(super) message: String,
}

impl RoutesFile {
    /// Follows the links of `file`.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn of(file: &Path) -> Result<Self, FileFault> {
        let target = file
            .canonicalize()
            .map_err(|error| fault(&error, format!("{}: cannot find it: {error}", file.display())))?;
        Ok(Self { target })
    }

    /// Checks that the file and its folder can be written.
    ///
    /// # Errors
    /// They cannot.
    pub(super) fn check_writable(&self) -> Result<(), FileFault> {
        let name = self.target.display();
        OpenOptions::new().write(true).open(&self.target).map_err(|error| {
            fault(&error, format!("{name}: cannot write it: {error}; {}", remedy(&error, &self.target)))
        })?;
        self.temporary().map(drop)
    }

    /// Replaces the file by `new`, unless it is not `old` any more.
    ///
    /// # Errors
    /// The old file stays.
    pub(super) fn replace(&self, old: &str, new: &str) -> Result<Replaced, FileFault> {
        self.check_writable()?;
        let name = self.target.display();
        let failed = |error: io::Error| fault(&error, format!("{name}: cannot replace it: {error}"));
        let metadata = fs::metadata(&self.target).map_err(failed)?;
        let copy = self.written(old, &metadata)?;
        let fresh = self.written(new, &metadata)?;
        if fs::read(&self.target).map_err(failed)? != old.as_bytes() {
            let message = format!("{name} changed meanwhile; load the routes again");
            return Err(FileFault { status: 412, message });
        }
        fresh.persist(&self.target).map_err(|error| failed(error.error))?;
        sync_folder(&self.target);
        Ok(Replaced { target: self.target.clone(), written: new.to_owned(), old: copy })
    }

    /// A file in the same folder with this text, and the owner and mode of the replaced one.
    fn written(&self, text: &str, like: &Metadata) -> Result<NamedTempFile, FileFault> {
        let name = self.target.display();
        let mut file = self.temporary()?;
        let mut write = || {
            file.write_all(text.as_bytes())?;
            file.as_file().set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
            file.as_file().sync_all()
        };
        write().map_err(|error| fault(&error, format!("{name}: cannot write a copy of it: {error}")))?;
        let own = file.as_file().metadata().ok().map(|own| (own.uid(), own.gid()));
        if own != Some((like.uid(), like.gid())) {
            fchown(file.as_file(), Some(like.uid()), Some(like.gid())).map_err(|error| {
                let (user, group) = (like.uid(), like.gid());
                let why = format!(
                    "{name}: cannot keep its owner (user {user}, group {group}): {error}; give the file to the server's user"
                );
                fault(&error, why)
            })?;
        }
        Ok(file)
    }

    fn temporary(&self) -> Result<NamedTempFile, FileFault> {
        let folder = folder_of(&self.target);
        let stem = self.target.file_name().unwrap_or_default().to_string_lossy();
        tempfile::Builder::new().prefix(&format!(".{stem}-")).tempfile_in(folder).map_err(|error| {
            let name = folder.display();
            fault(
                &error,
                format!("{name}: cannot make a file in this folder: {error}; {}", remedy(&error, folder)),
            )
        })
    }
}

impl Replaced {
    /// Keeps the old file as `FILE.before`; returns its name.
    ///
    /// # Errors
    /// It cannot be renamed; the message for the administrator.
    pub(super) fn keep_before(self) -> Result<PathBuf, String> {
        let mut name = self.target.into_os_string();
        name.push(".before");
        let before = PathBuf::from(name);
        match self.old.persist(&before) {
            Ok(_) => {
                sync_folder(&before);
                Ok(before)
            }
            Err(error) => Err(format!("{}: the old file is not kept: {}", before.display(), error.error)),
        }
    }

    /// Puts the old file back, unless somebody changed the new one.
    ///
    /// # Errors
    /// It cannot; the message for the administrator.
    pub(super) fn put_back(self) -> Result<(), String> {
        let name = self.target.display();
        if fs::read(&self.target).is_ok_and(|now| now != self.written.as_bytes()) {
            return Err(format!("{name} was changed meanwhile and stays; correct it by hand"));
        }
        let (target, old) = (&self.target, self.old);
        if let Err(error) = old.persist(target) {
            let why = error.error;
            // The only copy of the old text must not go with this process.
            return Err(match error.file.keep() {
                Ok((_, kept)) => {
                    format!("{name}: the old file cannot be put back: {why}; it is {}", kept.display())
                }
                Err(_) => format!("{name}: the old file cannot be put back: {why}"),
            });
        }
        sync_folder(target);
        Ok(())
    }
}

impl From<Failure> for FileFault {
    fn from(failure: Failure) -> Self {
        Self { status: 409, message: failure.lines().join("; ") }
    }
}

/// Makes a rename durable. Systems that cannot do that have no other way.
fn sync_folder(file: &Path) {
    let _ = File::open(folder_of(file)).and_then(|folder| folder.sync_all());
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

fn fault(error: &io::Error, message: String) -> FileFault {
    let status = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => 403,
        ErrorKind::NotFound => 409,
        _ => 500,
    };
    FileFault { status, message }
}

fn remedy(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => {
            "permit it with ReadWritePaths= in the systemd unit (`systemctl edit ringway`), or edit the file by hand"
                .to_owned()
        }
        ErrorKind::PermissionDenied => {
            format!("give {} to the server's user, or edit the file by hand", path.display())
        }
        _ => "edit the file by hand".to_owned(),
    }
}

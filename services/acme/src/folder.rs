//! The folder of `[tls.acme]`: the account, and one file with the certificate chain and its key. Only this user reads them; they are
//! replaced as a whole.

use crate::certificate::{Validity, is_placeholder, names_of, placeholder, validity_of, wall_s};
use crate::config::AcmeError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

/// Content of the certificate's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none, or it cannot be read as one.
    Missing,
    /// The self-signed one that the listeners have until the first order succeeds.
    Placeholder(Validity),
    /// One of the directory, with its names.
    Issued(Validity, Vec<String>),
}

impl State {
    /// State of a file with this content.
    pub(crate) fn of(pem: &[u8]) -> Self {
        let Some(Ok(first)) = CertificateDer::pem_slice_iter(pem).next() else { return Self::Missing };
        match validity_of(&first) {
            None => Self::Missing,
            Some(validity) if is_placeholder(&first) => Self::Placeholder(validity),
            Some(validity) => Self::Issued(validity, names_of(&first)),
        }
    }

    /// Validity of a certificate of a directory with exactly these names.
    pub(crate) fn issued_for(&self, domains: &[String]) -> Option<Validity> {
        let Self::Issued(validity, names) = self else { return None };
        let (have, want): (BTreeSet<_>, BTreeSet<_>) = (names.iter().collect(), domains.iter().collect());
        (have == want).then_some(*validity)
    }
}

impl Folder {
    /// The folder at a path; it may not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// File with the certificate chain and its private key, PEM.
    pub fn certificate(&self) -> PathBuf {
        self.0.join(CERTIFICATE)
    }

    /// Makes the folder, and a self-signed certificate for these names unless there is one of the directory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn prepare(&self, domains: &[String]) -> Result<(), AcmeError> {
        if !self.0.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
            made.map_err(|why| self.failed("cannot make this folder", &why))?;
        }
        match self.state() {
            State::Issued(..) => Ok(()),
            // A fresh one stays: the thread may write that of the directory now.
            State::Placeholder(validity) if validity.is_in_first_half(wall_s()) => Ok(()),
            State::Placeholder(_) | State::Missing => {
                self.write(CERTIFICATE, placeholder(domains)?.as_bytes())
            }
        }
    }

    /// Tells whether files can be made, without making one that stays.
    ///
    /// # Errors
    /// They cannot.
    pub fn check(&self) -> Result<(), AcmeError> {
        // The first part of the path that exists is where a folder is made.
        let parents =
            self.0.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
        let Some(existing) = parents.into_iter().find(|path| path.exists()) else { return Ok(()) };
        let probe = existing.join(PROBE);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe);
        made.map_err(|why| self.failed("cannot write into this folder", &why))?;
        // It was made just now.
        std::fs::remove_file(&probe).map_err(|why| self.failed("cannot write into this folder", &why))
    }

    /// Reads what the certificate's file has.
    pub fn state(&self) -> State {
        match self.certificate_file() {
            Ok(Some(pem)) => State::of(&pem),
            Ok(None) | Err(_) => State::Missing,
        }
    }

    /// Content of the certificate's file.
    pub(crate) fn certificate_file(&self) -> Result<Option<Vec<u8>>, AcmeError> {
        self.read(CERTIFICATE)
    }

    /// Replaces the certificate and its key.
    pub(crate) fn set_certificate(&self, chain_and_key: &[u8]) -> Result<(), AcmeError> {
        self.write(CERTIFICATE, chain_and_key)
    }

    /// The account as JSON. `None`: there is none.
    pub(crate) fn account(&self) -> Result<Option<Vec<u8>>, AcmeError> {
        self.read(ACCOUNT)
    }

    pub(crate) fn set_account(&self, json: &[u8]) -> Result<(), AcmeError> {
        self.write(ACCOUNT, json)
    }

    /// Removes an account that the directory does not have.
    pub(crate) fn forget_account(&self) -> Result<(), AcmeError> {
        match std::fs::remove_file(self.0.join(ACCOUNT)) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("cannot remove the account", &why))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, AcmeError> {
        let mut content = Vec::new();
        let read = File::open(self.0.join(name))
            .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut content));
        match read {
            Ok(_) => Ok(Some(content)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(self.failed(&format!("cannot read {name}"), &why)),
        }
    }

    /// Writes a file beside the old one, which it then replaces.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), AcmeError> {
        let (new, path) = (self.0.join(format!("{name}.new")), self.0.join(name));
        let written = || -> io::Result<()> {
            // One that a crash left may have other permissions.
            match std::fs::remove_file(&new) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                Ok(()) | Err(_) => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(content)?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(&self.0)?.sync_all()
        };
        written().map_err(|why| self.failed(&format!("cannot write {name}"), &why))
    }

    fn failed(&self, what: &str, why: &io::Error) -> AcmeError {
        AcmeError::new(format!(
            "folder {}: {what}: {why}; permit it, or name another folder",
            self.0.display()
        ))
    }
}

const CERTIFICATE: &str = "certificate.pem";
const ACCOUNT: &str = "account.json";
const PROBE: &str = ".ringway-check";
const FILE_BYTES_MAX: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_user_reads_the_folder_and_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path().join("a/b"));
        assert_eq!((folder.check(), folder.state()), (Ok(()), State::Missing));
        assert!(!parent.path().join("a").exists(), "a check makes nothing");
        folder.prepare(&["example.org".to_owned()]).unwrap();
        assert!(matches!(folder.state(), State::Placeholder(_)));
        folder.set_account(b"{}").unwrap();
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.0.clone()), 0o700);
        assert_eq!((mode(folder.certificate()), mode(folder.0.join(ACCOUNT))), (0o600, 0o600));
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2, "nothing else is left");
        folder.forget_account().unwrap();
        folder.forget_account().unwrap();
        assert_eq!(folder.account(), Ok(None));
    }

    #[test]
    fn a_file_that_a_crash_left_is_replaced_and_a_damaged_certificate_too() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path());
        std::fs::write(parent.path().join("certificate.pem.new"), "half").unwrap();
        std::fs::write(folder.certificate(), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
        assert_eq!(folder.state(), State::Missing);
        folder.prepare(&["example.org".to_owned()]).unwrap();
        assert!(matches!(folder.state(), State::Placeholder(_)));
        let before = std::fs::read(folder.certificate()).unwrap();
        folder.prepare(&["example.org".to_owned()]).unwrap();
        assert_eq!(std::fs::read(folder.certificate()).unwrap(), before, "a fresh placeholder stays");
    }

    #[test]
    fn a_folder_below_a_file_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Folder::new(file.path().join("acme")).check().unwrap_err().to_string();
        assert!(error.contains("cannot write into this folder"), "{error}");
        assert!(Folder::new(file.path().join("acme")).prepare(&[]).is_err());
    }
}

//! Key that an agent and its campaigns share.

use crate::text_file;
use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// 32 random bytes, in a file as one line of 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentKey([u8; Self::BYTES]);

impl AgentKey {
    /// Length of a key.
    pub const BYTES: usize = 32;

    /// Creates a key.
    ///
    /// # Errors
    /// The operating system returned no random bytes.
    pub fn generate() -> Result<Self> {
        let mut bytes = [0; Self::BYTES];
        match getrandom::fill(&mut bytes) {
            Ok(()) => Ok(Self(bytes)),
            Err(error) => bail!("the operating system returned no random bytes: {error}"),
        }
    }

    /// Writes it to a new file that only its owner can read.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<()> {
        let name = || path.display().to_string();
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                bail!("{} exists; a key is not overwritten, give another file with --out", name())
            }
            opened => opened.with_context(name)?,
        };
        writeln!(file, "{}", base16ct::lower::encode_string(&self.0)).with_context(name)
    }

    /// Reads it from its file.
    ///
    /// # Errors
    /// The file cannot be read, can be read by others, or is not a key.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = text_file::read(path, FILE_BYTES_MAX)?;
        let mode = fs::metadata(path).with_context(|| name.to_string())?.permissions().mode();
        ensure!(mode & 0o077 == 0, "{name}: other users can read the key; chmod 600 {name}");
        let mut bytes = [0; Self::BYTES];
        match base16ct::lower::decode(text.trim_end(), &mut bytes) {
            Ok(decoded) if decoded.len() == Self::BYTES => Ok(Self(bytes)),
            Ok(_) | Err(_) => {
                bail!("{name}: not a key of 64 hexadecimal digits; make one with `ringway lab agent init`")
            }
        }
    }

    pub(super) const fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Without the key itself.
impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey")
    }
}

/// Most bytes of the file.
const FILE_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.key");
        let key = AgentKey::generate().unwrap();
        key.write_new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap().trim_end().len(), 64);
        assert_eq!(AgentKey::read(&path).unwrap(), key);
        assert_eq!(format!("{key:?}"), "AgentKey");
        assert!(key != AgentKey::generate().unwrap());
        let again = key.write_new(&path).unwrap_err().to_string();
        assert!(again.contains("is not overwritten"), "{again}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(AgentKey::read(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn a_file_that_is_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.key");
        for text in ["", "\n", &"a".repeat(63), &"a".repeat(65), &"a".repeat(66), &"g".repeat(64)] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = AgentKey::read(&path).unwrap_err().to_string();
            assert!(error.contains("lab agent init"), "{text}: {error}");
        }
    }
}

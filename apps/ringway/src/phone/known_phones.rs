//! Phones that ZRTP was made with: who has compared the SAS once need not do it again, and who sits between later is
//! noticed (RFC 6189 §4.3).
//!
//! The file, `phone.zrtp` beside `phone.toml` or that of `--zrtp-cache`, is a secret like a password.

use crate::failure::Failure;
use crate::password;
use crate::phone::private_file;
use base16ct::lower::encode_string as hex;
use ringway_media::session::ZrtpSettings;
use ringway_sansio::Instant;
use ringway_zrtp::{Retained, Zid, ZidCache, ZrtpConfig};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Text of the first line.
const HEAD: &str = "ringway-zrtp 1";
/// All that [`ZidCache::ENTRIES_MAX`] phones take, and more.
const BYTES_MAX: u64 = 512 << 10;

/// Our identity, and the phones we know.
#[derive(Clone, Debug)]
pub(crate) struct KnownPhones {
    file: PathBuf,
    zid: Zid,
    cache: ZidCache,
}

impl KnownPhones {
    /// Reads the file; where there is none, we are somebody new.
    pub(crate) fn open(file: &Path) -> Result<Self, Failure> {
        Self::load(file, password::bytes()?)
    }

    fn load(file: &Path, zid: Zid) -> Result<Self, Failure> {
        let file = file.to_owned();
        let text = private_file::read(&file, "the secrets of ZRTP", BYTES_MAX).map_err(Failure::usage)?;
        let mut known = Self { file, zid, cache: ZidCache::default() };
        let Some(text) = text else { return Ok(known) };
        for (number, line) in text.lines().enumerate() {
            if known.read_line(number, line).is_none() {
                let file = known.file.display();
                return Err(Failure::usage(format!(
                    "{file}:{}: not written by this program; remove the file, and compare each SAS once more",
                    number + 1
                )));
            }
        }
        Ok(known)
    }

    /// Remembers a phone, and writes the file. The error is one line.
    pub(crate) fn remember(&mut self, retained: Retained) -> Result<(), String> {
        self.cache.insert(retained);
        self.save()
    }

    /// Forgets a phone, and writes the file. The error is one line.
    pub(crate) fn forget(&mut self, zid: &Zid) -> Result<(), String> {
        self.cache.remove(zid);
        self.save()
    }

    /// Initial ZRTP state of a call.
    pub(crate) fn settings(&self) -> ZrtpSettings {
        ZrtpSettings { config: ZrtpConfig::new(self.zid), cache: self.cache.clone() }
    }

    fn save(&self) -> Result<(), String> {
        let mut text = format!("{HEAD}\nzid {}\n", hex(&self.zid));
        for Retained { zid, rs1, rs2, sas_verified, expires_at, used_at } in self.cache.iter() {
            let rs2 = rs2.as_ref().map_or_else(|| "-".to_owned(), |rs2| hex(rs2));
            let compared = if *sas_verified { "compared" } else { "-" };
            let (expires, used) = (expires_at.as_nanos(), used_at.as_nanos());
            // Writing to a string does not fail.
            let _ = writeln!(text, "phone {} {} {rs2} {compared} {expires} {used}", hex(zid), hex(rs1));
        }
        private_file::replace(&self.file, text.as_bytes(), private_file::MODE)
            .map_err(|error| format!("{}: cannot write it: {error}; check the folder", self.file.display()))
    }

    /// `None`: this line cannot stand here.
    fn read_line(&mut self, number: usize, line: &str) -> Option<()> {
        let words: Vec<_> = line.split(' ').collect();
        match (number, words.as_slice()) {
            (0, _) if line == HEAD => {}
            (1, ["zid", zid]) => self.zid = bytes(zid)?,
            (2.., ["phone", zid, rs1, rs2, compared, expires, used]) => {
                let moment = |text: &str| text.parse().ok().map(Instant::from_nanos);
                let retained = Retained {
                    zid: bytes(zid)?,
                    rs1: bytes(rs1)?,
                    rs2: if *rs2 == "-" { None } else { Some(bytes(rs2)?) },
                    sas_verified: match *compared {
                        "compared" => true,
                        "-" => false,
                        _ => return None,
                    },
                    expires_at: moment(expires)?,
                    used_at: moment(used)?,
                };
                self.cache.insert(retained);
            }
            _ => return None,
        }
        Some(())
    }
}

/// Exactly `N` bytes of hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    base16ct::mixed::decode(text, &mut out).ok().filter(|decoded| decoded.len() == N)?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::tempdir;

    fn retained(number: u8) -> Retained {
        Retained {
            zid: [number; 12],
            rs1: [number; 32],
            rs2: (number > 1).then_some([9; 32]),
            sas_verified: number > 1,
            expires_at: Instant::FAR,
            used_at: Instant::from_secs(7),
        }
    }

    #[test]
    fn phones_are_known_after_a_restart_and_forgotten_on_request() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("phone.zrtp");
        let mut known = KnownPhones::load(&file, [5; 12]).unwrap();
        known.remember(retained(1)).unwrap();
        known.remember(retained(2)).unwrap();
        let again = KnownPhones::load(&file, [6; 12]).unwrap();
        assert_eq!(again.zid, [5; 12], "the identity stays");
        assert_eq!(again.cache.find(&[1; 12]), Some(&retained(1)));
        assert_eq!(again.cache.find(&[2; 12]), Some(&retained(2)));
        known.forget(&[2; 12]).unwrap();
        let again = KnownPhones::load(&file, [6; 12]).unwrap();
        assert_eq!(again.cache.find(&[2; 12]), None);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_of_others_is_refused() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("phone.zrtp");
        let zid = "05".repeat(12);
        for text in [
            "",
            "x",
            "ringway-zrtp 2\n",
            "ringway-zrtp 1\nzid 05\n",
            &format!("ringway-zrtp 1\nzid {zid}\nphone a b c d e f\n"),
            &format!("ringway-zrtp 1\nzid {zid}\nzid {zid}\n"),
            &format!("ringway-zrtp 1\nzid {}\n", "+5".repeat(12)),
            &format!("ringway-zrtp 1\nzid {zid}\nphone {zid} {} - maybe 1 1\n", "00".repeat(32)),
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let loaded = KnownPhones::load(&file, [0; 12]);
            // An empty file is one without phones.
            assert_eq!(loaded.is_ok(), text.is_empty(), "{text}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let why = KnownPhones::load(&file, [0; 12]).unwrap_err();
        assert!(why.lines()[0].contains("chmod 600"), "{why:?}");
    }
}

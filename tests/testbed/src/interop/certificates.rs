//! Certificates for a scenario, made with the `openssl` program in the folder of the scenario.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use ringway_test_support::process::run_to_end;

use super::Stage;

/// Certificate of the authority in a scenario's folder.
pub(crate) const CA_FILE: &str = "ca.pem";

/// Authority in a folder: `ca.pem` and its key.
pub(crate) struct Authority {
    folder: PathBuf,
}

/// Certificate `NAME.pem` with the key `NAME-key.pem`.
#[derive(Clone, Copy)]
pub(crate) struct Certificate {
    pub(crate) name: &'static str,
    /// Alternative names, as openssl writes them.
    pub(crate) alternative_names: &'static str,
    /// Validity from now on; negative: it has expired.
    pub(crate) days: i32,
    pub(crate) issuer: Issuer,
    pub(crate) key: Key,
}

/// Key of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    P256,
    Rsa2048,
}

/// Issuer of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issuer {
    Authority,
    Itself,
}

impl Certificate {
    /// For any server of this computer.
    pub(crate) const SERVER: Self = Self {
        name: "server",
        alternative_names: "IP:127.0.0.1,DNS:localhost,URI:sip:localhost",
        days: 30,
        issuer: Issuer::Authority,
        key: Key::P256,
    };
}

impl Authority {
    /// Makes an authority in `folder`, which must exist.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        let authority = Self { folder: folder.to_owned() };
        let mut arguments = vec!["req", "-x509", "-days", "30", "-subj", "/CN=authority", "-out", CA_FILE];
        arguments.extend(["-keyout", "ca-key.pem"]);
        arguments.extend(Key::P256.arguments());
        authority.openssl(&arguments)?;
        Ok(authority)
    }

    /// The authority that an earlier step made in the stage's folder.
    pub(crate) fn of(stage: &Stage) -> Self {
        Self { folder: stage.folder.clone() }
    }

    /// Issues a certificate with a new key.
    pub(crate) fn issue(&self, certificate: Certificate) -> Result<()> {
        let Certificate { name, alternative_names, days, issuer, key: kind } = certificate;
        let [file, key, request, extensions] =
            [".pem", "-key.pem", ".csr", ".ext"].map(|ending| format!("{name}{ending}"));
        let names = format!("subjectAltName={alternative_names}");
        std::fs::write(self.folder.join(&extensions), format!("{names}\nbasicConstraints=CA:FALSE\n"))?;
        let mut arguments = vec!["req", "-subj", "/CN=server", "-keyout", &key, "-out", &request];
        arguments.extend(kind.arguments());
        self.openssl(&arguments)?;
        let days = days.to_string();
        let mut arguments = vec!["x509", "-req", "-in", &request, "-out", &file, "-days", &days];
        arguments.extend(["-extfile", &extensions]);
        match issuer {
            Issuer::Authority => arguments.extend(["-CA", CA_FILE, "-CAkey", "ca-key.pem"]),
            Issuer::Itself => arguments.extend(["-signkey", &key]),
        }
        self.openssl(&arguments)
    }

    fn openssl(&self, arguments: &[&str]) -> Result<()> {
        run_to_end(Command::new("openssl").args(arguments).current_dir(&self.folder), "").map(drop)
    }
}

impl Key {
    /// Arguments of openssl for a new key without a password.
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::P256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
            Self::Rsa2048 => &["-newkey", "rsa:2048", "-nodes"],
        }
    }
}

//! The server under attack.

use crate::process::Process;
use crate::server::{DOMAIN, Environment, Under, free_port, write_users};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

/// Users with a password, `u0000000` and so on.
const USERS: u32 = 256;

/// A running server with 256 users.
pub struct Target<'p> {
    /// Its address for UDP.
    pub address: SocketAddrV4,
    process: Process,
    configuration: PathBuf,
    environment: &'p Environment,
}

impl<'p> Target<'p> {
    /// Starts a server on an empty store; `contacts` are its permanent contacts.
    pub fn start(environment: &'p Environment, contacts: &[(u32, SocketAddrV4)]) -> Result<Self> {
        Self::start_with(environment, contacts, "")
    }

    /// The same with further lines of the configuration.
    pub fn start_with(
        environment: &'p Environment,
        contacts: &[(u32, SocketAddrV4)],
        lines: &str,
    ) -> Result<Self> {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_port()?);
        let folder = tempfile::tempdir_in(&environment.folder).context("make a folder for a server")?.keep();
        let configuration = folder.join("ringway.toml");
        let text = format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:{address}\", \"tcp:{address}\"]\nworkers = 2\n\
             [store]\nurl = \"sqlite://{}\"\n[admin]\nlisten = \"127.0.0.1:{}\"\n[log]\nlevel = \"warn\"\n{lines}",
            folder.join("ringway.db").display(),
            free_port()?
        );
        fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
        let list = folder.join("users.csv");
        write_users(&list, USERS).with_context(|| list.display().to_string())?;
        environment.command(&configuration, &["user", "import", &list.to_string_lossy()])?;
        for (user, contact) in contacts {
            let contact = format!("sip:{}@{contact}", name(*user));
            environment.command(&configuration, &["user", "bind", &name(*user), &contact])?;
        }
        let process = environment.serve(&configuration, Under::Itself)?;
        Ok(Self { address, process, configuration, environment })
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.process.resident_bytes()
    }

    /// Reads all statistics.
    pub fn stats(&self) -> Result<Stats> {
        let text = self.environment.command(&self.configuration, &["show", "stats", "--json"])?;
        Ok(Stats(serde_json::from_slice(&text).context("ringway show stats printed no JSON")?))
    }

    /// Stops the server.
    ///
    /// # Errors
    /// It had ended before, or had to be killed.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop()
    }
}

/// Statistics by name.
pub struct Stats(Value);

impl Stats {
    /// Value of a statistic.
    ///
    /// # Errors
    /// The server has no statistic with this name.
    pub fn figure(&self, name: &str) -> Result<f64> {
        self.0.get(name).and_then(Value::as_f64).with_context(|| format!("the server has no figure {name}"))
    }

    /// Values of several statistics, as text.
    pub fn text(&self, names: &[&str]) -> String {
        let one = |name: &&str| format!("{name} {}", self.figure(name).unwrap_or(f64::NAN));
        names.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The name of a user.
pub fn name(user: u32) -> String {
    format!("u{user:07}")
}

/// The address-of-record of a user.
pub fn aor(user: u32) -> String {
    format!("sip:{}@{DOMAIN}", name(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_name() {
        let stats = Stats(serde_json::json!({"reserved_bytes": 0.0, "datagrams_out": 12}));
        assert_eq!(stats.figure("datagrams_out").unwrap(), 12.0);
        assert!(stats.figure("datagrams").is_err());
        assert_eq!(stats.text(&["reserved_bytes", "datagrams_out"]), "reserved_bytes 0, datagrams_out 12");
    }
}

//! Scripts that run in the store.

use redis::{Cmd, cmd};
use sha1::{Digest, Sha1};

/// A script and its name in the store.
pub(crate) struct Script {
    text: &'static str,
    /// SHA-1 of the text in hexadecimal.
    pub(crate) name: String,
}

/// The scripts.
pub(crate) struct Scripts {
    pub(crate) put: Script,
    pub(crate) read: Script,
    pub(crate) nodes: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            put: Script::new(include_str!("scripts/put.lua")),
            read: Script::new(include_str!("scripts/read.lua")),
            nodes: Script::new(include_str!("scripts/nodes.lua")),
        }
    }

    pub(crate) fn all(&self) -> [&Script; 3] {
        [&self.put, &self.read, &self.nodes]
    }
}

impl Script {
    fn new(text: &'static str) -> Self {
        let name = Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text, name }
    }

    /// The command that loads the script.
    pub(crate) fn load(&self) -> Cmd {
        cmd("SCRIPT").arg("LOAD").arg(self.text).take()
    }

    /// The begin of a command that runs the script with a number of keys.
    pub(crate) fn run(&self, keys: usize) -> Cmd {
        cmd("EVALSHA").arg(&self.name).arg(keys).take()
    }
}

#[cfg(test)]
#[path = "scripts_tests.rs"]
mod tests;

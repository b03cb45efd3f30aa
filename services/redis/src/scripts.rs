//! Scripts that run in the store, and the names of the keys.

use redis::{Cmd, cmd};
use sha1::{Digest, Sha1};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

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

/// Number of tags. All keys of an address-of-record have its tag, and are in one slot of a cluster.
pub(crate) const TAGS: usize = 64;

/// Maximum length in bytes of an address-of-record.
pub(crate) const AOR_BYTES_MAX: usize = 1024;

/// Hash of an address-of-record, equal on all nodes.
pub(crate) fn hash(aor: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(aor);
    hasher.finish()
}

/// Tag of a hash.
pub(crate) const fn tag_of(hash: u64) -> usize {
    (hash % TAGS as u64) as usize
}

/// Tag of an address-of-record.
pub fn tag_of_user(aor: &[u8]) -> usize {
    tag_of(hash(aor))
}

/// Start of the keys of records.
pub(crate) fn records(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:b:")
}

/// Addresses-of-record by the end of their records.
pub(crate) fn all(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:all")
}

/// Stream of changed records.
pub(crate) fn log(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:log")
}

/// Mark of the store's data: it changes when data was lost.
pub(crate) fn epoch(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:epoch")
}

/// Hash of nodes, in the slot of [`NODES_TAG`].
pub(crate) const NODES: &str = "rw:{00}:nodes";
pub(crate) const NODES_TAG: usize = 0;

#[cfg(test)]
#[path = "scripts_tests.rs"]
mod tests;

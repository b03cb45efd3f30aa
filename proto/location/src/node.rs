//! Names of nodes.

use core::fmt;

/// Maximum length in bytes of a node's name.
pub const NODE_BYTES_MAX: usize = 32;

/// Name of a node: 1 to [`NODE_BYTES_MAX`] lower-case letters, digits and hyphens; a label of a host name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    bytes: [u8; NODE_BYTES_MAX],
    len: u8,
}

impl NodeName {
    /// Reads a name; `None` if it is not valid.
    pub fn read(name: &[u8]) -> Option<Self> {
        let is_valid = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let ends = name.first()?.is_ascii_alphanumeric() && name.last()?.is_ascii_alphanumeric();
        if !ends || !name.iter().all(is_valid) {
            return None;
        }
        let mut bytes = [0; NODE_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self { bytes, len: u8::try_from(name.len()).ok()? })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_label_of_a_host_name() {
        for name in ["a", "node-1", "0", "x".repeat(32).as_str()] {
            assert_eq!(NodeName::read(name.as_bytes()).map(|name| name.as_str().len()), Some(name.len()));
        }
        for name in ["", "-", "a-", "-a", "A", "a.b", "a b", "ä", "x".repeat(33).as_str()] {
            assert_eq!(NodeName::read(name.as_bytes()), None, "{name}");
        }
    }
}

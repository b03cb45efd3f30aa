//! Access to the registered users, without a copy of their table.

use core::net::SocketAddr;
use ringway_sansio::Transport;

/// A table of registered users, read by slot.
///
/// A slot holds one user or none; slots count from 0 without gaps up to the end. A user keeps its slot as long as it is
/// registered, independently of other users: the screen reads a few slots at a time and needs no copy. The server's
/// location table is read this way (`LocationTable::bindings_from`, one slot after the other).
pub trait RegistrationSource {
    /// Passes the contacts of the users in `count` slots from `from` on whose names match `wanted` to `each`, each with
    /// its slot, all contacts of a user one after the other and always in the same order. Returns the slot to continue
    /// from, `None` if one of these slots is behind the end.
    fn rows(
        &self,
        from: u32,
        count: u32,
        wanted: &Prefix<'_>,
        each: &mut dyn FnMut(u32, Row<'_>),
    ) -> Option<u32>;
}

/// A registered contact.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// `user@domain`.
    pub aor: &'a [u8],
    /// The contact URI; shown if there is no address.
    pub contact: &'a [u8],
    /// Transport to the contact.
    pub transport: Transport,
    /// Source address of the REGISTER; `None` for an administrator's contact.
    pub address: Option<SocketAddr>,
    /// Seconds until it expires; `None`: permanent.
    pub left_s: Option<u64>,
}

/// Prefix of a name, without regard to case. An empty one matches all names.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'a>(pub &'a [u8]);

impl Prefix<'_> {
    /// True if `name` begins with it.
    pub fn fits(&self, name: &[u8]) -> bool {
        name.get(..self.0.len()).is_some_and(|start| start.eq_ignore_ascii_case(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let fits = |wanted: &str, name: &str| Prefix(wanted.as_bytes()).fits(name.as_bytes());
        assert!(fits("", "bob") && fits("bo", "bob") && fits("BOB", "bob@example.org"));
        assert!(!fits("bobb", "bob") && !fits("ob", "bob") && !fits("a", ""));
    }
}

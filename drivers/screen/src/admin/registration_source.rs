//! The registered users, without a copy of their table.

use core::net::SocketAddr;
use ringway_sansio::Transport;

/// A table of registered users, read by place.
///
/// A place holds one user or none; places count from 0 without gaps up to the end. A user stays at its place as long as it
/// is registered, whoever comes and goes meanwhile: so the screen reads a few places at a time and needs no copy. The
/// server's location table is read so (`Location::bindings_from`, one place after the other).
pub trait Roll {
    /// Tells the contacts of the users at `count` places from `from` on whose names fit `wanted`, each with its place, all
    /// contacts of a user one after the other and always in the same order. Gives the place to go on from, `None` when
    /// one of these places is behind the end.
    fn rows(
        &self,
        from: u32,
        count: u32,
        wanted: &Beginning<'_>,
        each: &mut dyn FnMut(u32, Row<'_>),
    ) -> Option<u32>;
}

/// A registered contact.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// `user@domain`.
    pub aor: &'a [u8],
    /// The contact URI; shown where there is no address.
    pub contact: &'a [u8],
    /// How it is reached.
    pub transport: Transport,
    /// Where the REGISTER came from; `None` for an administrator's contact.
    pub address: Option<SocketAddr>,
    /// Seconds until it ends; `None`: it stays.
    pub left_s: Option<u64>,
}

/// How a name must begin, whether in capitals or not. Empty: all names fit.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a>(pub &'a [u8]);

impl Beginning<'_> {
    /// True when `name` begins so.
    pub fn fits(&self, name: &[u8]) -> bool {
        name.get(..self.0.len()).is_some_and(|start| start.eq_ignore_ascii_case(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        let fits = |wanted: &str, name: &str| Beginning(wanted.as_bytes()).fits(name.as_bytes());
        assert!(fits("", "bob") && fits("bo", "bob") && fits("BOB", "bob@example.org"));
        assert!(!fits("bobb", "bob") && !fits("ob", "bob") && !fits("a", ""));
    }
}

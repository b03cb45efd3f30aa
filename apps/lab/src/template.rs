//! Names that all messages of the lab's own servers and users have.

/// Domain of all users.
pub const DOMAIN: &str = "example.org";

/// Transport of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
}

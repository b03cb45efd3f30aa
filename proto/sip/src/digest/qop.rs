//! Quality of protection of a digest.

/// Coverage of a digest, besides the method and the URI (RFC 7616 §3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qop {
    /// `auth`: nothing else.
    Auth,
    /// `auth-int`: the body.
    AuthInt,
}

impl Qop {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }

    /// The quality of protection of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Auth, Self::AuthInt].into_iter().find(|one| one.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

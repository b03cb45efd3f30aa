//! Settings of digest authentication.

/// Uses of one nonce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoncePolicy {
    /// Any number, with another nonce count each.
    #[default]
    Count,
    /// One; the client gets the next nonce in Authentication-Info (RFC 7616 §3.5).
    Once,
}

/// Forms of digest that are offered and accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestPolicy {
    /// Uses of one nonce.
    pub nonces: NoncePolicy,
    /// True: `auth-int` is offered too, and accepted.
    pub auth_int: bool,
    /// True: a digest without qop is accepted (RFC 2069). It uses its nonce up, because it has no count.
    pub danger_rfc2069: bool,
}

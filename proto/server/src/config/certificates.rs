//! Client certificates that prove an identity (RFC 5922): a neighbour's, and a user's.
//!
//! A certificate proves something about the requests of its own connection only: its names come with each message
//! ([`Received::peer`](ringway_sansio::Received::peer)), and nothing in a request refers to another connection's.

use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::{Instant, PeerNames};

/// Certificates that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRules {
    /// True: a certificate for `sip:user@domain` replaces the password of that user.
    pub users: bool,
    /// Domains of neighbours, whose certificates count as addresses in `[auth] trusted` do.
    pub trusted: Vec<String>,
}

impl CertificateRules {
    /// True for a peer with the certificate of a trusted neighbour.
    pub(crate) fn is_trusted(&self, peer: Option<&PeerNames>, now: Instant) -> bool {
        peer.is_some_and(|peer| self.trusted.iter().any(|name| peer.is_domain(name, now)))
    }
}

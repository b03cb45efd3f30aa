//! Keys of the server's MACs.

use super::lines::Lines;
use crate::Config;

/// Keys of the server's MACs, each for one purpose, all derived from the secret.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// To tags of responses without a transaction.
    pub(crate) tag: [u8; 16],
    /// Record-Route marks.
    pub(crate) route: [u8; 16],
    /// Loop marks in branches.
    pub(crate) looped: [u8; 16],
    /// Call-IDs of calls with a connection of their own.
    pub(crate) calls: [u8; 16],
    /// Flow tokens.
    pub(crate) flow: [u8; 16],
    /// Flow tokens of links.
    pub(crate) link: [u8; 16],
    /// Temporary GRUUs.
    pub(crate) gruu: GruuKeys,
    /// Entity tags of publications.
    pub(crate) event: [u8; 16],
    /// Numbers of kept messages.
    pub(crate) message: [u8; 16],
    /// Tokens of the contacts that trunks register.
    pub(crate) lines: Lines,
    /// Key of what trunks must not see.
    pub(crate) hidden: [u8; 16],
}

impl Keys {
    /// Keys of a server. A node has those in common with the others that name nothing of one node.
    pub(super) fn of(config: &Config) -> Self {
        let own = config.own_secret();
        let common = |purpose: &[u8]| match &config.links {
            None => (derive(&config.secret, purpose), None),
            Some(links) => links.keys(purpose),
        };
        let (current, accepted) = common(b"gruu");
        let (of_lines, accepted_of_lines) = common(b"line");
        Self {
            tag: common(b"tag").0,
            route: derive(&own, b"route"),
            looped: derive(&own, b"loop"),
            calls: derive(&own, b"calls"),
            flow: derive(&own, b"flow"),
            link: derive(&own, b"link"),
            gruu: GruuKeys { current, accepted },
            event: derive(&own, b"event"),
            message: derive(&own, b"message"),
            lines: Lines::of(&config.trunking, of_lines, accepted_of_lines),
            hidden: common(b"hidden").0,
        }
    }
}

impl Keys {
    /// Key of the flow tokens that other nodes get. Links without TLS of their own, as in the simulator, are those of an edge.
    pub(crate) const fn of_links(&self, config: &Config) -> &[u8; 16] {
        match config.links {
            Some(_) => &self.link,
            None => &self.flow,
        }
    }
}

/// Keys of temporary GRUUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GruuKeys {
    /// Key of those that are given.
    pub(crate) current: [u8; 16],
    /// Key that is accepted too.
    pub(crate) accepted: Option<[u8; 16]>,
}

impl GruuKeys {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8; 16]> {
        core::iter::once(&self.current).chain(&self.accepted)
    }
}

/// Derives the key for one purpose from the secret.
pub(crate) fn derive(secret: &[u8; 32], purpose: &[u8]) -> [u8; 16] {
    use hmac::{Hmac, KeyInit, Mac};
    let key = secret.as_slice();
    let mac = Hmac::<sha2::Sha256>::new_from_slice(key);
    let mut mac = mac.unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(purpose);
    let mut derived = [0; 16];
    for (to, from) in derived.iter_mut().zip(mac.finalize().into_bytes()) {
        *to = from;
    }
    derived
}

//! Targets of diversions.

use crate::Config;
use crate::report::DiversionReason;
use alloc::vec::Vec;
use ringway_sip::{Scheme, Uri};

/// Target of a diversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DivertedTo {
    pub(crate) uri: Vec<u8>,
    /// True if it is outside the server's domains.
    pub(crate) leaves: bool,
}

impl DivertedTo {
    /// Target for a request with a Request-URI of `scheme`; `None`: the request cannot go there.
    pub(crate) fn new(config: &Config, scheme: Scheme, uri: &[u8], reason: DiversionReason) -> Option<Self> {
        let parsed = Uri::parse(uri).ok()?;
        let leaves = config.domain_of(&parsed).is_none();
        let mut to = Vec::with_capacity(uri.len() + ADDED_BYTES);
        match (scheme, parsed.scheme()) {
            // RFC 5630 §5.3: never downgraded. A user of ours has an address of either scheme.
            (Scheme::Sips, Scheme::Sip) if leaves => return None,
            (Scheme::Sips, Scheme::Sip) => {
                to.extend_from_slice(b"sips:");
                to.extend_from_slice(uri.get(4..)?);
            }
            (_, _) => to.extend_from_slice(uri),
        }
        match reason {
            DiversionReason::Forward(_) => {
                to.extend_from_slice(b";cause=");
                to.extend_from_slice(reason.cause());
            }
            // A contact of a phone is used as it is.
            DiversionReason::Redirect => {}
        }
        Some(Self { uri: to, leaves })
    }
}

/// Length of an `s` and of `;cause=486`.
const ADDED_BYTES: usize = 11;

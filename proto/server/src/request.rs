//! A request on its way through the pipeline.

use crate::auth::Grant;
use ringway_sansio::Flow;
use ringway_sip::{Message, Method, Uri};
use ringway_transaction::MatchKey;

/// A request that is being handled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'m, 'a> {
    pub(crate) message: &'m Message<'a>,
    pub(crate) method: Method<'a>,
    /// The Request-URI as it came.
    pub(crate) uri: Uri<'a>,
    pub(crate) flow: Flow,
    /// Matches its transaction; `None` for a REGISTER that was not looked up among the transactions, and for a request that
    /// was kept.
    pub(crate) key: Option<MatchKey>,
    /// The permission of its sender: a stranger's, before the access rules were applied.
    pub(crate) grant: Grant,
}

impl Request<'_, '_> {
    /// True when its source is known to receive what is sent to it.
    pub(crate) const fn is_verified(&self) -> bool {
        self.flow.transport.is_reliable() || self.grant.is_verified
    }
}

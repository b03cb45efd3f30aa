//! Message that may be kept.

use crate::Aor;
use crate::base::Grant;
use alloc::sync::Arc;
use ringway_sansio::Flow;

/// Users of a message that is kept if no phone takes it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) recipient: Aor,
    /// User whose password was proven.
    pub(crate) sender: Aor,
}

/// Request that no phone of its user took.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) request: Arc<[u8]>,
    pub(crate) flow: Flow,
    pub(crate) grant: Grant,
    pub(crate) candidate: Candidate,
}

//! Users of a message that may be kept.

use crate::Aor;

/// Users of a message that is kept if no phone takes it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) recipient: Aor,
    /// User whose password was proven.
    pub(crate) sender: Aor,
}

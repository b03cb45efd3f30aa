//! Media relays: rule, mark in Record-Route, origin of an SDP.

mod mark;
mod rule;

pub(crate) use mark::{MEDIA_MARK, MediaMark};
pub(crate) use rule::{Hop, converted_plan, is_sdp, plan_of};
pub(crate) use rule::{holder_of, interfaces_of, source_of_answer, source_of_offer};

/// Maximum length of an SDP that a relay gets or gives.
pub(crate) const SDP_BYTES_MAX: usize = 8192;
/// Maximum number of bytes that a relay's SDP is longer than the one it replaces: candidates, fingerprint, keys.
pub(crate) const SDP_ADDED_MAX: usize = 3072;

//! Reason of a CANCEL (RFC 3326): that of the caller is copied; phones that did not answer learn that another one did.

use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Message};

/// For the phones that did not answer: the call is none that was missed (RFC 3326 §3.1).
pub(super) const ELSEWHERE: &[u8] = b"SIP;cause=200;text=\"Call completed elsewhere\"\n";

/// Values of Reason in a CANCEL, to be copied (RFC 3326 §2). Long ones are left out.
pub(super) fn of(cancel: &Message<'_>) -> Option<Arc<[u8]>> {
    let mut reasons = Vec::new();
    for value in cancel.lines_of(HeaderName::Reason) {
        let is_one_line = value.iter().all(|&byte| byte >= b' ' || byte == b'\t');
        if !is_one_line || reasons.len() + value.len() > REASON_BYTES_MAX {
            continue;
        }
        reasons.extend_from_slice(value);
        reasons.push(b'\n');
    }
    (!reasons.is_empty()).then(|| reasons.into())
}

/// Maximum bytes of the values of Reason that are copied.
const REASON_BYTES_MAX: usize = 512;

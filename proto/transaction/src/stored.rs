//! Sent request, stored for retransmission, CANCEL and ACK.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes of a request. Branches of a fork share the bytes that their requests end with.
#[derive(Debug, Default)]
pub(crate) struct StoredRequest {
    own: Vec<u8>,
    /// Shared bytes, and the position in them at which the rest of the request begins.
    shared: Option<(Arc<[u8]>, usize)>,
}

impl StoredRequest {
    /// Stores bytes without sharing.
    pub(crate) const fn new(own: Vec<u8>) -> Self {
        Self { own, shared: None }
    }

    /// Replaces the end that the request has in common with `original` by a reference, if it is long enough.
    pub(crate) fn share(&mut self, original: &Arc<[u8]>) {
        if self.shared.is_some() || original.len() < SHARED_BYTES_MIN {
            return;
        }
        let pairs = self.own.iter().rev().zip(original.iter().rev());
        let common = pairs.take_while(|(own, original)| own == original).count();
        if common >= SHARED_BYTES_MIN {
            self.own.truncate(self.own.len() - common);
            self.own.shrink_to_fit();
            self.shared = Some((Arc::clone(original), original.len() - common));
        }
    }

    /// Appends the request.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.own);
        if let Some((shared, start)) = &self.shared {
            out.extend_from_slice(shared.get(*start..).unwrap_or_default());
        }
    }

    /// Request in one piece.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        if self.shared.is_none() {
            return Cow::Borrowed(&self.own);
        }
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        Cow::Owned(bytes)
    }

    /// Clears the request and returns its buffer.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.shared = None;
        core::mem::take(&mut self.own)
    }
}

/// Below this length, finding a common end costs more than a copy. Most messages are shorter.
const SHARED_BYTES_MIN: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_end_is_shared_and_reads_back_as_it_was() {
        let body = "x".repeat(5000);
        let original: Arc<[u8]> =
            alloc::format!("INVITE sip:a SIP/2.0\r\nTo: b\r\n\r\n{body}").into_bytes().into();
        let sent = alloc::format!("INVITE sip:c SIP/2.0\r\nVia: v\r\nTo: b\r\n\r\n{body}").into_bytes();
        let mut stored = StoredRequest::new(sent.clone());
        stored.share(&original);
        assert!(stored.own.capacity() < 100 && Arc::strong_count(&original) == 2);
        assert_eq!(stored.bytes().as_ref(), sent);
        stored.take_buffer();
        assert_eq!(Arc::strong_count(&original), 1);
        let mut short = StoredRequest::new(b"short".to_vec());
        short.share(&Arc::from(b"short".as_slice()));
        assert_eq!((short.own.as_slice(), short.shared.is_none()), (b"short".as_slice(), true));
    }
}

//! Contacts of a user as its kept messages name them, and those that failed.

use crate::location::Binding;
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use siphasher::sip::SipHasher13;

/// Keyed hash of a contact: of its instance and reg-id, or of its URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContactId(u64);

/// Contacts in the order in which they failed, the last one at the end.
#[derive(Debug, Default)]
pub(super) struct Failed(Vec<ContactId>);

impl ContactId {
    pub(super) fn of(key: &[u8; 16], binding: &Binding) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        match binding.flow_key() {
            Some(flow) => {
                hash.part(flow.instance);
                hash.fixed(&flow.reg_id.to_le_bytes());
            }
            None => hash.part(binding.uri()),
        }
        Self(hash.hasher().finish())
    }
}

impl Failed {
    pub(super) fn note(&mut self, id: ContactId) {
        self.forget(id);
        if self.0.len() >= FAILED_MAX {
            self.0.remove(0);
        }
        self.0.push(id);
    }

    /// Notes it as the one that failed first.
    pub(super) fn note_first(&mut self, id: ContactId) {
        self.forget(id);
        self.0.insert(0, id);
    }

    pub(super) fn forget(&mut self, id: ContactId) {
        self.0.retain(|other| *other != id);
    }

    /// Position among those that failed; the one that failed first has 0.
    pub(super) fn position(&self, id: ContactId) -> Option<usize> {
        self.0.iter().position(|other| *other == id)
    }

    pub(super) fn has(&self, id: ContactId) -> bool {
        self.position(id).is_some()
    }
}

/// Maximum number of failed contacts that are remembered.
const FAILED_MAX: usize = 32;

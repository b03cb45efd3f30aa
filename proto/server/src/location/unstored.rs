//! Users whose last change the store did not take.

use crate::StoreFailed;
use crate::rate::SeededHash;
use alloc::boxed::Box;
use hashbrown::HashSet;
use ringway_sansio::Seed;

/// Addresses-of-record whose bindings in memory are not those in the store. A REGISTER that changes nothing, because it
/// repeats the one that was answered 503, must not be told that all is well.
#[derive(Debug)]
pub(crate) struct Unstored {
    /// Keys come from peers: a seeded hash.
    aors: HashSet<Box<[u8]>, SeededHash>,
    /// There were more than are remembered: everyone counts as one of them until the program ends.
    is_everyone: bool,
}

impl Unstored {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self { aors: HashSet::with_hasher(SeededHash::new(seed)), is_everyone: false }
    }

    /// True when the store must be told again whatever a REGISTER changes.
    pub(crate) fn holds(&self, aor: &[u8]) -> bool {
        self.is_everyone || (!self.aors.is_empty() && self.aors.contains(aor))
    }

    /// Notes whether the store took the bindings.
    pub(crate) fn note(&mut self, aor: &[u8], stored: Result<(), StoreFailed>) {
        match stored {
            Ok(()) => {
                if !self.aors.is_empty() {
                    self.aors.remove(aor);
                }
            }
            Err(StoreFailed) if self.aors.len() >= Self::AORS_MAX => self.is_everyone = true,
            Err(StoreFailed) => {
                self.aors.insert(aor.into());
            }
        }
    }

    /// Users remembered at once.
    const AORS_MAX: usize = 65_536;
}

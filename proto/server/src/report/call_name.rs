//! Name of a call in one step, and the maps by such names.

use core::hash::{BuildHasherDefault, Hasher};

/// Hasher of keys that are made of such names: they are keyed hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameHasher(u64);

pub(crate) type NameHash = BuildHasherDefault<NameHasher>;

/// Name of a step: its call, its sides, and the transaction that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// Call-ID.
    pub(crate) call: u64,
    /// From tag; 0: none.
    pub(crate) from: u64,
    /// To tag; 0: none, or no step of its kind depends on it.
    pub(crate) to: u64,
    /// Topmost Via of the INVITE as it was received (branch and sent-by), and its CSeq number; of no meaning in the name of a BYE.
    pub(crate) via: u64,
    /// The same of the second Via, which is that of the pass before if this server sent the INVITE to itself; otherwise 0.
    pub(crate) before: u64,
    /// Request-URI of the INVITE; of no meaning in the name of a BYE.
    pub(crate) uri: u64,
    /// CSeq number.
    pub(crate) cseq: u32,
    /// Cause of the call, whose share of the table it takes: the user whose password the caller proved, otherwise its address. 0 except for
    /// [`CallStep::Begun`](crate::CallStep::Begun).
    pub(crate) owner: u64,
}

/// Transaction of an INVITE, by the keyed hashes of its Via and its Request-URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pass {
    pub(crate) via: u64,
    pub(crate) uri: u64,
}

impl Hasher for NameHasher {
    /// The low bits of a product depend on the low bits of its factors only, and a table takes the low bits: without the high half, CSeq
    /// numbers that a peer chooses would collide. A second product spreads their pattern.
    fn finish(&self) -> u64 {
        let folded = (self.0 ^ (self.0 >> 32)).wrapping_mul(MULTIPLIER);
        folded ^ (folded >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(MULTIPLIER);
    }
}

impl CallName {
    /// Partition of the call among `count`: all messages with its Call-ID have the same.
    pub fn partition(&self, count: usize) -> usize {
        (self.call >> 32) as usize % count.max(1)
    }

    pub(crate) const fn pass(&self) -> Pass {
        Pass { via: self.via, uri: self.uri }
    }
}

/// An odd number, so that no bit of a name is lost.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_cseq_numbers_do_not_collide() {
        const BITS: u32 = 13;
        for shift in 0..20 {
            let mut slots = alloc::vec![0; 1 << BITS];
            for number in 0..4096_u32 {
                let mut hash = NameHasher::default();
                // As in the name of a pass.
                hash.write_u64(0x1234_5678_9abc_def0 ^ u64::from(number << shift));
                slots[hash.finish() as usize % (1 << BITS)] += 1;
            }
            // Random names have at most about 7 in a slot.
            let most = slots.iter().max();
            assert!(most.is_some_and(|most| *most <= 16), "{shift}: {most:?}");
        }
    }
}

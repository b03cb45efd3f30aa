//! Connections to neighbours: opened at the start, kept, checked with OPTIONS, opened again after a back-off.

mod keeper;
pub(crate) mod line;
mod link;
mod registration;
mod sending;

pub(crate) use keeper::Neighbours;
pub(crate) use registration::Registrations;
pub(crate) use sending::Sending;

/// Asker of a lookup; its query has the two highest bits of its own, then an index and the number of an attempt. The proxy's queries are
/// below 2^63.
#[derive(Clone, Copy, Debug)]
enum Asker {
    Neighbour = 0b10,
    Registration = 0b11,
}

impl Asker {
    /// `index` is at most 255.
    const fn query(self, index: usize, attempt: u32) -> u64 {
        (self as u64) << 62 | (index as u64) << 32 | attempt as u64
    }

    /// Index and attempt of a query; `None`: another one asked.
    fn read(self, query: u64) -> Option<(usize, u32)> {
        let index = (query << 2 >> 34) as usize;
        (query >> 62 == self as u64).then_some((index, query as u32))
    }
}

/// RFC 3261 §8.1.1.5: below 2^31.
const CSEQ_MAX: u32 = (1 << 31) - 2;

//! Connections to neighbours: opened at the start, kept, checked with OPTIONS, opened again after a back-off.

mod keeper;
pub(crate) mod line;
mod link;
mod owners;
mod probe;
mod rate;
mod registration;
mod registrations;
mod schedule;
mod sending;
mod server_choice;

pub(crate) use keeper::Neighbours;
pub(crate) use registrations::Registrations;
pub(crate) use sending::Sending;

/// Asker of a lookup; its query has the two highest bits of its own, then its number and that of an attempt. The proxy's queries are
/// below 2^63.
#[derive(Clone, Copy, Debug)]
enum Asker {
    Neighbour = 0b10,
    Registration = 0b11,
}

impl Asker {
    const fn query(self, number: u16, attempt: u32) -> u64 {
        (self as u64) << 62 | (number as u64) << 32 | attempt as u64
    }

    /// Number and attempt of a query; `None`: another one asked.
    fn read(self, query: u64) -> Option<(u16, u32)> {
        (query >> 62 == self as u64).then_some(((query >> 32) as u16, query as u32))
    }
}

/// RFC 3261 §8.1.1.5: below 2^31.
const CSEQ_MAX: u32 = (1 << 31) - 2;

//! Limits of read-throughs to the store that nodes share.

use crate::SourceRates;
use core::net::IpAddr;
use ringway_sansio::{Instant, Seed};

/// Reason for not reading a user's bindings from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocateRefusal {
    /// This source caused too many.
    TooOften,
    /// Too many are under way.
    TooMany,
}

/// Read-throughs of a node: 20 a second for a source, 256 under way.
#[derive(Debug)]
pub struct LocateLimits {
    rates: SourceRates,
    under_way: usize,
}

impl LocateLimits {
    /// Maximum number of read-throughs under way.
    pub const UNDER_WAY_MAX: usize = 256;
    /// Read-throughs a second for a source.
    pub const PER_SECOND: u32 = 20;

    /// Creates it without read-throughs.
    pub fn new(seed: &Seed) -> Self {
        Self { rates: SourceRates::new(Self::PER_SECOND, seed), under_way: 0 }
    }

    /// Counts the begin of one for a request from `source`.
    ///
    /// # Errors
    /// A limit is reached; nothing is counted.
    pub fn begin(&mut self, now: Instant, source: IpAddr) -> Result<(), LocateRefusal> {
        if self.under_way >= Self::UNDER_WAY_MAX {
            return Err(LocateRefusal::TooMany);
        }
        if !self.rates.admit(now, source) {
            return Err(LocateRefusal::TooOften);
        }
        self.under_way += 1;
        Ok(())
    }

    /// Counts the end of one.
    pub const fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

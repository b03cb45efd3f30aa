//! Limits of read-throughs to the store that nodes share.

use crate::{Hold, SourceRates};
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

/// Read-throughs of a node: a rate for each source, and a number under way.
#[derive(Debug)]
pub struct LocateLimits {
    rates: SourceRates,
    proven_rates: SourceRates,
    under_way: usize,
    under_way_max: usize,
}

impl LocateLimits {
    /// Maximum number of read-throughs under way in a node that holds all users.
    pub const UNDER_WAY_MAX: usize = 256;
    /// The same in a node that holds those that it serves.
    pub const UNDER_WAY_MAX_SERVED: usize = 4_096;
    /// Read-throughs a second for a source.
    pub const PER_SECOND: u32 = 20;
    /// Read-throughs a second for the requests of a source with a proof: a trusted address, or a proven password.
    pub const PER_SECOND_PROVEN: u32 = 2_000;

    /// Creates it without read-throughs.
    pub fn new(hold: Hold, seed: &Seed) -> Self {
        let under_way_max = match hold {
            Hold::All => Self::UNDER_WAY_MAX,
            Hold::Served => Self::UNDER_WAY_MAX_SERVED,
        };
        let rates = SourceRates::new(Self::PER_SECOND, seed);
        let proven_rates = SourceRates::new(Self::PER_SECOND_PROVEN, seed);
        Self { rates, proven_rates, under_way: 0, under_way_max }
    }

    /// Counts the begin of one for a request from `source`, whose sender is proven or not.
    ///
    /// # Errors
    /// A limit is reached; nothing is counted.
    pub fn begin(&mut self, now: Instant, source: IpAddr, is_proven: bool) -> Result<(), LocateRefusal> {
        if self.under_way >= self.under_way_max {
            return Err(LocateRefusal::TooMany);
        }
        let rates = if is_proven { &mut self.proven_rates } else { &mut self.rates };
        if !rates.admit(now, source) {
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

//! The most memory that the tables of a server take.

use super::admission::UrgentRates;
use super::locating::Locating;
use super::overload::Overload;
use crate::base::EndedInvites;
use crate::presence::SUBSCRIPTIONS_MAX;
use crate::proxy::Lookups;
use crate::{Config, SharedTables, TableLimits};
use alloc::vec::Vec;
use ringway_sansio::TableSize;

/// The most memory that the tables of all shards, and those that they share, take with a configuration, besides registrations, what is
/// booked on [`TableLimits::memory`] and the configuration itself.
pub fn table_sizes(limits: &TableLimits, config: &Config, shards: usize) -> Vec<TableSize> {
    let mut sizes = SharedTables::sizes(limits, config, shards * SUBSCRIPTIONS_MAX);
    let of_shard =
        [EndedInvites::size(), UrgentRates::size(), Locating::size(), Lookups::size(), Overload::size()];
    sizes.extend(of_shard.map(|size| size.times(shards)));
    sizes
}

//! NAPTR and SRV records in the order in which they are used (RFC 3403 §4, RFC 2782).

use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::Rng;

/// NAPTR record (RFC 3403 §4).
#[derive(Clone, Copy, Debug)]
pub struct Naptr<'r> {
    /// The lowest is used first.
    pub order: u16,
    /// Order among records of the same `order`.
    pub preference: u16,
    /// `s`: the replacement has SRV records; `u`: the substitution gives a URI.
    pub flags: &'r str,
    /// `SIP+D2U`, `SIP+D2T` or `SIPS+D2T` for the transports UDP, TCP and TLS (RFC 3263 §4.1); `E2U+sip` for a number
    /// (RFC 3764).
    pub service: &'r str,
    /// Substitution expression (RFC 3402 §3.2); empty: none.
    pub regexp: &'r str,
    /// Domain name.
    pub replacement: &'r str,
}

/// SRV record (RFC 2782).
#[derive(Clone, Copy, Debug)]
pub struct Srv<'r> {
    /// The lowest is used first.
    pub priority: u16,
    /// Share of the requests among records of the same priority.
    pub weight: u16,
    /// Port of the server.
    pub port: u16,
    /// Host name of the server; `.`: there is no such server.
    pub target: &'r str,
}

/// Host and port of an SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SrvTarget {
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
}

/// Maximum number of SRV records that are considered, those of the lowest priorities.
pub(crate) const SRV_MAX: usize = 64;

/// Maximum number of NAPTR records that are considered.
pub(crate) const NAPTR_MAX: usize = 16;

/// Maximum length of a domain name as text (RFC 1035 §2.3.4, with a final dot).
pub(crate) const NAME_BYTES_MAX: usize = 254;

/// The first records in the order of NAPTR, with the names that can be looked up.
pub(crate) fn by_order<'r>(records: impl IntoIterator<Item = Naptr<'r>>) -> Vec<Naptr<'r>> {
    let mut ranked: Vec<Naptr<'r>> = records.into_iter().take(NAPTR_MAX).collect();
    ranked.sort_by_key(|record| (record.order, record.preference));
    ranked
}

/// Puts SRV records into the order of RFC 2782. `None`: the records say that there is no such service.
pub(crate) fn by_priority<'r>(
    records: impl IntoIterator<Item = Srv<'r>>,
    rng: &mut Rng,
) -> Option<Vec<SrvTarget>> {
    let mut ranked: Vec<Srv<'r>> = Vec::new();
    for record in records {
        ranked.push(record);
        if ranked.len() >= 2 * SRV_MAX {
            keep_lowest(&mut ranked);
        }
    }
    keep_lowest(&mut ranked);
    if !ranked.is_empty() && ranked.iter().all(|record| matches!(record.target, "." | "")) {
        return None;
    }
    ranked.retain(|record| is_name(record.target) && record.port != 0);
    let mut targets = Vec::with_capacity(ranked.len());
    while let Some(lowest) = ranked.first().map(|record| record.priority) {
        let mut group = ranked.iter().take_while(|record| record.priority == lowest);
        let sum: u64 = group.clone().map(|record| u64::from(record.weight)).sum();
        let drawn = rng.below(sum + 1);
        let mut running = 0;
        let chosen = group.position(|record| {
            running += u64::from(record.weight);
            running >= drawn
        });
        let record = ranked.remove(chosen.unwrap_or(0));
        targets.push(SrvTarget { host: record.target.into(), port: record.port });
    }
    Some(targets)
}

/// Keeps the records of the lowest priorities. Within one priority those without weight are first (RFC 2782).
fn keep_lowest(records: &mut Vec<Srv<'_>>) {
    records.sort_by_key(|record| (record.priority, record.weight));
    records.truncate(SRV_MAX);
}

pub(crate) fn is_name(name: &str) -> bool {
    !matches!(name, "" | ".") && name.len() <= NAME_BYTES_MAX
}

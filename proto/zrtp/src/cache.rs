//! Retained secrets of earlier calls (RFC 6189 §4.9), as a value that the application loads and stores.

use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;
use ringway_sansio::Instant;
use zeroize::Zeroize;

/// Identity of a ZRTP endpoint: 96 random bits, generated once when a phone is set up (RFC 6189 §4.9).
pub type Zid = [u8; 12];

/// Cache entry of one peer. The secrets are erased when dropped.
///
/// The secrets allow an undetected man in the middle in the next call; store them like a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Retained {
    /// Identity of the peer.
    pub zid: Zid,
    /// Retained secret of the last call.
    pub rs1: [u8; 32],
    /// Retained secret of the call before; the peer may have missed the end of the last call.
    pub rs2: Option<[u8; 32]>,
    /// The user has compared the short authentication string with this peer in this or an earlier call.
    pub sas_verified: bool,
    /// Time from which on a peer that lost its secret is not suspicious.
    pub expires_at: Instant,
    /// Time of the last change.
    pub used_at: Instant,
}

impl Retained {
    /// True until the entry expires, that is while the peer must still have the secret.
    pub fn is_current(&self, now: Instant) -> bool {
        now < self.expires_at
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        self.rs1.zeroize();
        self.rs2.zeroize();
    }
}

impl fmt::Debug for Retained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Retained(sas_verified: {})", self.sas_verified)
    }
}

/// Cache of retained secrets, at most [`ZidCache::ENTRIES_MAX`] peers, because every caller adds an entry.
#[derive(Clone, Debug, Default)]
pub struct ZidCache {
    entries: BTreeMap<Zid, Retained>,
}

impl ZidCache {
    /// Maximum number of entries. A further entry replaces the least recently used one whose string was never
    /// compared.
    pub const ENTRIES_MAX: usize = 1000;

    /// Entry of a peer.
    pub fn find(&self, zid: &Zid) -> Option<&Retained> {
        self.entries.get(zid)
    }

    /// Inserts or replaces the entry of a peer. Returns the peer whose entry was removed to make room.
    pub fn insert(&mut self, retained: Retained) -> Option<Zid> {
        let forgotten = (self.entries.len() >= Self::ENTRIES_MAX
            && !self.entries.contains_key(&retained.zid))
        .then(|| self.least_missed())
        .flatten();
        if let Some(zid) = forgotten {
            self.entries.remove(&zid);
        }
        self.entries.insert(retained.zid, retained);
        forgotten
    }

    /// Removes the entry of a peer.
    pub fn remove(&mut self, zid: &Zid) {
        self.entries.remove(zid);
    }

    /// All entries, in the order of the identities.
    pub fn iter(&self) -> impl Iterator<Item = &Retained> {
        self.entries.values()
    }

    fn least_missed(&self) -> Option<Zid> {
        self.entries.values().min_by_key(|entry| (entry.sas_verified, entry.used_at)).map(|entry| entry.zid)
    }
}

/// Expiry time for the cache interval of a Confirm (RFC 6189 §4.9); all ones mean never.
pub(crate) fn expiry(now: Instant, interval_s: u32) -> Instant {
    if interval_s == u32::MAX { Instant::FAR } else { now + Duration::from_secs(interval_s.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retained(number: u16, sas_verified: bool) -> Retained {
        let mut zid = [0; 12];
        zid[..2].copy_from_slice(&number.to_be_bytes());
        Retained {
            zid,
            rs1: [1; 32],
            rs2: None,
            sas_verified,
            expires_at: Instant::FAR,
            used_at: Instant::from_secs(number.into()),
        }
    }

    #[test]
    fn a_full_cache_removes_the_oldest_unverified_entry() {
        let mut cache = ZidCache::default();
        for number in 0..ZidCache::ENTRIES_MAX as u16 {
            assert_eq!(cache.insert(retained(number, number < 10)), None);
        }
        assert_eq!(cache.insert(retained(5, true)), None, "already in the cache");
        assert_eq!(cache.insert(retained(5000, false)), Some(retained(10, false).zid));
        assert_eq!(cache.iter().count(), ZidCache::ENTRIES_MAX);
        assert!(cache.find(&retained(0, true).zid).is_some());
        cache.remove(&retained(0, true).zid);
        assert!(cache.find(&retained(0, true).zid).is_none());
    }

    #[test]
    fn an_interval_of_all_ones_never_expires() {
        let now = Instant::from_secs(100);
        assert_eq!(expiry(now, u32::MAX), Instant::FAR);
        assert_eq!(expiry(now, 60), Instant::from_secs(160));
    }
}

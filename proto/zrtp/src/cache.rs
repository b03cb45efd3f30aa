//! What two ends remember of each other from call to call (RFC 6189 §4.9): a value that is given in and handed out.

use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;
use ringway_sansio::Instant;
use zeroize::Zeroize;

/// The identity of a ZRTP endpoint: 96 bits of chance, made once when a phone is set up (RFC 6189 §4.9).
pub type Zid = [u8; 12];

/// What is remembered of one peer. The secrets are erased when dropped.
///
/// Whoever has these can sit in the middle of the next call unseen: they are stored like a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Retained {
    /// Who it is.
    pub zid: Zid,
    /// The secret of the last call.
    pub rs1: [u8; 32],
    /// The secret of the call before it: the peer may have missed the end of the last one.
    pub rs2: Option<[u8; 32]>,
    /// The user has compared the short authentication string with this peer, in this call or an earlier one.
    pub sas_verified: bool,
    /// From when on the peer may have forgotten us without being suspect.
    pub expires_at: Instant,
    /// When it was last changed.
    pub used_at: Instant,
}

impl Retained {
    /// True when the peer is still bound to remember us.
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

/// The peers that a phone remembers: at most [`ZidCache::ENTRIES_MAX`], because any caller makes one.
#[derive(Clone, Debug, Default)]
pub struct ZidCache {
    entries: BTreeMap<Zid, Retained>,
}

impl ZidCache {
    /// How many peers are remembered. A further one takes the place of the one whose string was never compared and that
    /// was not heard of for the longest time.
    pub const ENTRIES_MAX: usize = 1000;

    /// What is remembered of a peer.
    pub fn find(&self, zid: &Zid) -> Option<&Retained> {
        self.entries.get(zid)
    }

    /// Remembers; what was known of this peer is replaced. Returns whom it cost the place.
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

    /// Forgets a peer.
    pub fn remove(&mut self, zid: &Zid) {
        self.entries.remove(zid);
    }

    /// Everything, in the order of the identities.
    pub fn iter(&self) -> impl Iterator<Item = &Retained> {
        self.entries.values()
    }

    fn least_missed(&self) -> Option<Zid> {
        self.entries.values().min_by_key(|entry| (entry.sas_verified, entry.used_at)).map(|entry| entry.zid)
    }
}

/// Until when a secret is kept, for an interval of a Confirm (RFC 6189 §4.9); all ones mean for ever.
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
    fn a_full_cache_forgets_the_oldest_stranger_and_keeps_the_verified() {
        let mut cache = ZidCache::default();
        for number in 0..ZidCache::ENTRIES_MAX as u16 {
            assert_eq!(cache.insert(retained(number, number < 10)), None);
        }
        assert_eq!(cache.insert(retained(5, true)), None, "known already");
        assert_eq!(cache.insert(retained(5000, false)), Some(retained(10, false).zid));
        assert_eq!(cache.iter().count(), ZidCache::ENTRIES_MAX);
        assert!(cache.find(&retained(0, true).zid).is_some());
        cache.remove(&retained(0, true).zid);
        assert!(cache.find(&retained(0, true).zid).is_none());
    }

    #[test]
    fn all_ones_mean_for_ever() {
        let now = Instant::from_secs(100);
        assert_eq!(expiry(now, u32::MAX), Instant::FAR);
        assert_eq!(expiry(now, 60), Instant::from_secs(160));
    }
}

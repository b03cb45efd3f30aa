//! Nonces that are verified by their MAC and time, so that none is stored.
//!
//! 22 bytes in hexadecimal: 6 of milliseconds since the epoch, 4 of a counter, 2 of the shard, 10 of a MAC over these and
//! the source address. The MAC is SipHash-2-4 with a new key at each start (decision 0004): a nonce from before a restart
//! is always stale, because its used nonce counts are lost.
//!
//! Servers that share a key ([`NonceMaker::share`], the nodes of decision 0050) accept each other's nonces. Theirs have 26 bytes: 4 of a
//! marker before the MAC, by the key of the start, show the node that made it; the MAC covers them.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::{Defence, Instant, PartHasher, Seed, source_of};
use ringway_sip::{hex16, read_hex};
use sha2::Sha256;
use siphasher::sip128::{Hasher128, SipHasher24};

/// Creates and verifies nonces. Shards with the same secret and seed accept each other's.
#[derive(Clone)]
pub struct NonceMaker {
    key: [u8; 16],
    lifetime: Duration,
    shard: u16,
    counter: u32,
    shared: Option<SharedKeys>,
}

/// Keys of the MAC that all nodes have.
#[derive(Clone, Copy)]
struct SharedKeys {
    current: [u8; 16],
    previous: Option<[u8; 16]>,
}

/// Identity of a nonce: time, shard and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NonceId {
    /// Time of its creation, in milliseconds since the epoch.
    pub made_ms: u64,
    /// Number of the nonce in its shard.
    pub counter: u32,
    /// Shard that created it.
    pub shard: u16,
}

/// Result of verifying a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceAge {
    /// Ours, and not older than its lifetime.
    Fresh(NonceId),
    /// Of another node, or from before the last start, and not older than its lifetime.
    FreshElsewhere(NonceId),
    /// Ours, but too old or from the future.
    Old,
    /// Not ours, or from before the last start.
    Foreign,
}

impl NonceAge {
    pub(crate) const fn is_fresh(self) -> bool {
        matches!(self, Self::Fresh(_) | Self::FreshElsewhere(_))
    }
}

impl core::fmt::Debug for NonceMaker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NonceMaker").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl NonceMaker {
    /// Creates it from 32 secret bytes and the seed of this start.
    pub fn new(secret: &[u8; 32], seed: &Seed, lifetime: Duration, shard: u16) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(secret.as_slice());
        let mut mac = mac.unwrap_or_else(|_| Hmac::new(&Default::default()));
        mac.update(b"nonce");
        mac.update(seed.bytes());
        let mut key = [0; 16];
        key.copy_from_slice(mac.finalize().into_bytes().split_at(16).0);
        Self { key, lifetime, shard, counter: 0, shared: None }
    }

    /// Makes nonces that all nodes with the key `current` accept, and accepts those of `previous` too; no key: only its own.
    pub fn share(&mut self, keys: Option<([u8; 16], Option<[u8; 16]>)>) {
        self.shared = keys.map(|(current, previous)| SharedKeys { current, previous });
    }

    /// Sets the lifetime of nonces.
    pub const fn set_lifetime(&mut self, lifetime: Duration) {
        self.lifetime = lifetime;
    }

    /// Appends a new nonce.
    pub fn write(&mut self, now: Instant, source: IpAddr, out: &mut Vec<u8>) {
        self.counter = self.counter.wrapping_add(1);
        let id = NonceId { made_ms: now.as_millis(), counter: self.counter, shard: self.shard };
        let named = named(id);
        if let Some(keys) = self.shared {
            return write_shared(&keys.current, named, self.marker(named), source, out);
        }
        let tag = tag(&self.key, named, None, source);
        let words = [(named >> 32) as u64, (named as u64) << 32 | (tag >> 48) as u64];
        words.iter().for_each(|&word| out.extend_from_slice(&hex16(word)));
        out.extend_from_slice(hex16((tag as u64) << 16).split_at(12).0);
    }

    /// Verifies a nonce from a request.
    pub fn check(&self, now: Instant, source: IpAddr, nonce: &[u8]) -> NonceAge {
        if let Some(keys) = &self.shared {
            return self.check_shared(keys, now, source, nonce);
        }
        let Some((named, given)) = read(nonce) else { return NonceAge::Foreign };
        if core::hint::black_box(given ^ tag(&self.key, named, None, source)) != 0 {
            return NonceAge::Foreign;
        }
        self.age_of(now, named)
    }

    fn check_shared(&self, keys: &SharedKeys, now: Instant, source: IpAddr, nonce: &[u8]) -> NonceAge {
        let Some((named, marker, given)) = read_shared(nonce) else { return NonceAge::Foreign };
        let is_by =
            |key: &[u8; 16]| core::hint::black_box(given ^ tag(key, named, Some(marker), source)) == 0;
        if !is_by(&keys.current) && !keys.previous.is_some_and(|key| is_by(&key)) {
            return NonceAge::Foreign;
        }
        match self.age_of(now, named) {
            age if marker == self.marker(named) => age,
            // One from the future could be forgotten before its time in a replay window.
            NonceAge::Fresh(id) if id.made_ms <= now.as_millis() => NonceAge::FreshElsewhere(id),
            _ => NonceAge::Old,
        }
    }

    fn age_of(&self, now: Instant, named: u128) -> NonceAge {
        let id =
            NonceId { made_ms: (named >> 48) as u64, counter: (named >> 16) as u32, shard: named as u16 };
        let age = now.as_millis().checked_sub(id.made_ms);
        match age {
            Some(age) if u128::from(age) <= self.lifetime.as_millis() => NonceAge::Fresh(id),
            Some(_) if !Defence::NonceLifetime.is_on() => NonceAge::Fresh(id),
            // Created by another node whose clock is slightly ahead.
            None if id.made_ms - now.as_millis() < 1000 => NonceAge::Fresh(id),
            _ => NonceAge::Old,
        }
    }

    /// Shows that this start of this node made a nonce. Nobody can choose it: the MAC covers it.
    fn marker(&self, named: u128) -> u32 {
        let mut hash = PartHasher::new(SipHasher24::new_with_key(&self.key));
        hash.fixed(&named.to_be_bytes());
        hash.hasher().finish128().as_u128() as u32
    }
}

/// Lower 80 bits of the MAC over the identity, the marker if there is one, and the source.
fn tag(key: &[u8; 16], named: u128, marker: Option<u32>, source: IpAddr) -> u128 {
    let mut hash = PartHasher::new(SipHasher24::new_with_key(key));
    hash.fixed(&named.to_be_bytes());
    if let Some(marker) = marker {
        hash.fixed(&marker.to_be_bytes());
    }
    match source_of(source) {
        _ if !Defence::NonceSource.is_on() => {}
        IpAddr::V4(v4) => hash.fixed(&v4.octets()),
        IpAddr::V6(v6) => hash.fixed(&v6.octets()),
    }
    hash.hasher().finish128().as_u128() & ((1 << 80) - 1)
}

fn write_shared(key: &[u8; 16], named: u128, marker: u32, source: IpAddr, out: &mut Vec<u8>) {
    let tag = tag(key, named, Some(marker), source);
    let words = [(named >> 32) as u64, (named as u64) << 32 | u64::from(marker), (tag >> 16) as u64];
    words.iter().for_each(|&word| out.extend_from_slice(&hex16(word)));
    out.extend_from_slice(hex16((tag as u64) << 48).split_at(4).0);
}

/// The 96 bits of the identity, the marker, and the 80 bits of the MAC.
fn read_shared(nonce: &[u8]) -> Option<(u128, u32, u128)> {
    let (words, rest) = nonce.as_chunks::<16>();
    let [first, second, third] = words else { return None };
    if rest.len() != 4 {
        return None;
    }
    let (first, second) = (read_hex(first)?, read_hex(second)?);
    let named = u128::from(first) << 32 | u128::from(second >> 32);
    let tag = u128::from(read_hex(third)?) << 16 | u128::from(read_hex(rest)?);
    Some((named, second as u32, tag))
}

/// Identity of a nonce in 96 bits: 48 of milliseconds, 32 of the counter, 16 of the shard.
fn named(id: NonceId) -> u128 {
    (u128::from(id.made_ms) << 48 | u128::from(id.counter) << 16 | u128::from(id.shard)) & ((1 << 96) - 1)
}

/// The 96 bits of the identity and the 80 bits of the MAC.
fn read(nonce: &[u8]) -> Option<(u128, u128)> {
    let (first, rest) = nonce.split_at_checked(16)?;
    let (second, third) = rest.split_at_checked(16)?;
    if third.len() != 12 {
        return None;
    }
    let (first, second, third) = (read_hex(first)?, read_hex(second)?, read_hex(third)?);
    let named = u128::from(first) << 32 | u128::from(second >> 32);
    Some((named, u128::from(second as u32) << 48 | u128::from(third)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    const SEED: Seed = Seed::from_bytes([1; 32]);

    #[test]
    fn a_nonce_is_valid_for_its_lifetime_on_every_shard() {
        let lifetime = Duration::from_secs(300);
        let mut maker = NonceMaker::new(&[7; 32], &SEED, lifetime, 3);
        let other = NonceMaker::new(&[7; 32], &SEED, lifetime, 0);
        let start = Instant::from_secs(1_700_000_000);
        let mut nonce = Vec::new();
        maker.write(start, SOURCE, &mut nonce);
        assert!(
            matches!(other.check(start + lifetime, SOURCE, &nonce), NonceAge::Fresh(id) if id.shard == 3)
        );
        assert_eq!(other.check(start + lifetime + Duration::from_millis(1), SOURCE, &nonce), NonceAge::Old);
        assert_eq!(other.check(start - Duration::from_secs(5), SOURCE, &nonce), NonceAge::Old);
    }

    #[test]
    fn no_byte_of_it_can_be_changed() {
        let mut maker = NonceMaker::new(&[7; 32], &SEED, Duration::from_secs(300), 0);
        let now = Instant::from_secs(1_700_000_000);
        let mut nonce = Vec::new();
        maker.write(now, SOURCE, &mut nonce);
        let elsewhere = IpAddr::from([192, 0, 2, 2]);
        assert_eq!(
            maker.check(now, elsewhere, &nonce),
            NonceAge::Foreign,
            "it is bound to the address that it was sent to"
        );
        for at in 0..nonce.len() {
            let mut forged = nonce.clone();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(maker.check(now, SOURCE, &forged), NonceAge::Foreign, "byte {at}");
        }
        for (secret, seed) in [([8; 32], SEED), ([7; 32], Seed::from_bytes([2; 32]))] {
            let other = NonceMaker::new(&secret, &seed, Duration::from_secs(300), 0);
            assert_eq!(other.check(now, SOURCE, &nonce), NonceAge::Foreign);
        }
        assert_eq!(maker.check(now, SOURCE, b""), NonceAge::Foreign);
    }

    #[test]
    fn nodes_accept_each_others_nonces_and_distinguish_them() {
        let lifetime = Duration::from_secs(300);
        let node = |secret: u8, start: u8, keys| {
            let seed = Seed::from_bytes([start; 32]);
            let mut maker = NonceMaker::new(&[secret; 32], &seed, lifetime, 0);
            maker.share(Some(keys));
            maker
        };
        let (old, new) = ([1; 16], [2; 16]);
        let mut a = node(7, 1, (old, None));
        let now = Instant::from_secs(1_700_000_000);
        let mut nonce = Vec::new();
        a.write(now, SOURCE, &mut nonce);
        assert!(matches!(a.check(now, SOURCE, &nonce), NonceAge::Fresh(_)));
        for (other, why) in [
            (node(8, 1, (old, None)), "another node"),
            (node(7, 2, (old, None)), "the node after a restart"),
            (node(8, 1, (new, Some(old))), "while the secret changes"),
        ] {
            assert!(matches!(other.check(now, SOURCE, &nonce), NonceAge::FreshElsewhere(_)), "{why}");
            let late = now + lifetime + Duration::from_millis(1);
            assert_eq!(other.check(late, SOURCE, &nonce), NonceAge::Old, "{why}");
            let early = now - Duration::from_millis(1);
            assert_eq!(other.check(early, SOURCE, &nonce), NonceAge::Old, "{why}, whose clock is behind");
        }
        let alone = NonceMaker::new(&[7; 32], &Seed::from_bytes([1; 32]), lifetime, 0);
        for other in [node(7, 1, (new, None)), alone] {
            assert_eq!(other.check(now, SOURCE, &nonce), NonceAge::Foreign);
        }
        let elsewhere = IpAddr::from([192, 0, 2, 2]);
        assert_eq!(a.check(now, elsewhere, &nonce), NonceAge::Foreign);
        for at in 0..nonce.len() {
            let mut forged = nonce.clone();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(a.check(now, SOURCE, &forged), NonceAge::Foreign, "byte {at}");
            assert_eq!(a.check(now, SOURCE, &nonce[..at]), NonceAge::Foreign, "its first {at} bytes");
        }
    }
}

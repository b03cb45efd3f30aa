//! Nonces that are checked by their MAC and time, so that none is kept.
//!
//! 22 bytes in hexadecimal: 6 of milliseconds since the epoch, 4 of a counter, 2 of the shard, 10 of HMAC-SHA-256. The HMAC also
//! covers the seed of this start: a nonce from before a restart is stale, whatever the clock says, because the counts that it was
//! used with are not known any more.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::source_of;
use ringway_sansio::{Instant, Seed};
use ringway_sip::grammar::hex_pair;
use sha2::Sha256;

/// Makes and checks nonces. All shards that share the secret and the seed take each other's.
#[derive(Clone)]
pub struct NonceMaker {
    mac: Hmac<Sha256>,
    lifetime: Duration,
    shard: u16,
    counter: u32,
}

/// Names a nonce: when and by whom it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NonceId {
    /// Milliseconds since the epoch.
    pub made_ms: u64,
    /// Which one of that shard.
    pub counter: u32,
    /// The shard that made it.
    pub shard: u16,
}

/// What a nonce turns out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceAge {
    /// Ours, and young enough.
    Fresh(NonceId),
    /// Ours, but too old or from the future.
    Old,
    /// Not ours, or from before the last start.
    Foreign,
}

impl core::fmt::Debug for NonceMaker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NonceMaker").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl NonceMaker {
    /// From 32 secret bytes and the seed of this start.
    pub fn new(secret: &[u8; 32], seed: &Seed, lifetime: Duration, shard: u16) -> Self {
        let key = secret.as_slice();
        let mac = Hmac::<Sha256>::new_from_slice(key);
        let mut mac = mac.unwrap_or_else(|_| Hmac::new(&Default::default()));
        mac.update(seed.bytes());
        Self { mac, lifetime, shard, counter: 0 }
    }

    /// Sets how long a nonce is good.
    pub const fn set_lifetime(&mut self, lifetime: Duration) {
        self.lifetime = lifetime;
    }

    /// Appends a new nonce.
    pub fn write(&mut self, now: Instant, source: IpAddr, out: &mut Vec<u8>) {
        self.counter = self.counter.wrapping_add(1);
        let mut bytes = [0; NAMED + TAG];
        let (named, tag) = bytes.split_at_mut(NAMED);
        named.copy_from_slice(&pack(now.as_millis(), self.counter, self.shard));
        tag.copy_from_slice(&self.tag(named, source));
        let mut hex = [[0; 2]; NAMED + TAG];
        for (pair, byte) in hex.iter_mut().zip(bytes) {
            *pair =
                [byte >> 4, byte & 15].map(|nibble| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0'));
        }
        out.extend_from_slice(hex.as_flattened());
    }

    /// Looks at a nonce that came back.
    pub fn check(&self, now: Instant, source: IpAddr, nonce: &[u8]) -> NonceAge {
        let mut bytes = [0; NAMED + TAG];
        if nonce.len() != bytes.len() * 2 {
            return NonceAge::Foreign;
        }
        for (byte, pair) in bytes.iter_mut().zip(nonce.chunks_exact(2)) {
            match pair {
                [high, low] => match hex_pair(*high, *low) {
                    Some(value) => *byte = value,
                    None => return NonceAge::Foreign,
                },
                _ => return NonceAge::Foreign,
            }
        }
        let (named, tag) = bytes.split_at(NAMED);
        let expected = self.tag(named, source);
        let difference = expected.iter().zip(tag).fold(0_u8, |sum, (one, two)| sum | (one ^ two));
        if core::hint::black_box(difference) != 0 {
            return NonceAge::Foreign;
        }
        let id = unpack(named);
        let age = now.as_millis().checked_sub(id.made_ms);
        match age {
            Some(age) if u128::from(age) <= self.lifetime.as_millis() => NonceAge::Fresh(id),
            // Made by a node whose clock is a little ahead.
            None if id.made_ms - now.as_millis() < 1000 => NonceAge::Fresh(id),
            _ => NonceAge::Old,
        }
    }

    fn tag(&self, named: &[u8], source: IpAddr) -> [u8; TAG] {
        let mut mac = self.mac.clone();
        mac.update(named);
        match source_of(source) {
            IpAddr::V4(v4) => mac.update(&v4.octets()),
            IpAddr::V6(v6) => mac.update(&v6.octets()),
        }
        let mut tag = [0; TAG];
        for (to, from) in tag.iter_mut().zip(mac.finalize().into_bytes()) {
            *to = from;
        }
        tag
    }
}

fn pack(made_ms: u64, counter: u32, shard: u16) -> [u8; NAMED] {
    let mut named = [0; NAMED];
    let parts =
        made_ms.to_be_bytes().into_iter().skip(2).chain(counter.to_be_bytes()).chain(shard.to_be_bytes());
    for (to, from) in named.iter_mut().zip(parts) {
        *to = from;
    }
    named
}

fn unpack(named: &[u8]) -> NonceId {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |value, &byte| (value << 8) | u64::from(byte));
    let part = |from: usize, to: usize| number(named.get(from..to).unwrap_or_default());
    NonceId { made_ms: part(0, 6), counter: part(6, 10) as u32, shard: part(10, 12) as u16 }
}

const NAMED: usize = 12;
const TAG: usize = 10;
const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    const SEED: Seed = Seed::from_bytes([1; 32]);

    #[test]
    fn a_nonce_is_good_until_its_time_is_over_and_on_every_shard() {
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
            "it proves the address it went to"
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
}

//! Who our users are, in memory: looked up for every request, from every worker.
//!
//! A million users take about 100 bytes each: credentials and name lie together in one array, so that a lookup that
//! misses the caches misses them once, and it grows by an eighth and not by doubling; the index holds 4-byte places in
//! it. Names come from the network, so the hash is keyed.

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks the users are spread over; a power of two.
const SHARDS: usize = 64;

/// H(A1) of a user, for both algorithms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// With MD5.
    pub md5: [u8; 16],
    /// With SHA-256.
    pub sha256: [u8; 32],
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// All users with a password, by name and domain.
pub struct Directory {
    shards: Box<[RwLock<Shard>]>,
    key: (u64, u64),
}

impl Directory {
    /// An empty directory; `key` must be unpredictable.
    pub fn new(key: [u8; 16]) -> Self {
        let (low, high) = key.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word: u64, byte| (word << 8) | u64::from(*byte));
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), key: (word(low), word(high)) }
    }

    /// The user's credentials. The name compares byte by byte, the domain without case (RFC 3261 §19.1.4).
    pub fn find(&self, name: &str, domain: &str) -> Option<Credentials> {
        let hash = self.hash(name, domain);
        let shard = self.read(hash);
        let start = shard.find(hash, name, domain)?;
        shard.user(start).map(|user| user.credentials())
    }

    /// True when there is such a user.
    pub fn contains(&self, name: &str, domain: &str) -> bool {
        let hash = self.hash(name, domain);
        self.read(hash).find(hash, name, domain).is_some()
    }

    /// Adds a user or gives it other credentials. False: the name is longer than 65,535 bytes, there are more than
    /// 65,536 domains, or one of the directory's parts holds 4 GiB, and the user was not added.
    pub fn insert(&self, name: &str, domain: &str, credentials: Credentials) -> bool {
        let hash = self.hash(name, domain);
        let mut shard = self.write(hash);
        if let Some(start) = shard.find(hash, name, domain) {
            shard.replace(start, credentials);
            return true;
        }
        shard.add(hash, name, domain, credentials)
    }

    /// Removes a user. False: there was none.
    pub fn remove(&self, name: &str, domain: &str) -> bool {
        let hash = self.hash(name, domain);
        self.write(hash).remove(hash, name, domain)
    }

    /// How many users there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).index.len()).sum()
    }

    /// True when there is no user.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of memory it holds.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).bytes()).sum()
    }

    fn hash(&self, name: &str, domain: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write(name.as_bytes());
        hasher.write_u8(b'@');
        let mut lower = [0; 64];
        for part in domain.as_bytes().chunks(lower.len()) {
            for (to, from) in lower.iter_mut().zip(part) {
                *to = from.to_ascii_lowercase();
            }
            hasher.write(lower.get(..part.len()).unwrap_or_default());
        }
        hasher.finish()
    }

    fn read(&self, hash: u64) -> RwLockReadGuard<'_, Shard> {
        self.shard(hash).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Shard> {
        self.shard(hash).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// By bits of the hash that the index inside does not look at first.
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        let index = (hash >> 40) as usize & (SHARDS - 1);
        &self.shards[index]
    }
}

#[derive(Default)]
struct Shard {
    /// Places in `users`, found by hash.
    index: HashTable<u32>,
    /// Users, one behind the other, as [`User`] reads them.
    users: Vec<u8>,
    /// Bytes of `users` that nobody has.
    garbage: usize,
    /// The few domains there are.
    domains: Vec<Box<str>>,
}

/// Bytes of a user before its name: hash, domain, length of the name, MD5, SHA-256.
const HEADER_BYTES: usize = 8 + 2 + 2 + 16 + 32;

/// A user in the array.
struct User<'a> {
    header: &'a [u8; HEADER_BYTES],
    name: &'a [u8],
}

impl<'a> User<'a> {
    /// The user that begins at byte `start`.
    fn read(users: &'a [u8], start: u32) -> Option<Self> {
        let (header, rest) = users.get(start as usize..)?.split_first_chunk::<HEADER_BYTES>()?;
        let name = rest.get(..usize::from(u16::from_le_bytes([header[10], header[11]])))?;
        Some(Self { header, name })
    }

    fn hash(&self) -> u64 {
        self.header.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn domain(&self) -> u16 {
        u16::from_le_bytes([self.header[8], self.header[9]])
    }

    fn credentials(&self) -> Credentials {
        let mut credentials = Credentials { md5: [0; 16], sha256: [0; 32] };
        credentials.md5.copy_from_slice(&self.header[12..28]);
        credentials.sha256.copy_from_slice(&self.header[28..]);
        credentials
    }
}

impl Shard {
    /// Where the user begins in the array.
    fn find(&self, hash: u64, name: &str, domain: &str) -> Option<u32> {
        self.index.find(hash, |start| self.is(*start, name, domain)).copied()
    }

    fn is(&self, start: u32, name: &str, domain: &str) -> bool {
        self.user(start).is_some_and(|user| {
            let own = self.domains.get(usize::from(user.domain()));
            user.name == name.as_bytes() && own.is_some_and(|own| own.eq_ignore_ascii_case(domain))
        })
    }

    fn user(&self, start: u32) -> Option<User<'_>> {
        User::read(&self.users, start)
    }

    fn add(&mut self, hash: u64, name: &str, domain: &str, credentials: Credentials) -> bool {
        let (Ok(start), Ok(name_length)) = (u32::try_from(self.users.len()), u16::try_from(name.len()))
        else {
            return false;
        };
        let Some(domain) = self.domain(domain) else { return false };
        let bytes = HEADER_BYTES + name.len();
        if self.users.capacity() - self.users.len() < bytes {
            // Doubling would leave up to half of it unused.
            self.users.reserve_exact(bytes.max(self.users.len() / 8));
        }
        self.users.extend_from_slice(&hash.to_le_bytes());
        self.users.extend_from_slice(&domain.to_le_bytes());
        self.users.extend_from_slice(&name_length.to_le_bytes());
        self.users.extend_from_slice(&credentials.md5);
        self.users.extend_from_slice(&credentials.sha256);
        self.users.extend_from_slice(name.as_bytes());
        let users = &self.users;
        self.index
            .insert_unique(hash, start, |start| User::read(users, *start).map_or(0, |user| user.hash()));
        true
    }

    fn replace(&mut self, start: u32, credentials: Credentials) {
        let start = start as usize;
        if let Some(header) = self.users.get_mut(start..start + HEADER_BYTES) {
            header[12..28].copy_from_slice(&credentials.md5);
            header[28..].copy_from_slice(&credentials.sha256);
        }
    }

    fn domain(&mut self, domain: &str) -> Option<u16> {
        let known = self.domains.iter().position(|own| own.eq_ignore_ascii_case(domain));
        let index = u16::try_from(known.unwrap_or(self.domains.len())).ok()?;
        if known.is_none() {
            self.domains.push(domain.into());
        }
        Some(index)
    }

    fn remove(&mut self, hash: u64, name: &str, domain: &str) -> bool {
        let Some(start) = self.find(hash, name, domain) else { return false };
        let Ok(entry) = self.index.find_entry(hash, |other| *other == start) else { return false };
        entry.remove();
        self.replace(start, Credentials { md5: [0; 16], sha256: [0; 32] });
        self.garbage += HEADER_BYTES + name.len();
        if self.garbage > self.users.len() / 2 {
            self.pack();
        }
        true
    }

    /// Closes the gaps that removed users left.
    fn pack(&mut self) {
        let mut packed = Vec::with_capacity(self.users.len().saturating_sub(self.garbage));
        for place in self.index.iter_mut() {
            let start = *place as usize;
            let name = User::read(&self.users, *place).map_or(0, |user| user.name.len());
            *place = packed.len() as u32;
            packed.extend_from_slice(self.users.get(start..start + HEADER_BYTES + name).unwrap_or_default());
        }
        self.users = packed;
        self.garbage = 0;
    }

    fn bytes(&self) -> usize {
        self.index.allocation_size() + self.users.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(number: u32) -> Credentials {
        let mut sha256 = [0; 32];
        sha256[..4].copy_from_slice(&number.to_le_bytes());
        Credentials { md5: [number as u8; 16], sha256 }
    }

    #[test]
    fn users_are_found_by_exact_name_and_any_case_of_the_domain() {
        let directory = Directory::new([7; 16]);
        directory.insert("alice", "Example.ORG", credentials(1));
        assert_eq!(directory.find("alice", "example.org"), Some(credentials(1)));
        assert_eq!(directory.find("alice", "EXAMPLE.org"), Some(credentials(1)));
        assert_eq!(directory.find("Alice", "example.org"), None);
        assert_eq!(directory.find("alice", "example.com"), None);
        directory.insert("alice", "example.org", credentials(2));
        assert_eq!((directory.len(), directory.find("alice", "example.org")), (1, Some(credentials(2))));
    }

    #[test]
    fn removed_users_give_their_memory_back() {
        let directory = Directory::new([1; 16]);
        let name = |n: u32| format!("user{n:08}");
        for round in 0..20 {
            for n in 0..5_000 {
                assert!(directory.insert(&name(round * 5_000 + n), "d", credentials(n)));
            }
            for n in 0..5_000 {
                assert!(directory.remove(&name(round * 5_000 + n), "d"));
            }
            assert!(!directory.remove(&name(round * 5_000), "d"));
        }
        assert!(directory.is_empty());
        for n in 0..5_000 {
            directory.insert(&name(n), "d", credentials(n));
        }
        assert!((0..5_000).all(|n| directory.find(&name(n), "d") == Some(credentials(n))));
        assert!(directory.bytes() < 5_000 * 250, "{} bytes", directory.bytes());
    }

    #[test]
    fn a_hundred_thousand_users_take_no_more_than_150_bytes_each() {
        let directory = Directory::new([2; 16]);
        for n in 0..100_000u32 {
            directory.insert(&format!("subscriber{n:07}"), "example.org", credentials(n));
        }
        assert_eq!(directory.len(), 100_000);
        let each = directory.bytes() / 100_000;
        assert!(each <= 150, "{each} bytes");
    }
}

//! Credentials in memory, shared by all workers: the table of `ringway-users`, sharded over locks.

use ringway_users::{Ha1, HashedName, Hashes, NameHash, Subscribers};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Number of shards; a power of two.
const SHARDS: usize = 64;

/// Credentials of all users with a password, by name and domain.
pub struct Directory {
    shards: Box<[RwLock<Subscribers>]>,
    names: NameHash,
}

impl Directory {
    /// Creates an empty directory; `key` must be unpredictable.
    pub fn new(key: [u8; 16]) -> Self {
        let names = NameHash::new(key);
        Self { shards: (0..SHARDS).map(|_| RwLock::new(Subscribers::new(names))).collect(), names }
    }

    /// Returns the credentials of a user. The name is case-sensitive, the domain is not (RFC 3261 §19.1.4).
    pub fn find(&self, name: &str, domain: &str) -> Option<Ha1> {
        let user = self.names.of(name, domain);
        self.read(&user).find(&user)
    }

    /// True if the user exists.
    pub fn contains<T: AsRef<[u8]> + ?Sized>(&self, name: &T, domain: &T) -> bool {
        let user = self.names.of(name, domain);
        self.read(&user).contains(&user)
    }

    /// Returns the credentials of a user name with its domain.
    pub fn find_full(&self, name: &str, domain: &str) -> Option<Ha1> {
        let user = self.names.of(name, domain);
        self.read(&user).find_full(&user)
    }

    /// Adds a user or replaces its credentials. False: the user was not added, because the name is longer than 32,767
    /// bytes, there are more than 65,536 domains, or a shard contains 4 GiB.
    pub fn insert(&self, name: &str, domain: &str, hashes: impl Into<Hashes>) -> bool {
        let user = self.names.of(name, domain);
        self.write(&user).insert(&user, hashes)
    }

    /// Removes a user. False: it did not exist.
    pub fn remove(&self, name: &str, domain: &str) -> bool {
        let user = self.names.of(name, domain);
        self.write(&user).remove(&user)
    }

    /// Number of users.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// True if there is no user.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Allocated memory in bytes.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).bytes()).sum()
    }

    fn read(&self, user: &HashedName<'_>) -> RwLockReadGuard<'_, Subscribers> {
        self.shard(user).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, user: &HashedName<'_>) -> RwLockWriteGuard<'_, Subscribers> {
        self.shard(user).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Selects the shard by hash bits that the table inside does not use first.
    fn shard(&self, user: &HashedName<'_>) -> &RwLock<Subscribers> {
        let index = (user.hash() >> 40) as usize & (SHARDS - 1);
        &self.shards[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ha1(number: u32) -> Ha1 {
        let mut sha256 = [0; 32];
        sha256[..4].copy_from_slice(&number.to_le_bytes());
        Ha1 { md5: [number as u8; 16], sha256 }
    }

    #[test]
    fn names_are_case_sensitive_and_domains_are_not() {
        let directory = Directory::new([7; 16]);
        directory.insert("alice", "Example.ORG", ha1(1));
        assert_eq!(directory.find("alice", "example.org"), Some(ha1(1)));
        assert_eq!(directory.find("alice", "EXAMPLE.org"), Some(ha1(1)));
        assert_eq!(directory.find("Alice", "example.org"), None);
        assert_eq!(directory.find("alice", "example.com"), None);
        directory.insert("alice", "example.org", ha1(2));
        assert_eq!((directory.len(), directory.find("alice", "example.org")), (1, Some(ha1(2))));
    }

    #[test]
    fn memory_of_removed_users_is_reused() {
        let directory = Directory::new([1; 16]);
        let name = |n: u32| format!("user{n:08}");
        for round in 0..20 {
            for n in 0..5_000 {
                assert!(directory.insert(&name(round * 5_000 + n), "d", ha1(n)));
            }
            for n in 0..5_000 {
                assert!(directory.remove(&name(round * 5_000 + n), "d"));
            }
            assert!(!directory.remove(&name(round * 5_000), "d"));
        }
        assert!(directory.is_empty());
        for n in 0..5_000 {
            directory.insert(&name(n), "d", ha1(n));
        }
        assert!((0..5_000).all(|n| directory.find(&name(n), "d") == Some(ha1(n))));
        assert!(directory.bytes() < 5_000 * 250, "{} bytes", directory.bytes());
    }

    #[test]
    fn a_hundred_thousand_users_take_at_most_150_bytes_each() {
        let directory = Directory::new([2; 16]);
        for n in 0..100_000u32 {
            directory.insert(&format!("subscriber{n:07}"), "example.org", ha1(n));
        }
        assert_eq!(directory.len(), 100_000);
        let each = directory.bytes() / 100_000;
        assert!(each <= 150, "{each} bytes");
    }
}

//! All users with a password, in memory: looked up for every request.
//!
//! A million users take about 150 bytes each, 100 without the hash of `user@domain`: H(A1) and name are adjacent in one
//! array, so that a lookup misses the caches once. The array grows by an eighth instead of doubling; the index holds 4-byte offsets into it. Names come
//! from the network, so the hash is keyed.

use crate::{BadRow, Ha1, Hashes, UserList, UserRow};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::hash::Hasher;
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

/// A keyed hash over user names, so that an attacker cannot choose names that collide.
#[derive(Clone, Copy)]
pub struct NameHash {
    key: (u64, u64),
}

impl NameHash {
    /// `key` must be unpredictable.
    pub fn new(key: [u8; 16]) -> Self {
        let (low, high) = key.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word: u64, byte| (word << 8) | u64::from(*byte));
        Self { key: (word(low), word(high)) }
    }

    /// The name with its hash. A request need not be checked to be text: other bytes are no user's name.
    pub fn of<'a>(
        &self,
        name: &'a (impl AsRef<[u8]> + ?Sized),
        domain: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> HashedName<'a> {
        let (name, domain) = (name.as_ref(), domain.as_ref());
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write(name);
        hasher.write_u8(b'@');
        let mut lower = [0; 64];
        for part in domain.chunks(lower.len()) {
            for (to, from) in lower.iter_mut().zip(part) {
                *to = from.to_ascii_lowercase();
            }
            hasher.write(lower.get(..part.len()).unwrap_or_default());
        }
        HashedName { hash: hasher.finish(), name, domain }
    }
}

impl core::fmt::Debug for NameHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("NameHash(..)")
    }
}

/// A user's name and domain with their hash. The name compares byte by byte, the domain without case (RFC 3261 §19.1.4).
#[derive(Clone, Copy, Debug)]
pub struct HashedName<'a> {
    hash: u64,
    name: &'a [u8],
    domain: &'a [u8],
}

impl HashedName<'_> {
    /// The hash, for callers that spread users over several tables. The table inside uses the lowest and the 7 highest
    /// bits first; bits 40 to 56 are free for the caller.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Users with a password, by name and domain.
pub struct Subscribers {
    names: NameHash,
    /// Offsets into `users`, found by hash.
    index: HashTable<u32>,
    /// Users, one behind the other, as [`User`] reads them.
    users: Vec<u8>,
    /// Unused bytes of `users`.
    garbage: usize,
    /// All domains.
    domains: Vec<Box<str>>,
}

impl Subscribers {
    /// An empty table.
    pub fn new(names: NameHash) -> Self {
        Self { names, index: HashTable::new(), users: Vec::new(), garbage: 0, domains: Vec::new() }
    }

    /// Loads all users of a list, as [`UserList`] reads it, with passwords for the realm of their domain; at most
    /// `users_max`. A row without a domain belongs to `domain`.
    ///
    /// # Errors
    /// A row is wrong; the error has its line. No user is loaded.
    pub fn from_csv<'r>(
        csv: &[u8],
        domain: &str,
        realm_of: impl Fn(&str) -> &'r str,
        users_max: usize,
        names: NameHash,
    ) -> Result<Self, BadRow> {
        let mut subscribers = Self::new(names);
        let mut list = UserList::new(domain);
        let mut rest = csv;
        loop {
            let is_end = rest.is_empty();
            match list.next(&mut rest)? {
                Some(row) => {
                    subscribers.add_row(&row, realm_of(row.user.domain()), users_max)?;
                }
                None if is_end => break,
                None => {}
            }
        }
        Ok(subscribers)
    }

    /// A name as the other functions take it.
    pub fn name<'a>(&self, name: &'a str, domain: &'a str) -> HashedName<'a> {
        self.names.of(name, domain)
    }

    /// Adds a user or gives it another password. False: the name is longer than 32,767 bytes, there are more than
    /// 65,536 domains, or the table holds 4 GiB, and the user was not added.
    pub fn insert(&mut self, user: &HashedName<'_>, hashes: impl Into<Hashes>) -> bool {
        let Hashes { ha1, full } = hashes.into();
        if let Some(start) = self.place(user) {
            if self.user(start).is_some_and(|old| old.full.is_some() == full.is_some()) {
                self.replace(start, ha1, full);
                return true;
            }
            self.remove(user);
        }
        self.add(user, ha1, full)
    }

    /// Removes a user. False: there was none.
    pub fn remove(&mut self, user: &HashedName<'_>) -> bool {
        let Some(start) = self.place(user) else { return false };
        let Ok(entry) = self.index.find_entry(user.hash, |other| *other == start) else { return false };
        entry.remove();
        self.garbage += self.user(start).map_or(0, |user| user.bytes());
        self.replace(start, NOBODY, Some(NOBODY));
        if self.garbage > self.users.len() / 2 {
            self.pack();
        }
        true
    }

    /// Looks up H(A1) of the user.
    pub fn find(&self, user: &HashedName<'_>) -> Option<Ha1> {
        let start = self.place(user)?;
        self.user(start).map(|user| user.ha1())
    }

    /// Looks up H(A1) of the user's name with its domain.
    pub fn find_full(&self, user: &HashedName<'_>) -> Option<Ha1> {
        let start = self.place(user)?;
        self.user(start).and_then(|user| user.full.map(read_ha1))
    }

    /// True when there is such a user.
    pub fn contains(&self, user: &HashedName<'_>) -> bool {
        self.place(user).is_some()
    }

    /// Number of users.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True when there is no user.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The domains that users were added with, as the first user of each wrote it.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(|domain| &**domain)
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.index.allocation_size() + self.users.capacity()
    }

    fn add_row(&mut self, row: &UserRow<'_>, realm: &str, users_max: usize) -> Result<(), BadRow> {
        let bad = |detail| BadRow { line: row.line, detail };
        let user = &row.user;
        if self.len() >= users_max {
            return Err(bad(format!("at most {users_max} users are taken; take rows out")));
        }
        let hashes = user.hashes(realm, row.password).map_err(|unusable| bad(format!("{unusable}")))?;
        let name = self.names.of(user.name(), user.domain());
        if self.contains(&name) {
            return Err(bad(format!("{user} is there already, in a row above; take the row out")));
        }
        if !self.insert(&name, hashes) {
            return Err(bad(format!("there is no room for {user}; take rows out")));
        }
        Ok(())
    }

    /// Offset of the user in the array.
    fn place(&self, user: &HashedName<'_>) -> Option<u32> {
        self.index.find(user.hash, |start| self.is(*start, user)).copied()
    }

    fn is(&self, start: u32, sought: &HashedName<'_>) -> bool {
        self.user(start).is_some_and(|user| {
            let own = self.domains.get(usize::from(user.domain()));
            user.name == sought.name
                && own.is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(sought.domain))
        })
    }

    fn user(&self, start: u32) -> Option<User<'_>> {
        User::read(&self.users, start)
    }

    fn add(&mut self, user: &HashedName<'_>, ha1: Ha1, full: Option<Ha1>) -> bool {
        let HashedName { hash, name, domain } = *user;
        let (Ok(start), Ok(name_length)) = (u32::try_from(self.users.len()), u16::try_from(name.len()))
        else {
            return false;
        };
        if name_length & FULL != 0 {
            return false;
        }
        let name_length = if full.is_some() { name_length | FULL } else { name_length };
        let domain = core::str::from_utf8(domain).ok().and_then(|domain| self.domain(domain));
        let Some(domain) = domain else { return false };
        let bytes = HEADER_BYTES + name.len() + full.map_or(0, |_| HA1_BYTES);
        if self.users.capacity() - self.users.len() < bytes {
            // Doubling would leave up to half of it unused.
            self.users.reserve_exact(bytes.max(self.users.len() / 8));
        }
        self.users.extend_from_slice(&hash.to_le_bytes());
        self.users.extend_from_slice(&domain.to_le_bytes());
        self.users.extend_from_slice(&name_length.to_le_bytes());
        self.users.extend_from_slice(&ha1.md5);
        self.users.extend_from_slice(&ha1.sha256);
        self.users.extend_from_slice(name);
        if let Some(Ha1 { md5, sha256 }) = full {
            self.users.extend_from_slice(&md5);
            self.users.extend_from_slice(&sha256);
        }
        let users = &self.users;
        self.index
            .insert_unique(hash, start, |start| User::read(users, *start).map_or(0, |user| user.hash()));
        true
    }

    /// Replaces the hashes of a user; `full` only if it has one.
    fn replace(&mut self, start: u32, ha1: Ha1, full: Option<Ha1>) {
        let Some(user) = self.user(start) else { return };
        let (start, full_at) = (start as usize, start as usize + user.bytes() - HA1_BYTES);
        let full = full.filter(|_| user.full.is_some());
        let hashes = [(start + HASHES_AT, Some(ha1)), (full_at, full)];
        for (at, ha1) in hashes.into_iter().filter_map(|(at, ha1)| Some((at, ha1?))) {
            if let Some(stored) = self.users.get_mut(at..at + HA1_BYTES) {
                let (md5, sha256) = stored.split_at_mut(ha1.md5.len());
                md5.copy_from_slice(&ha1.md5);
                sha256.copy_from_slice(&ha1.sha256);
            }
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

    /// Closes the gaps that removed users left.
    fn pack(&mut self) {
        let mut packed = Vec::with_capacity(self.users.len().saturating_sub(self.garbage));
        for place in self.index.iter_mut() {
            let start = *place as usize;
            let bytes = User::read(&self.users, *place).map_or(0, |user| user.bytes());
            *place = packed.len() as u32;
            packed.extend_from_slice(self.users.get(start..start + bytes).unwrap_or_default());
        }
        self.users = packed;
        self.garbage = 0;
    }
}

impl core::fmt::Debug for Subscribers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Subscribers({})", self.len())
    }
}

/// A user in the array.
struct User<'a> {
    header: &'a [u8; HEADER_BYTES],
    name: &'a [u8],
    /// H(A1) of its name with its domain.
    full: Option<&'a [u8; HA1_BYTES]>,
}

impl<'a> User<'a> {
    /// The user that begins at byte `start`.
    fn read(users: &'a [u8], start: u32) -> Option<Self> {
        let (header, rest) = users.get(start as usize..)?.split_first_chunk::<HEADER_BYTES>()?;
        let length = u16::from_le_bytes([header[10], header[11]]);
        let (name, rest) = rest.split_at_checked(usize::from(length & !FULL))?;
        let full = if length & FULL != 0 { Some(rest.first_chunk()?) } else { None };
        Some(Self { header, name, full })
    }

    /// Number of bytes in the array.
    fn bytes(&self) -> usize {
        HEADER_BYTES + self.name.len() + self.full.map_or(0, |full| full.len())
    }

    fn hash(&self) -> u64 {
        self.header.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn domain(&self) -> u16 {
        u16::from_le_bytes([self.header[8], self.header[9]])
    }

    fn ha1(&self) -> Ha1 {
        self.header.last_chunk().map_or(NOBODY, read_ha1)
    }
}

fn read_ha1(bytes: &[u8; HA1_BYTES]) -> Ha1 {
    let mut ha1 = NOBODY;
    let (md5, sha256) = bytes.split_at(ha1.md5.len());
    ha1.md5.copy_from_slice(md5);
    ha1.sha256.copy_from_slice(sha256);
    ha1
}

/// Bytes of a user before its name: hash, domain, length of the name, H(A1).
const HEADER_BYTES: usize = HASHES_AT + HA1_BYTES;
const HASHES_AT: usize = 8 + 2 + 2;
/// Bytes of MD5 and SHA-256.
const HA1_BYTES: usize = 16 + 32;
/// Bit of the length of the name of a user whose name is followed by H(A1) of its name with its domain.
const FULL: u16 = 1 << 15;
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };

#[cfg(test)]
mod tests {
    use super::*;

    fn ha1(number: u32) -> Ha1 {
        let mut sha256 = [0; 32];
        sha256[..4].copy_from_slice(&number.to_le_bytes());
        Ha1 { md5: [number as u8; 16], sha256 }
    }

    fn hashes(number: u32, full: Option<Ha1>) -> Hashes {
        Hashes { ha1: ha1(number), full }
    }

    #[test]
    fn users_are_found_by_exact_name_and_any_case_of_the_domain() {
        let mut users = Subscribers::new(NameHash::new([7; 16]));
        let names = NameHash::new([7; 16]);
        assert!(users.insert(&names.of("alice", "Example.ORG"), ha1(1)));
        assert_eq!(users.find(&users.name("alice", "example.org")), Some(ha1(1)));
        assert_eq!(users.find(&users.name("alice", "EXAMPLE.org")), Some(ha1(1)));
        assert!(!users.contains(&users.name("Alice", "example.org")));
        assert!(!users.contains(&users.name("alice", "example.com")));
        assert!(users.insert(&names.of("alice", "example.org"), ha1(2)));
        assert_eq!((users.len(), users.find(&names.of("alice", "example.org"))), (1, Some(ha1(2))));
        assert!(users.remove(&names.of("alice", "example.org")));
        assert!(users.is_empty() && !users.remove(&names.of("alice", "example.org")));
    }

    #[test]
    fn a_user_has_the_hash_of_its_full_name_while_that_is_known() {
        let names = NameHash::new([3; 16]);
        let mut users = Subscribers::new(names);
        let user = |n: u32| format!("user{n}");
        for n in 0..100 {
            assert!(users.insert(&names.of(&user(n), "d"), hashes(n, (n % 2 == 0).then(|| ha1(n + 1000)))));
        }
        // Each change: with and without it before and after.
        for n in 0..100 {
            assert!(
                users.insert(&names.of(&user(n), "d"), hashes(n + 1, (n % 4 < 2).then(|| ha1(n + 2000))))
            );
        }
        assert_eq!(users.len(), 100);
        for n in 0..60 {
            assert!(users.remove(&names.of(&user(n), "d")));
        }
        for n in 60..100 {
            let name = user(n);
            let full = (n % 4 < 2).then(|| ha1(n + 2000));
            let found = (users.find(&names.of(&name, "d")), users.find_full(&names.of(&name, "d")));
            assert_eq!(found, (Some(ha1(n + 1)), full), "{name}");
        }
        assert_eq!(users.find_full(&names.of("user0", "d")), None);
        for n in 60..100 {
            users.remove(&names.of(&user(n), "d"));
        }
        assert!(users.is_empty() && users.users.len() < 100, "gaps are closed: {}", users.users.len());
    }

    #[test]
    fn names_that_no_table_holds_are_refused_and_nothing_changes() {
        let names = NameHash::new([1; 16]);
        let mut users = Subscribers::new(names);
        assert!(!users.insert(&names.of(&"x".repeat(32_768), "d"), ha1(1)));
        assert!(users.insert(&names.of(&"x".repeat(32_767), "d"), ha1(1)));
        assert_eq!(users.len(), 1);
    }

    #[test]
    fn twenty_thousand_users_take_no_more_than_150_bytes_each_and_give_them_back() {
        let names = NameHash::new([2; 16]);
        let mut users = Subscribers::new(names);
        let all: Vec<_> = (0..20_000).map(|n| format!("subscriber{n:07}")).collect();
        for (n, name) in all.iter().enumerate() {
            users.insert(&names.of(name, "example.org"), ha1(n as u32));
        }
        let each = users.bytes() / all.len();
        assert!(each <= 150, "{each} bytes");
        for name in &all[..15_000] {
            assert!(users.remove(&names.of(name, "example.org")));
        }
        assert!(users.users.len() < 20_000 * 80 / 2, "gaps are closed");
        let is_right = |(n, name): (usize, &alloc::string::String)| {
            users.find(&names.of(name, "example.org")) == (n >= 15_000).then(|| ha1(n as u32))
        };
        assert!(all.iter().enumerate().all(is_right));
    }
}

//! All users with a password, in memory: looked up for every request.
//!
//! A million users take about 100 bytes each: H(A1) and name are adjacent in one array, so that a lookup misses the
//! caches once. The array grows by an eighth instead of doubling; the index holds 4-byte offsets into it. Names come
//! from the network, so the hash is keyed.

use crate::{BadRow, Ha1, UserList, UserRow};
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

    /// Adds a user or gives it another password. False: the name is longer than 65,535 bytes, there are more than
    /// 65,536 domains, or the table holds 4 GiB, and the user was not added.
    pub fn insert(&mut self, user: &HashedName<'_>, ha1: Ha1) -> bool {
        if let Some(start) = self.place(user) {
            self.replace(start, ha1);
            return true;
        }
        self.add(user, ha1)
    }

    /// Removes a user. False: there was none.
    pub fn remove(&mut self, user: &HashedName<'_>) -> bool {
        let Some(start) = self.place(user) else { return false };
        let Ok(entry) = self.index.find_entry(user.hash, |other| *other == start) else { return false };
        entry.remove();
        self.replace(start, NOBODY);
        self.garbage += HEADER_BYTES + user.name.len();
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
        let ha1 = user.ha1(realm, row.password).map_err(|unusable| bad(format!("{unusable}")))?;
        let name = self.names.of(user.name(), user.domain());
        if self.contains(&name) {
            return Err(bad(format!("{user} is there already, in a row above; take the row out")));
        }
        if !self.insert(&name, ha1) {
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

    fn add(&mut self, user: &HashedName<'_>, ha1: Ha1) -> bool {
        let HashedName { hash, name, domain } = *user;
        let (Ok(start), Ok(name_length)) = (u32::try_from(self.users.len()), u16::try_from(name.len()))
        else {
            return false;
        };
        let domain = core::str::from_utf8(domain).ok().and_then(|domain| self.domain(domain));
        let Some(domain) = domain else { return false };
        let bytes = HEADER_BYTES + name.len();
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
        let users = &self.users;
        self.index
            .insert_unique(hash, start, |start| User::read(users, *start).map_or(0, |user| user.hash()));
        true
    }

    fn replace(&mut self, start: u32, ha1: Ha1) {
        let start = start as usize;
        if let Some(header) = self.users.get_mut(start..start + HEADER_BYTES) {
            header[12..28].copy_from_slice(&ha1.md5);
            header[28..].copy_from_slice(&ha1.sha256);
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
            let name = User::read(&self.users, *place).map_or(0, |user| user.name.len());
            *place = packed.len() as u32;
            packed.extend_from_slice(self.users.get(start..start + HEADER_BYTES + name).unwrap_or_default());
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

    fn ha1(&self) -> Ha1 {
        let mut ha1 = NOBODY;
        ha1.md5.copy_from_slice(&self.header[12..28]);
        ha1.sha256.copy_from_slice(&self.header[28..]);
        ha1
    }
}

/// Bytes of a user before its name: hash, domain, length of the name, MD5, SHA-256.
const HEADER_BYTES: usize = 8 + 2 + 2 + 16 + 32;
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };

#[cfg(test)]
mod tests {
    use super::*;

    fn ha1(number: u32) -> Ha1 {
        let mut sha256 = [0; 32];
        sha256[..4].copy_from_slice(&number.to_le_bytes());
        Ha1 { md5: [number as u8; 16], sha256 }
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
    fn names_that_no_table_holds_are_refused_and_nothing_changes() {
        let names = NameHash::new([1; 16]);
        let mut users = Subscribers::new(names);
        assert!(!users.insert(&names.of(&"x".repeat(65_536), "d"), ha1(1)));
        assert!(users.insert(&names.of(&"x".repeat(65_535), "d"), ha1(1)));
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

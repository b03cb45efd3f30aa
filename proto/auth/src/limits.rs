//! Limits by source, in token buckets: of wrong passwords, and of challenges to clients that answer each of them with a
//! digest that proves nothing. Their tables are keyed by a hash of values that peers choose.

use core::hash::{BuildHasher, Hasher};
use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_sansio::{Instant, Seed, TableSize, WideNetwork, source_of};
use siphasher::sip::SipHasher13;

/// Attempt to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// `username` of the digest, without escapes; the user need not exist.
    pub user: &'a [u8],
    /// Domain of the user.
    pub domain: &'a [u8],
    /// Source address of the request.
    pub source: IpAddr,
}

impl Login<'_> {
    /// Keyed hash of the user and the source (an IPv6 /64 network counts as one).
    fn hash_with_source(&self, hash: SeededHash) -> u64 {
        let mut hasher = hash.build_hasher();
        hasher.write_usize(self.user.len());
        hasher.write(self.user);
        hasher.write(self.domain);
        match source_of(self.source) {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
        hasher.finish()
    }
}

/// Result of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginResult {
    /// The password is right.
    Proven,
    /// The password is wrong, or there is no such user.
    Wrong,
    /// Not checked, after too many wrong passwords.
    Slowed,
}

/// Token buckets of wrong passwords, for each user and for each source (an IPv6 /64 network counts as one), and for each [`WideNetwork`],
/// with those of several sources.
///
/// A wrong password takes a token of its user, one of its source and of its networks; if any has none, passwords are not checked. A
/// user whose phones have the right password is therefore only slowed by guesses of others. From a source where the user
/// proved the password within [`GuessLimits::PROOF_LIFE`], the user has tokens of its own, which guesses from other
/// sources do not take: an attacker cannot lock a user out of its own network.
#[derive(Debug)]
pub struct GuessLimits {
    hash: SeededHash,
    sources: Buckets,
    /// Of each [`WideNetwork`] of 56 bits, and of 48.
    networks: [Buckets; 2],
    users: Buckets,
    /// Full time of the bucket of each user and source with a proven password, in two generations: the older one is
    /// dropped when the younger is full or [`GuessLimits::PROOF_LIFE`] old.
    young: HashMap<u64, Instant, SeededHash>,
    old: HashMap<u64, Instant, SeededHash>,
    young_since: Instant,
    proofs_max: usize,
    /// Number of logins by result: proven, wrong, slowed.
    logins: [u64; 3],
    /// Time from which on every bucket is full.
    quiet_from: Instant,
}

impl GuessLimits {
    /// Wrong passwords at once from one source, or for one user from a source where it proved its password.
    pub const SOURCE_BURST: u32 = 20;
    /// Time for one token of a source: 10 wrong passwords a minute.
    pub const SOURCE_INTERVAL: Duration = Duration::from_secs(6);
    /// Wrong passwords at once for one user, from all sources.
    pub const USER_BURST: u32 = 50;
    /// Time for one token of a user: 20 wrong passwords a minute.
    pub const USER_INTERVAL: Duration = Duration::from_secs(3);
    /// Maximum number of tracked sources, and of tracked users; further ones share one bucket.
    pub const TRACKED_MAX: usize = TRACKED_MAX;
    /// Minimum time for which a proof is remembered, unless there are too many.
    pub const PROOF_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

    /// Creates it without wrong passwords. It remembers at most `proofs_max` pairs of a user and a source with a proven
    /// password.
    pub fn new(proofs_max: usize, seed: &Seed, now: Instant) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            logins: [0; 3],
            hash,
            sources: Buckets::new(Self::SOURCE_BURST, Self::SOURCE_INTERVAL, hash),
            networks: [4, 16].map(|sources| {
                Buckets::new(Self::SOURCE_BURST * sources, Self::SOURCE_INTERVAL / sources, hash)
            }),
            users: Buckets::new(Self::USER_BURST, Self::USER_INTERVAL, hash),
            young: HashMap::with_hasher(hash),
            old: HashMap::with_hasher(hash),
            young_since: now,
            proofs_max: proofs_max / 2,
            quiet_from: Instant::default(),
        }
    }

    /// Memory of wrong passwords, and of `proofs_max` proven ones.
    pub const fn sizes(proofs_max: usize) -> [TableSize; 2] {
        let proofs = TableSize::of_filled_map("proven passwords", proofs_max / 2, Buckets::ENTRY_BYTES);
        [Buckets::size("users and sources of wrong passwords").times(4), proofs.times(2)]
    }

    /// True if a password of this user may be checked for this source.
    pub fn may_log_in(&mut self, now: Instant, login: &Login<'_>) -> bool {
        if now >= self.quiet_from {
            return true;
        }
        match self.proof(login) {
            Some(full_at) => has_token(*full_at, now, Self::SOURCE_BURST, Self::SOURCE_INTERVAL),
            None => {
                let mut wide = self.networks.iter().zip(WideNetwork::around(login.source));
                self.sources.has(now, self.source(login))
                    && wide.all(|(networks, wide)| networks.has(now, self.hash.hash_one(wide)))
                    && self.users.has(now, self.user(login))
            }
        }
    }

    /// Notes the result of a login.
    pub fn on_login(&mut self, now: Instant, login: &Login<'_>, result: LoginResult) {
        if let Some(count) = self.logins.get_mut(result as usize) {
            *count += 1;
        }
        match result {
            LoginResult::Proven => self.note_proof(now, login),
            LoginResult::Wrong => {
                let full_at = match self.proof(login) {
                    Some(full_at) => {
                        *full_at = (*full_at).max(now) + Self::SOURCE_INTERVAL;
                        *full_at
                    }
                    None => {
                        let mut full_at = self.sources.take(now, self.source(login));
                        for (networks, wide) in
                            self.networks.iter_mut().zip(WideNetwork::around(login.source))
                        {
                            full_at = full_at.max(networks.take(now, self.hash.hash_one(wide)));
                        }
                        full_at.max(self.users.take(now, self.user(login)))
                    }
                };
                self.quiet_from = self.quiet_from.max(full_at);
            }
            LoginResult::Slowed => {}
        }
    }

    /// Number of logins by result: proven, wrong, slowed.
    pub const fn logins(&self) -> [u64; 3] {
        self.logins
    }

    fn note_proof(&mut self, now: Instant, login: &Login<'_>) {
        if self.young.len() >= self.proofs_max || now.since(self.young_since) >= Self::PROOF_LIFE {
            core::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            self.young_since = now;
        }
        let pair = login.hash_with_source(self.hash);
        if !self.young.contains_key(&pair) {
            // The wrong passwords since the last proof still count.
            let full_at = self.old.remove(&pair).unwrap_or_default();
            self.young.insert(pair, full_at);
        }
    }

    /// Time at which the bucket of a user at a source with a proven password is full again.
    fn proof(&mut self, login: &Login<'_>) -> Option<&mut Instant> {
        let pair = login.hash_with_source(self.hash);
        self.young.get_mut(&pair).or_else(|| self.old.get_mut(&pair))
    }

    fn user(&self, login: &Login<'_>) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write_usize(login.user.len());
        hasher.write(login.user);
        hasher.write(login.domain);
        hasher.finish()
    }

    fn source(&self, login: &Login<'_>) -> u64 {
        self.hash.hash_one(source_of(login.source))
    }
}

/// Token buckets by a keyed hash; full ones are removed.
#[derive(Debug)]
struct Buckets {
    burst: u32,
    interval: Duration,
    full_at: HashMap<u64, Instant, SeededHash>,
    /// Bucket of all that are not tracked because the table is full.
    crowded_full_at: Instant,
    swept_at: Instant,
}

impl Buckets {
    const ENTRY_BYTES: usize = size_of::<(u64, Instant)>();

    const fn size(name: &'static str) -> TableSize {
        TableSize::of_map(name, TRACKED_MAX, Self::ENTRY_BYTES)
    }

    pub(crate) fn new(burst: u32, interval: Duration, hash: SeededHash) -> Self {
        let full_at = HashMap::with_hasher(hash);
        Self { burst, interval, full_at, crowded_full_at: Instant::default(), swept_at: Instant::default() }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.full_at.len()
    }

    pub(crate) fn has(&self, now: Instant, key: u64) -> bool {
        let full_at = match self.full_at.get(&key) {
            Some(full_at) => *full_at,
            None if self.full_at.len() >= TRACKED_MAX => self.crowded_full_at,
            None => return true,
        };
        has_token(full_at, now, self.burst, self.interval)
    }

    /// Takes a token. Returns the time at which the bucket is full again.
    pub(crate) fn take(&mut self, now: Instant, key: u64) -> Instant {
        if self.full_at.len() >= TRACKED_MAX && !self.full_at.contains_key(&key) {
            // A scan for each wrong password would cost more than checking it.
            if now.since(self.swept_at) >= self.interval {
                self.swept_at = now;
                self.full_at.retain(|_, full_at| *full_at > now);
            }
            if self.full_at.len() >= TRACKED_MAX {
                self.crowded_full_at = self.crowded_full_at.max(now) + self.interval;
                return self.crowded_full_at;
            }
        }
        let full_at = self.full_at.entry(key).or_default();
        *full_at = (*full_at).max(now) + self.interval;
        *full_at
    }
}

/// True if a bucket that is full at `full_at` has a token.
fn has_token(full_at: Instant, now: Instant, burst: u32, interval: Duration) -> bool {
    full_at.since(now) + interval <= interval * burst
}

/// Maximum number of buckets in a table; further keys share one.
const TRACKED_MAX: usize = 65_536;

/// Token buckets of unusable digests, for each user at each source.
///
/// Only digests with a fresh nonce for their source count, so that nobody takes tokens with a forged address. The limit
/// replaces challenges to unusable digests and nothing else: it refuses no client whose digests can be verified.
#[derive(Debug)]
pub struct ChallengeLimits {
    hash: SeededHash,
    buckets: Buckets,
}

impl ChallengeLimits {
    /// Challenges at once.
    pub const BURST: u32 = 10;
    /// Time for one further challenge.
    pub const INTERVAL: Duration = Duration::from_secs(60);

    /// Creates it with all tokens.
    pub fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self { hash, buckets: Buckets::new(Self::BURST, Self::INTERVAL, hash) }
    }

    /// Memory of the table.
    pub const fn size() -> TableSize {
        Buckets::size("users and sources of unusable digests")
    }

    /// Takes a token; false if there is none.
    pub fn may_challenge(&mut self, now: Instant, login: &Login<'_>) -> bool {
        let key = login.hash_with_source(self.hash);
        let has_token = self.buckets.has(now, key);
        if has_token {
            self.buckets.take(now, key);
        }
        has_token
    }
}

/// SipHash with a key from a seed.
#[derive(Clone, Copy, Debug)]
pub struct SeededHash([u8; 16]);

impl SeededHash {
    /// Creates it; the key is the first half of `seed`.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().get(..16).unwrap_or(&[0; 16]));
        Self(key)
    }
}

impl core::hash::BuildHasher for SeededHash {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_secs(1_800_000_000);

    fn limits() -> GuessLimits {
        GuessLimits::new(1000, &Seed::from_number(1), START)
    }

    fn login<'a>(user: &'a str, source: &str) -> Login<'a> {
        Login { user: user.as_bytes(), domain: b"example.org", source: source.parse().unwrap() }
    }

    /// Number of the `count` wrong passwords, one every `pause`, that are checked.
    fn checked(limits: &mut GuessLimits, login: &Login<'_>, count: usize, pause: Duration) -> usize {
        let mut checked = 0;
        for number in 0..count {
            let now = START + pause * number as u32;
            if limits.may_log_in(now, login) {
                checked += 1;
                limits.on_login(now, login, LoginResult::Wrong);
            }
        }
        checked
    }

    #[test]
    fn a_burst_and_then_ten_a_minute_from_one_source() {
        let mut limits = limits();
        let eve = login("alice", "203.0.113.66");
        assert_eq!(checked(&mut limits, &eve, 6000, Duration::from_millis(100)), 20 + 99);
        let end = START + Duration::from_millis(599_900);
        assert!(!limits.may_log_in(end, &login("bob", "203.0.113.66")));
        assert!(limits.may_log_in(end, &login("bob", "203.0.113.67")));
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let mut limits = limits();
        for number in 0..20 {
            let from = alloc::format!("2001:db8::{number}");
            limits.on_login(START, &login("alice", &from), LoginResult::Wrong);
        }
        assert!(!limits.may_log_in(START, &login("bob", "2001:db8::ffff:1")));
        assert!(limits.may_log_in(START, &login("bob", "2001:db8:0:1::1")));
    }

    #[test]
    fn a_home_has_the_guesses_of_four_sources_and_a_site_of_sixteen() {
        let mut limits = limits();
        let mut of = |site: u16, network: u16| {
            let source = IpAddr::from([0x2001, 0xdb8, site, network, 0, 0, 0, 1]);
            let user = alloc::format!("user{site}-{network}");
            checked(&mut limits, &Login { user: user.as_bytes(), domain: b"a", source }, 25, Duration::ZERO)
        };
        assert_eq!((0..256).map(|network| of(0, network)).sum::<usize>(), 80);
        assert_eq!((0..256).map(|home| of(1, home << 8)).sum::<usize>(), 320);
        assert_eq!(of(2, 0), 20, "another site");
    }

    #[test]
    fn many_sources_share_the_tokens_of_a_user_and_cannot_lock_it_out() {
        let mut limits = limits();
        let home = login("alice", "192.0.2.10");
        limits.on_login(START, &home, LoginResult::Proven);
        let total: usize = (0..100)
            .map(|number| {
                let from = alloc::format!("203.0.113.{number}");
                checked(&mut limits, &login("alice", &from), 10, Duration::ZERO)
            })
            .sum();
        assert_eq!(total, 50);
        assert!(!limits.may_log_in(START, &login("alice", "198.51.100.1")));
        assert!(limits.may_log_in(START, &home));
        assert!(limits.may_log_in(START, &login("bob", "198.51.100.1")), "of another user");
    }

    #[test]
    fn guesses_from_the_users_own_source_are_slowed_too() {
        let mut limits = limits();
        let home = login("alice", "192.0.2.10");
        limits.on_login(START, &home, LoginResult::Proven);
        assert_eq!(checked(&mut limits, &home, 100, Duration::ZERO), 20);
        limits.on_login(START, &home, LoginResult::Proven);
        assert!(!limits.may_log_in(START, &home), "a proof returns no tokens");
        assert!(limits.may_log_in(START + Duration::from_secs(6), &home));
    }

    #[test]
    fn a_proof_ends_after_two_generations() {
        let mut limits = limits();
        let home = login("alice", "192.0.2.10");
        limits.on_login(START, &home, LoginResult::Proven);
        for day in 1..=2 {
            assert!(limits.proof(&home).is_some(), "day {day}");
            limits.on_login(
                START + GuessLimits::PROOF_LIFE * day,
                &login("bob", "192.0.2.1"),
                LoginResult::Proven,
            );
        }
        assert!(limits.proof(&home).is_none());
    }

    #[test]
    fn the_tables_are_bounded() {
        let mut limits = limits();
        for number in 0..(GuessLimits::TRACKED_MAX as u32 + 1000) {
            let source = IpAddr::from(number.to_be_bytes());
            let user = number.to_be_bytes();
            let login = Login { user: &user, domain: b"example.org", source };
            limits.on_login(START, &login, LoginResult::Wrong);
            limits.on_login(START, &login, LoginResult::Proven);
        }
        let tracked = (limits.sources.len(), limits.users.len());
        assert_eq!(tracked, (GuessLimits::TRACKED_MAX, GuessLimits::TRACKED_MAX));
        assert!(limits.young.len() + limits.old.len() <= 1000);
        assert!(
            !limits.may_log_in(START, &login("alice", "192.0.2.1")),
            "untracked sources share one bucket"
        );
        let later = START + Duration::from_secs(60 * 60 * 24);
        assert!(limits.may_log_in(later, &login("alice", "192.0.2.1")), "which fills again");
    }
}

#[cfg(test)]
mod challenge_limits_tests {
    use super::*;

    const START: Instant = Instant::from_secs(1_800_000_000);

    fn login<'a>(user: &'a [u8], source: &str) -> Login<'a> {
        Login { user, domain: b"example.org", source: source.parse().unwrap() }
    }

    #[test]
    fn ten_at_once_and_one_a_minute_for_each_user_at_each_source() {
        let mut limits = ChallengeLimits::new(&Seed::from_number(1));
        let old_phone = login(b"alice", "192.0.2.1");
        let allowed = |limits: &mut ChallengeLimits, now, login: &Login<'_>| {
            (0..100).filter(|_| limits.may_challenge(now, login)).count()
        };
        assert_eq!(allowed(&mut limits, START, &old_phone), 10);
        assert_eq!(allowed(&mut limits, START, &login(b"bob", "192.0.2.1")), 10);
        assert_eq!(allowed(&mut limits, START, &login(b"alice", "192.0.2.2")), 10);
        assert_eq!(allowed(&mut limits, START + Duration::from_secs(180), &old_phone), 3);
    }

    #[test]
    fn the_memory_of_full_tables_is_the_published_one_at_most() {
        let mut limits = ChallengeLimits::new(&Seed::from_number(1));
        let taken = allocation_counter::measure(|| {
            for number in 0..10 * TRACKED_MAX as u32 {
                let now = START + Duration::from_secs(u64::from(number / 1000));
                limits.may_challenge(now, &login(&number.to_be_bytes(), "192.0.2.1"));
            }
        });
        let (taken, size) = (taken.bytes_current as u64, ChallengeLimits::size().bytes);
        assert!((size / 4..=size).contains(&taken), "{taken} of {size}");
        let mut limits = GuessLimits::new(50_000, &Seed::from_number(1), START);
        let taken = allocation_counter::measure(|| {
            for number in 0..2 * TRACKED_MAX as u32 {
                let source = IpAddr::from((u128::from(number) << 64).to_be_bytes());
                let user = number.to_be_bytes();
                let login = Login { user: &user, domain: b"example.org", source };
                limits.on_login(START, &login, LoginResult::Wrong);
                limits.on_login(START, &login, LoginResult::Proven);
            }
        });
        let taken = taken.bytes_current as u64;
        let size = GuessLimits::sizes(50_000).iter().map(|size| size.bytes).sum();
        assert!((size / 5..=size).contains(&taken), "{taken} of {size}");
    }

    #[test]
    fn what_is_tracked_is_bounded() {
        let mut limits = ChallengeLimits::new(&Seed::from_number(1));
        for number in 0..TRACKED_MAX as u32 + 1000 {
            limits.may_challenge(START, &login(&number.to_be_bytes(), "192.0.2.1"));
        }
        assert_eq!(limits.buckets.len(), TRACKED_MAX);
        assert!(!limits.may_challenge(START, &login(b"new", "192.0.2.1")), "those above share one bucket");
        let later = START + Duration::from_secs(601);
        assert!(limits.may_challenge(later, &login(b"new", "192.0.2.1")));
    }
}

//! Destination rules: numbers that users may call through trunks, and how often.

use super::Number;
use super::pattern::{BadPattern, PatternKind, PatternTable};
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Defence, Instant, Seed, TableSize};

/// Rule for the numbers with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Start of the numbers, as the trunk gets them; empty: all numbers.
    pub prefix: String,
    /// The rule.
    pub rule: DestinationRule,
}

/// Permission to call a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationRule {
    /// Any number of calls.
    Allow,
    /// None.
    Deny,
    /// This number of calls of a user in an hour.
    PerHour(u32),
}

/// Destination rules, compiled for lookups: the longest prefix counts, of equal ones the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationRules {
    rules: Vec<Destination>,
    prefixes: PatternTable,
}

impl DestinationRules {
    /// Compiles rules.
    ///
    /// # Errors
    /// The index of the first rule with a bad prefix.
    pub fn new(rules: Vec<Destination>) -> Result<Self, (usize, BadPattern)> {
        let prefixes =
            rules.iter().zip(0..).map(|(rule, at)| (rule.prefix.as_str(), PatternKind::Prefix, at));
        Ok(Self { prefixes: PatternTable::new(prefixes)?, rules })
    }

    /// True without rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Rule for a number; `None`: it may be called.
    pub fn of_number(&self, number: &Number) -> Option<&Destination> {
        self.rules.get(self.prefixes.find(number)? as usize).filter(|_| Defence::Destinations.is_on())
    }
}

/// Number of calls of each user to the numbers of each rule, within the last hour.
///
/// The last hour is estimated from two counts: that of the present hour of the clock, and the part of the previous one that is
/// less than an hour ago.
#[derive(Debug)]
pub struct CallRates {
    /// By the hash of user and prefix, with a key of the seed.
    counts: HashMap<u64, Count, SeededHash>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    hour: u64,
    present: u32,
    previous: u32,
}

/// Result of a call for [`CallRates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRate {
    /// It may be made, and is counted.
    Admitted,
    /// The user has made as many as permitted.
    Exceeded,
    /// There are too many counts for another one.
    Full,
}

impl CallRates {
    /// Maximum number of counts: users with calls in the last two hours, for each prefix.
    pub const COUNTS_MAX: usize = 65_536;

    /// Memory of the counts.
    pub const fn size() -> TableSize {
        TableSize::of_map("calls of a user to a prefix", Self::COUNTS_MAX, size_of::<(u64, Count)>())
    }

    /// Creates it without counts.
    pub fn new(seed: &Seed) -> Self {
        Self { counts: HashMap::with_hasher(SeededHash::new(seed)) }
    }

    /// Counts a call of the user `aor` to a number with this prefix, unless it would be one too many.
    pub fn admit(&mut self, now: Instant, aor: &[u8], prefix: &str, per_hour: u32) -> CallRate {
        let key = self.counts.hasher().hash_one((aor, prefix));
        let (hour, second) = (now.as_secs() / HOUR_S, now.as_secs() % HOUR_S);
        if self.counts.len() >= Self::COUNTS_MAX && !self.counts.contains_key(&key) {
            self.counts.retain(|_, count| count.hour + 1 >= hour);
            if self.counts.len() >= Self::COUNTS_MAX {
                return CallRate::Full;
            }
        }
        let count = self.counts.entry(key).or_insert(Count { hour, present: 0, previous: 0 });
        if count.hour != hour {
            let previous = if count.hour + 1 == hour { count.present } else { 0 };
            *count = Count { hour, present: 0, previous };
        }
        let still = (u64::from(count.previous) * (HOUR_S - second)).div_ceil(HOUR_S);
        if still + u64::from(count.present) >= u64::from(per_hour) {
            return CallRate::Exceeded;
        }
        count.present += 1;
        CallRate::Admitted
    }
}

const HOUR_S: u64 = 3600;

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn the_longest_prefix_counts() {
        let rule = |prefix: &str, rule| Destination { prefix: prefix.into(), rule };
        let rules = [
            rule("+", DestinationRule::PerHour(20)),
            rule("+881", DestinationRule::Deny),
            rule("+8816", DestinationRule::Allow),
        ];
        let rules = DestinationRules::new(rules.to_vec()).unwrap();
        let of =
            |number: &str| rules.of_number(&Number::parse(number.as_bytes()).unwrap()).map(|rule| rule.rule);
        assert_eq!(of("+8815"), Some(DestinationRule::Deny));
        assert_eq!(of("+88161"), Some(DestinationRule::Allow));
        assert_eq!(of("+49"), Some(DestinationRule::PerHour(20)));
        assert_eq!(of("0049"), None);
    }

    #[test]
    fn an_hour_has_the_permitted_calls_wherever_it_begins() {
        let mut rates = CallRates::new(&Seed::from_number(1));
        let start = Instant::from_secs(HOUR_S * 1000 + 1800);
        let mut times = Vec::new();
        for minute in 0..600 {
            let now = start + Duration::from_secs(minute * 60);
            if rates.admit(now, b"alice@example.org", "+", 20) == CallRate::Admitted {
                times.push(minute);
            }
        }
        assert_eq!(times.iter().filter(|&&minute| minute < 20).count(), 20);
        // Two counts estimate the last hour; it is never twice what is permitted.
        let most =
            times.iter().map(|&from| times.iter().filter(|&&at| at >= from && at < from + 60).count()).max();
        assert!(most.unwrap() <= 30, "{most:?}");
        assert!(times.len() >= 180, "{}", times.len());
        assert_eq!(rates.admit(start, b"bob@example.org", "+", 0), CallRate::Exceeded);
    }

    #[test]
    fn users_and_rules_are_counted_apart_and_the_table_is_bounded() {
        let mut rates = CallRates::new(&Seed::from_number(1));
        let now = Instant::from_secs(HOUR_S * 1000);
        for (user, prefix) in [("alice", "+1"), ("alice", "+2"), ("bob", "+1")] {
            assert_eq!(rates.admit(now, user.as_bytes(), prefix, 1), CallRate::Admitted, "{user} {prefix}");
            assert_eq!(rates.admit(now, user.as_bytes(), prefix, 1), CallRate::Exceeded);
        }
        for number in 0..CallRates::COUNTS_MAX as u64 {
            rates.admit(now, &number.to_be_bytes(), "+", 1);
        }
        assert_eq!(rates.counts.len(), CallRates::COUNTS_MAX);
        assert_eq!(rates.admit(now, b"carol", "+", 1), CallRate::Full);
        let later = now + Duration::from_secs(2 * HOUR_S);
        assert_eq!(rates.admit(later, b"carol", "+", 1), CallRate::Admitted);
        assert_eq!(rates.counts.len(), 1, "old counts give way");
    }
}

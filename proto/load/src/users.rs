//! Users that a generator plays, and its configuration.

use crate::fields::FieldList;
use crate::{Arrivals, FieldOrder, MediaUse, Scenario};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::Transport;
use ringway_transaction::Timers;

/// Users by a rule or from a list.
///
/// ```
/// use ringway_load::Users;
///
/// let users = Users::by_rule("u", 7, 0, 1_000, "secret")?;
/// let mut name = Vec::new();
/// users.write_name(42, &mut name);
/// assert_eq!(name, b"u0000042");
/// # Ok::<(), ringway_load::UsersError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Users {
    names: Names,
    /// Lists whose fields messages have.
    lists: Vec<FieldList>,
    /// Number of the first user among those of all threads.
    first: u32,
}

/// Line of a list of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User part of the URI, escaped as it is sent.
    pub name: Box<str>,
    /// Password; empty for none.
    pub password: Box<str>,
}

/// Reason why users are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsersError {
    /// There is no user.
    Empty,
    /// A name has a character that a SIP URI must escape.
    Name,
    /// More than 9 digits, or numbers that do not fit into the digits.
    Digits,
}

impl core::fmt::Display for UsersError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Empty => "there is no user",
            Self::Name => "a user name is empty or has a character that a SIP URI must escape",
            Self::Digits => "the numbers of the users do not fit into the digits (9 at most)",
        })
    }
}

impl core::error::Error for UsersError {}

#[derive(Clone, Debug)]
enum Names {
    Rule { prefix: Box<str>, digits: usize, first: u32, count: u32, password: Box<str> },
    List(Vec<User>),
}

impl Users {
    /// `count` users: `prefix` and a number of `digits` digits from `first` on, all with one password.
    ///
    /// # Errors
    /// No user; a prefix that is not a user part; numbers that do not fit.
    pub fn by_rule(
        prefix: &str,
        digits: usize,
        first: u32,
        count: u32,
        password: &str,
    ) -> Result<Self, UsersError> {
        let last = first.checked_add(count).ok_or(UsersError::Digits)?;
        let capacity = 10_u64.checked_pow(digits as u32).filter(|_| digits <= DIGITS_MAX);
        if capacity.is_none_or(|capacity| u64::from(last) > capacity) {
            return Err(UsersError::Digits);
        }
        if count == 0 {
            return Err(UsersError::Empty);
        }
        if !(is_user_part(prefix) || prefix.is_empty() && digits > 0) {
            return Err(UsersError::Name);
        }
        let names = Names::Rule { prefix: prefix.into(), digits, first, count, password: password.into() };
        Ok(Self { names, lists: Vec::new(), first: 0 })
    }

    /// Users of a list, in its order.
    ///
    /// # Errors
    /// No user; a name that is not a user part.
    pub fn from_list(list: Vec<User>) -> Result<Self, UsersError> {
        if list.is_empty() {
            return Err(UsersError::Empty);
        }
        if u32::try_from(list.len()).is_err() {
            return Err(UsersError::Digits);
        }
        if !list.iter().all(|user| is_user_part(&user.name)) {
            return Err(UsersError::Name);
        }
        Ok(Self { names: Names::List(list), lists: Vec::new(), first: 0 })
    }

    /// Adds lists of fields. In the first one each user has a line, or every n-th user of shorter lists; its order is that of the
    /// users.
    #[must_use]
    pub fn with_lists(self, lists: Vec<FieldList>) -> Self {
        Self { lists, ..self }
    }

    /// True if the attempts' users are drawn at random.
    pub(crate) fn is_random(&self) -> bool {
        self.lists.first().is_some_and(|list| list.order() == FieldOrder::Random)
    }

    /// Appends a field of the line of an attempt. `draw` is random, and the same for all fields of an attempt.
    pub(crate) fn write_field(
        &self,
        list: u8,
        field: u16,
        user: u32,
        number: u64,
        draw: u64,
        out: &mut Vec<u8>,
    ) {
        let user = self.first.wrapping_add(user);
        if let Some(fields) = self.lists.get(usize::from(list)) {
            let line = if list == 0 { user } else { fields.line_of(user, number, draw) };
            fields.write(line, field, out);
        }
    }

    /// Part `index` of `parts` parts of nearly equal size, in order. `None`: there is no user for it.
    pub fn part(&self, index: u32, parts: u32) -> Option<Self> {
        let bound = |index: u32| {
            let bound = u64::from(self.count()) * u64::from(index.min(parts)) / u64::from(parts.max(1));
            u32::try_from(bound).unwrap_or(u32::MAX)
        };
        let (start, end) = (bound(index), bound(index.saturating_add(1)));
        if start >= end {
            return None;
        }
        let names = match &self.names {
            Names::Rule { prefix, digits, first, password, .. } => Names::Rule {
                prefix: prefix.clone(),
                digits: *digits,
                first: first + start,
                count: end - start,
                password: password.clone(),
            },
            Names::List(list) => Names::List(list.get(start as usize..end as usize)?.to_vec()),
        };
        Some(Self { names, lists: self.lists.clone(), first: self.first + start })
    }

    /// Number of users; at least 1.
    pub fn count(&self) -> u32 {
        match &self.names {
            Names::Rule { count, .. } => *count,
            Names::List(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
        }
    }

    /// Appends the name of a user. `index` counts from 0 and wraps around.
    pub fn write_name(&self, index: u32, out: &mut Vec<u8>) {
        match &self.names {
            Names::Rule { prefix, digits, first, count, .. } => {
                out.extend_from_slice(prefix.as_bytes());
                let mut number = first + index % count;
                let mut text = [b'0'; DIGITS_MAX];
                let text = text.get_mut(..*digits).unwrap_or_default();
                for digit in text.iter_mut().rev() {
                    *digit += (number % 10) as u8;
                    number /= 10;
                }
                out.extend_from_slice(text);
            }
            Names::List(list) => {
                if let Some(user) = list.get(index as usize % list.len()) {
                    out.extend_from_slice(user.name.as_bytes());
                }
            }
        }
    }

    /// Password of a user; empty for none.
    pub fn password(&self, index: u32) -> &str {
        match &self.names {
            Names::Rule { password, .. } => password,
            Names::List(list) => list.get(index as usize % list.len()).map_or("", |user| &user.password),
        }
    }
}

/// Maximum number of digits of a rule.
const DIGITS_MAX: usize = 9;

/// RFC 3261 §25: unreserved and user-unreserved characters, and escapes.
fn is_user_part(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/%".contains(&byte);
    !text.is_empty() && text.bytes().all(is_good)
}

/// Configuration of a [`Generator`](crate::Generator).
#[derive(Clone, Debug)]
pub struct Config {
    /// Steps of each attempt.
    pub scenario: Arc<Scenario>,
    /// Users whose attempts are made, in order.
    pub users: Users,
    /// Called users. Attempt `n` of user `n` calls peer `n`.
    pub peers: Users,
    /// Domain of the users.
    pub domain: String,
    /// Address of the server.
    pub remote: SocketAddr,
    /// Transport to the server.
    pub transport: Transport,
    /// Connections of a stream transport.
    pub connections: ConnectionUse,
    /// True if requests inside a dialog without routes go to [`Config::remote`] too, not to the peer's Contact: the server is an
    /// outbound proxy.
    pub is_outbound_proxy: bool,
    /// Local addresses, one for each listener. User `n` has address `n`, modulo their number. Empty: attempts fail.
    pub locals: Vec<SocketAddr>,
    /// Address in the SDP.
    pub media: SocketAddr,
    /// Media streams of the calls. The scenario's SDP must agree with it.
    pub media_use: MediaUse,
    /// Planned times of the attempts; not used by a callee.
    pub arrivals: Option<Arrivals>,
    /// Values of T1, T2 and T4.
    pub timers: Timers,
    /// Maximum number of open attempts.
    pub attempts_max: usize,
    /// True if a user begins nothing for as long as Retry-After of a 503 says (RFC 3261 §21.5.4).
    pub honours_retry_after: bool,
    /// Maximum wait for a request of the peer, and for a final response after a provisional one.
    pub silence_max: Duration,
}

/// Connections of a stream transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionUse {
    /// One connection for each local address.
    #[default]
    Shared,
    /// One connection for each user.
    PerUser,
    /// One connection for each attempt.
    PerAttempt,
}

impl Config {
    /// Default of [`Config::attempts_max`].
    pub const ATTEMPTS_MAX: usize = 1_000_000;
    /// Default of [`Config::silence_max`]: timer C of a proxy (RFC 3261 §16.6).
    pub const SILENCE_MAX: Duration = Duration::from_secs(180);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn name(users: &Users, index: u32) -> Vec<u8> {
        let mut out = Vec::new();
        users.write_name(index, &mut out);
        out
    }

    #[test]
    fn a_rule_pads_and_wraps_around() {
        let users = Users::by_rule("u", 4, 8, 3, "p").unwrap();
        let names: Vec<_> = (0..4).map(|index| name(&users, index)).collect();
        assert_eq!(names, [&b"u0008"[..], b"u0009", b"u0010", b"u0008"]);
        assert_eq!(name(&Users::by_rule("alice", 0, 0, 1, "").unwrap(), 0), b"alice");
    }

    #[test]
    fn parts_together_are_all_users_in_order() {
        let list = (0..7).map(|index| User { name: alloc::format!("l{index}").into(), password: "".into() });
        for users in [Users::by_rule("u", 4, 100, 7, "p").unwrap(), Users::from_list(list.collect()).unwrap()]
        {
            let all: Vec<_> = (0..7).map(|index| name(&users, index)).collect();
            let parts = (0..3).map(|part| users.part(part, 3).unwrap());
            let together: Vec<_> =
                parts.flat_map(|part| (0..part.count()).map(move |index| name(&part, index))).collect();
            assert_eq!(together, all);
            assert_eq!((users.part(0, 8).map(|part| part.count()), users.part(3, 3).is_none()), (None, true));
        }
    }

    #[test]
    fn bad_users_are_refused() {
        assert_eq!(Users::by_rule("u", 2, 99, 2, "").unwrap_err(), UsersError::Digits);
        assert_eq!(Users::by_rule("u", 10, 0, 2, "").unwrap_err(), UsersError::Digits);
        assert_eq!(Users::by_rule("u", 2, 0, 0, "").unwrap_err(), UsersError::Empty);
        assert_eq!(Users::by_rule("u@x", 2, 0, 1, "").unwrap_err(), UsersError::Name);
        assert_eq!(Users::from_list(vec![]).unwrap_err(), UsersError::Empty);
        let user = |name: &str| User { name: name.into(), password: "".into() };
        assert_eq!(Users::from_list(vec![user("a"), user("b\r\n")]).unwrap_err(), UsersError::Name);
        let users = Users::from_list(vec![user("a"), user("b")]).unwrap();
        assert_eq!((name(&users, 3), users.count()), (b"b".to_vec(), 2));
    }
}

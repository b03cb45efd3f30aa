//! Conditions under which a run fails, `p99>50ms`, `success<99.9%`, and criteria of several.

use super::{Delay, Statistics};
use std::time::Duration;

/// Condition under which a run fails.
///
/// ```
/// use ringway_lab::load::Criterion;
///
/// let slow: Criterion = "p99>50ms".parse()?;
/// assert_eq!(slow.to_string(), "p99>50ms");
/// assert!("p99>50".parse::<Criterion>().is_err());
/// # Ok::<(), ringway_lab::load::CriterionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    text: String,
    value: Value,
    limit: f64,
}

/// Value that is compared. Delays are in seconds, shares from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// Percentile of the response time.
    Percentile(f64),
    Success,
    /// Achieved rate as a share of the offered one.
    Achieved,
    /// Retransmissions for each request.
    Retransmissions,
    /// 99th percentile of the generator's lag.
    Lag,
}

/// Reason why a condition is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CriterionError {
    /// Text that is no condition.
    Syntax(String),
    /// A condition that good runs fulfil: the text, and the operator that was meant.
    Direction(String, char),
}

impl std::fmt::Display for CriterionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syntax(text) => write!(
                f,
                "`{text}` is not a condition; write for example p99>50ms, p99.9>1s, success<99.9%, achieved<99%, \
                 retransmissions>1% or lag>1ms"
            ),
            Self::Direction(text, operator) => {
                write!(
                    f,
                    "`{text}` holds for good runs, and a run fails if it holds; write it with {operator}"
                )
            }
        }
    }
}

impl std::error::Error for CriterionError {}

impl std::str::FromStr for Criterion {
    type Err = CriterionError;

    fn from_str(text: &str) -> Result<Self, CriterionError> {
        let read = || {
            let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
            let at = text.find(['<', '>'])?;
            let (name, rest) = text.split_at_checked(at)?;
            let (is_above, limit) = (rest.starts_with('>'), rest.get(1..)?);
            let (value, limit) = match name {
                "success" => (Value::Success, share(limit)?),
                "achieved" => (Value::Achieved, share(limit)?),
                "retransmissions" => (Value::Retransmissions, share(limit)?),
                "lag" => (Value::Lag, seconds(limit)?),
                _ => {
                    let percentile: f64 = name.strip_prefix('p')?.parse().ok()?;
                    (0.0..=100.0).contains(&percentile).then_some(())?;
                    (Value::Percentile(percentile), seconds(limit)?)
                }
            };
            Some((Self { value, limit, text }, is_above))
        };
        let (criterion, is_above) = read().ok_or_else(|| CriterionError::Syntax(text.to_owned()))?;
        match (criterion.value.is_better_above(), is_above) {
            (true, true) => Err(CriterionError::Direction(text.to_owned(), '<')),
            (false, false) => Err(CriterionError::Direction(text.to_owned(), '>')),
            (true, false) | (false, true) => Ok(criterion),
        }
    }
}

impl Value {
    const fn is_better_above(self) -> bool {
        match self {
            Self::Success | Self::Achieved => true,
            Self::Percentile(_) | Self::Retransmissions | Self::Lag => false,
        }
    }
}

impl std::fmt::Display for Criterion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Criterion {
    /// True if the run fails by this condition. A delay without a value fails: there was no response.
    pub fn is_met(&self, statistics: &Statistics) -> bool {
        match self.value_of(statistics) {
            Some(value) if self.value.is_better_above() => value < self.limit,
            Some(value) => value > self.limit,
            None => true,
        }
    }

    fn value_of(&self, statistics: &Statistics) -> Option<f64> {
        let seconds = |delay: Option<Duration>| delay.map(|delay| delay.as_secs_f64());
        match self.value {
            Value::Percentile(percentile) => seconds(statistics.percentile(Delay::Response, percentile)),
            Value::Lag => seconds(statistics.percentile(Delay::Lag, 99.0)),
            Value::Success => Some(statistics.successes() as f64 / (statistics.ended() as f64).max(1.0)),
            Value::Achieved => Some(statistics.achieved() / statistics.offered().max(f64::MIN_POSITIVE)),
            Value::Retransmissions => {
                let counters = statistics.counters();
                Some(counters.retransmissions as f64 / (counters.requests as f64).max(1.0))
            }
        }
    }

    fn name(&self) -> String {
        match self.value {
            Value::Percentile(percentile) => percentile_name(percentile),
            Value::Success => "success".into(),
            Value::Achieved => "achieved".into(),
            Value::Retransmissions => "retransmissions".into(),
            Value::Lag => "lag".into(),
        }
    }

    fn in_words(&self, value: f64) -> String {
        match self.value {
            Value::Percentile(_) | Value::Lag if value < 1.0 => format!("{} ms", rounded(value * 1e3)),
            Value::Percentile(_) | Value::Lag => format!("{} s", rounded(value)),
            Value::Success | Value::Retransmissions => format!("{} %", rounded(value * 100.0)),
            Value::Achieved => format!("{} % of the offered rate", rounded(value * 100.0)),
        }
    }
}

/// Conditions none of which may hold. Written as what must hold: `success ≥ 99 %, 99th percentile ≤ 50 ms`.
///
/// ```
/// use ringway_lab::load::Criteria;
///
/// let criteria = Criteria::new(vec!["success<99%".parse()?, "p99>50ms".parse()?]);
/// assert_eq!(criteria.to_string(), "success ≥ 99 %, 99th percentile ≤ 50 ms");
/// # Ok::<(), ringway_lab::load::CriterionError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Criteria(Vec<Criterion>);

impl Criteria {
    /// Criterion of these conditions.
    pub const fn new(conditions: Vec<Criterion>) -> Self {
        Self(conditions)
    }

    /// Conditions that hold, with the measured values: `success 93.2 % (≥ 99 %)`. Empty: the criterion is met.
    pub fn missed(&self, statistics: &Statistics) -> Vec<String> {
        let missed = self.0.iter().filter(|condition| condition.is_met(statistics));
        let words = |condition: &Criterion| {
            let value = condition.value_of(statistics);
            let value = value.map_or_else(|| "none".to_owned(), |value| condition.in_words(value));
            format!("{} {value} ({})", condition.name(), condition.bound())
        };
        missed.map(words).collect()
    }
}

impl Criterion {
    /// Value that must hold, as `≥ 99 %`.
    fn bound(&self) -> String {
        format!("{} {}", if self.value.is_better_above() { '≥' } else { '≤' }, self.in_words(self.limit))
    }
}

impl std::fmt::Display for Criteria {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = self.0.iter().map(|condition| format!("{} {}", condition.name(), condition.bound()));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

/// A percentile for people: `median`, `99.9th percentile`, `maximum`.
pub fn percentile_name(percentile: f64) -> String {
    let text = percentile.to_string();
    match text.as_str() {
        "50" => return "median".to_owned(),
        "100" => return "maximum".to_owned(),
        _ => {}
    }
    // Every condition has 50 or more: no 11th, 12th or 13th.
    let ending = match text.bytes().last() {
        _ if text.contains('.') => "th",
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        Some(_) | None => "th",
    };
    format!("{text}{ending} percentile")
}

/// At most three significant digits behind the point, and no zeros at the end.
fn rounded(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn share(text: &str) -> Option<f64> {
    let share: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&share).then_some(share / 100.0)
}

fn seconds(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("s", 1.0)];
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_or_refused() {
        let good = ["p50>1ms", "p99.9 > 200us", "p100>1s", "success<99.9%", "lag>1ms", "retransmissions>0%"];
        for good in good.into_iter().chain(["achieved<99%"]) {
            assert!(good.parse::<Criterion>().is_ok(), "{good}");
        }
        for bad in
            ["", "p99", "p99>", "p101>1ms", "p99>5", "success<2", "success<101%", "x>1ms", "p99>-1ms", ">1s"]
        {
            assert!(matches!(bad.parse::<Criterion>(), Err(CriterionError::Syntax(_))), "{bad}");
        }
        for (reversed, operator) in [("p99<50ms", '>'), ("success>99%", '<'), ("lag<1ms", '>')] {
            let error = reversed.parse::<Criterion>().unwrap_err();
            assert_eq!(error, CriterionError::Direction(reversed.to_owned(), operator));
        }
    }

    #[test]
    fn a_run_without_responses_fails_every_limit_of_delay() {
        let empty = Statistics::default();
        assert!("p99>50ms".parse::<Criterion>().unwrap().is_met(&empty));
        assert!("success<99%".parse::<Criterion>().unwrap().is_met(&empty));
        assert!(!"retransmissions>1%".parse::<Criterion>().unwrap().is_met(&empty));
    }

    #[test]
    fn criteria_say_what_must_hold_and_what_was_missed() {
        let conditions = ["success<100%", "achieved<99%", "retransmissions>0.5%", "p99.9>1.5s", "lag>200us"];
        let criteria = Criteria::new(conditions.iter().map(|text| text.parse().unwrap()).collect());
        let words = "success ≥ 100 %, achieved ≥ 99 % of the offered rate, retransmissions ≤ 0.5 %, 99.9th percentile ≤ 1.5 s, \
                     lag ≤ 0.2 ms";
        assert_eq!(criteria.to_string(), words);
        let missed = criteria.missed(&Statistics::default());
        assert_eq!(missed.first().map(String::as_str), Some("success 0 % (≥ 100 %)"), "{missed:?}");
        assert!(missed.contains(&"99.9th percentile none (≤ 1.5 s)".to_owned()), "{missed:?}");
        assert_eq!(Criteria::default().missed(&Statistics::default()), Vec::<String>::new());
    }
}

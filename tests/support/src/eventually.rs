//! Conditions that become true: checked again and again, with a limit in time.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for an action of a program. It is long, because a busy machine is slow, and a shorter limit speeds nothing up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Repeats `attempt` until it succeeds, and returns its result.
///
/// # Errors
/// The last error, if it fails for longer than `limit`.
pub fn retry<T, E>(limit: Duration, attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    retry_often(limit, LONGEST_PAUSE, attempt)
}

/// Same with another longest pause between two attempts.
///
/// # Errors
/// As of [`retry`].
pub fn retry_often<T, E>(
    limit: Duration,
    longest_pause: Duration,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let end = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        // Read before the attempt: one begins after the limit, however long the pause was.
        let is_last = Instant::now() >= end;
        match attempt() {
            Err(_) if !is_last => sleep(pause),
            outcome => return outcome,
        }
        pause = (2 * pause).min(longest_pause);
    }
}

/// Waits until a condition holds; false if it does not within `limit`.
#[must_use]
pub fn holds(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    retry(limit, || condition().then_some(()).ok_or(())).is_ok()
}

/// Waits until a condition holds, for [`PATIENCE`] at most.
///
/// # Panics
/// It does not; the message has `what`, the name of the condition.
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds(PATIENCE, condition), "not within {} s: {what}", PATIENCE.as_secs());
}

/// Waits until `attempt` returns a value, for [`PATIENCE`] at most, and returns that.
///
/// # Panics
/// It returns none; the message has `what`, the name of the value.
#[track_caller]
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let found = retry(PATIENCE, || attempt().ok_or(()));
    found.unwrap_or_else(|()| panic!("not within {} s: {what}", PATIENCE.as_secs()))
}

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_repeated_until_one_succeeds_or_the_limit_is_over() {
        let mut attempts = 0;
        let third = |attempts: &mut u32| {
            *attempts += 1;
            if *attempts < 3 { Err(*attempts) } else { Ok(*attempts) }
        };
        assert_eq!(retry(PATIENCE, || third(&mut attempts)), Ok(3));
        assert_eq!(retry(Duration::ZERO, || Err::<(), _>("the last error")), Err("the last error"));
        assert!(holds(Duration::ZERO, || true) && !holds(Duration::from_millis(5), || false));
        assert_eq!(wait_for("a value", || Some(7)), 7);
    }
}

//! Runs of a story, each from a seed.

use std::any::Any;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Check that failed in a story.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Seed that shows it again.
    pub seed: u64,
    /// Message of the check.
    pub why: String,
    /// Sent packets, and what the phones saw.
    pub report: String,
}

/// Plays a story in a world of this seed.
pub(crate) fn play<W>(
    seed: u64,
    make: impl FnOnce() -> W,
    story: impl FnOnce(&mut W),
    report: impl FnOnce(&W) -> String,
) -> Result<(), Violation> {
    let violation = |panic: Box<dyn Any + Send>, report| Violation { seed, why: message_of(&*panic), report };
    let made = catch_unwind(AssertUnwindSafe(make));
    let mut world = made.map_err(|panic| violation(panic, String::new()))?;
    let outcome = catch_unwind(AssertUnwindSafe(|| story(&mut world)));
    outcome.map_err(|panic| violation(panic, report(&world)))
}

/// Plays a story once for each seed: from `RINGWAY_SEED` on (default 1), `RINGWAY_SEEDS` of them (default `count`). Panics at the first
/// violation, with its seed and the sent packets.
pub(crate) fn run(name: &str, count: u64, play: impl Fn(u64) -> Result<(), Violation>) {
    let first = number("RINGWAY_SEED").unwrap_or(1);
    let count = number("RINGWAY_SEEDS").unwrap_or(count);
    for seed in first..first.saturating_add(count) {
        if let Err(violation) = play(seed) {
            eprintln!("{}", violation.report);
            panic!("story '{name}' fails with RINGWAY_SEED={seed} RINGWAY_SEEDS=1: {}", violation.why);
        }
    }
}

/// Number in a variable of the environment. Panics if it is none.
pub fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

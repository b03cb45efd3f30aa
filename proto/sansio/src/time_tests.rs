//! Tests of the timer wheel, against a sorted list.

use super::*;
use crate::{Rng, Seed};
use core::time::Duration;

fn ms(value: u64) -> Instant {
    Instant::from_nanos(value * NANOS_PER_TICK)
}

fn drain(wheel: &mut Wheel<u64>, now: Instant) -> Vec<u64> {
    core::iter::from_fn(|| wheel.expire(now)).collect()
}

#[test]
fn a_timer_fires_at_its_time_and_not_before() {
    let mut wheel = Wheel::new(ms(1000));
    wheel.arm(ms(1500), 1);
    assert!(drain(&mut wheel, ms(1499)).is_empty());
    assert_eq!(drain(&mut wheel, ms(1500)), [1]);
    assert!(wheel.is_empty() && wheel.next_due().is_none());
}

#[test]
fn a_cancelled_timer_stays_silent_and_its_key_is_spent() {
    let mut wheel = Wheel::new(ms(0));
    let key = wheel.arm(ms(10), 1);
    assert_eq!(wheel.cancel(key), Some(1));
    assert_eq!(wheel.cancel(key), None);
    let other = wheel.arm(ms(10), 2);
    assert_eq!(wheel.cancel(key), None, "the slot is used again, the old key must not reach it");
    assert_eq!(wheel.cancel(other), Some(2));
    assert_eq!(wheel.cancel(TimerKey::NONE), None);
}

#[test]
fn a_time_in_the_past_fires_at_the_next_tick() {
    let mut wheel = Wheel::new(ms(1000));
    wheel.arm(ms(1), 7);
    assert_eq!(drain(&mut wheel, ms(1001)), [7]);
}

#[test]
fn a_part_of_a_millisecond_is_waited_out() {
    let mut wheel = Wheel::new(ms(0));
    wheel.arm(ms(5) + Duration::from_nanos(1), 7);
    assert!(drain(&mut wheel, ms(5)).is_empty());
    assert_eq!(drain(&mut wheel, ms(6)), [7]);
}

#[test]
fn it_agrees_with_a_sorted_list_over_many_random_histories() {
    for seed in 0..60 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let start = rng.below(1 << 40);
        let mut now = start;
        let mut wheel = Wheel::new(ms(now));
        let mut model: Vec<(u64, u64, TimerKey)> = Vec::new();
        for id in 0..2000_u64 {
            let spread = [10, 300, 70_000, 20_000_000, 6_000_000_000][rng.below(5) as usize];
            let due = now + 1 + rng.below(spread);
            model.push((due, id, wheel.arm(ms(due), id)));
            if rng.random_bool(300) && !model.is_empty() {
                let victim = rng.below(model.len() as u64) as usize;
                let (_, id, key) = model.swap_remove(victim);
                assert_eq!(wheel.cancel(key), Some(id), "seed {seed}");
            }
            if rng.random_bool(200) {
                let step = [5, 500, 100_000, 30_000_000][rng.below(4) as usize];
                now += rng.below(step);
                let mut due: Vec<_> = model.iter().filter(|t| t.0 <= now).map(|t| (t.0, t.1)).collect();
                due.sort_unstable();
                model.retain(|t| t.0 > now);
                let fired = drain(&mut wheel, ms(now));
                let mut sorted = fired.clone();
                sorted.sort_unstable();
                let mut expected: Vec<_> = due.iter().map(|t| t.1).collect();
                expected.sort_unstable();
                assert_eq!(sorted, expected, "seed {seed} at {now}");
                assert_eq!(wheel.len(), model.len(), "seed {seed}");
                if let Some(earliest) = model.iter().map(|t| t.0).min() {
                    let reported = wheel.next_due().map(Instant::as_millis);
                    assert!(
                        reported.is_some_and(|reported| reported <= earliest && reported > now),
                        "seed {seed}: {reported:?} {earliest}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_saturate_instead_of_wrapping() {
    assert_eq!(Instant::FAR + Duration::from_secs(1), Instant::FAR);
    assert_eq!(Instant::from_secs(1) - Duration::from_secs(2), Instant::default());
    assert_eq!(Instant::from_secs(1).since(Instant::from_secs(2)), Duration::ZERO);
    assert_eq!(Instant::from_secs(u64::MAX), Instant::FAR);
}

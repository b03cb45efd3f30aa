//! Random stories from many seeds, and the faults that they must find.
//!
//! Does: plays each [`RandomStory`] from the seeds that `RINGWAY_SEED` and `RINGWAY_SEEDS` name, on all processors, and prints what failed with
//! the seed that shows it again. With `RINGWAY_PLANTED` plants one fault after the other instead (docs/decisions/0078) and
//! looks for it: a fault that no story finds is a gap in the checks.
//!
//! Does not: run with the tests of the workspace; `cargo xtask sim` sets these.
//!
//! Start reading at [`main`].
#![allow(clippy::expect_used, reason = "a program of tests fails by panicking")]

use ringway_sansio::{Defence, PlantedFault};
use ringway_tests::{RandomStory, Violation, number};
use std::env;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let seeds =
        Seeds { first: number("RINGWAY_SEED").unwrap_or(1), count: number("RINGWAY_SEEDS").unwrap_or(100) };
    let stories = stories();
    if stories.is_empty() {
        let names: Vec<_> = RandomStory::ALL.iter().map(|story| story.name).collect();
        eprintln!("there is no such story; give one of: {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    // A violation is printed once, with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let is_well = match env::var_os("RINGWAY_PLANTED") {
        Some(_) => find_all(&stories, seeds),
        None => play_all(&stories, seeds),
    };
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Seeds of a run.
#[derive(Clone, Copy)]
struct Seeds {
    first: u64,
    count: u64,
}

/// Mistake of a run.
#[derive(Clone, Copy)]
enum Wrong {
    Fault(PlantedFault),
    /// Defence that is off: a client that repeats a request is believed.
    Off(Defence),
}

impl Wrong {
    fn name(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.name(),
            Self::Off(defence) => defence.name(),
        }
    }

    fn begin(self) {
        match self {
            Self::Fault(fault) => PlantedFault::plant(Some(fault)),
            Self::Off(defence) => Defence::switch_off(Some(defence)),
        }
    }

    fn end() {
        PlantedFault::plant(None);
        Defence::switch_off(None);
    }
}

/// The stories: all, or the one that `RINGWAY_STORY` names.
fn stories() -> Vec<&'static RandomStory> {
    let only = env::var("RINGWAY_STORY").ok();
    let stories = RandomStory::ALL.iter();
    stories.filter(|story| only.as_ref().is_none_or(|only| story.name == only)).collect()
}

/// Plays all stories from all seeds; false: a check failed.
fn play_all(stories: &[&RandomStory], seeds: Seeds) -> bool {
    let mut is_well = true;
    println!("{:<14} {:>9} {:>9}  violations", "story", "seeds", "seconds");
    for story in stories {
        let begun = Instant::now();
        let played = play(story, seeds, Until::End);
        let seconds = begun.elapsed().as_secs_f64();
        println!("{:<14} {:>9} {seconds:>9.1}  {}", story.name, played.count, played.violations.len());
        is_well &= played.violations.is_empty();
        for violation in played.violations.iter().take(SHOWN_MAX) {
            println!("  seed {}: {}", violation.seed, violation.why);
            println!(
                "  packets: RINGWAY_SEED={} RINGWAY_SEEDS=1 cargo test -p ringway-tests --test stories random",
                violation.seed
            );
        }
    }
    is_well
}

/// Plants every fault, and looks for it; false: one was not found, or a story fails without it.
fn find_all(stories: &[&RandomStory], seeds: Seeds) -> bool {
    let faults = PlantedFault::ALL.iter().copied().map(Wrong::Fault);
    let all: Vec<Wrong> = faults.chain([Wrong::Off(Defence::NonceCount)]).collect();
    let mut found = 0;
    println!("{:<22} {:<14} {:>7}  what the check says", "fault", "story", "seed");
    for wrong in &all {
        wrong.begin();
        let result = find(stories, seeds);
        Wrong::end();
        let Some((story, violation)) = result else {
            println!("{:<22} {:<14} {:>7}  NOT FOUND within {} seeds", wrong.name(), "-", "-", seeds.count);
            continue;
        };
        let is_of_fault = story.play(violation.seed).is_ok();
        found += usize::from(is_of_fault);
        let line = violation.why.lines().next().unwrap_or_default();
        let doubt = if is_of_fault { "" } else { "FAILS WITHOUT THE FAULT, too: " };
        println!("{:<22} {:<14} {:>7}  {doubt}{line}", wrong.name(), story.name, violation.seed);
    }
    println!("{found} of {} faults found", all.len());
    found == all.len()
}

/// Story that fails first, and how.
fn find<'s>(stories: &[&'s RandomStory], seeds: Seeds) -> Option<(&'s RandomStory, Violation)> {
    let mut played = 0;
    // A few seeds of each story at a time: one fault is in calls, another in nodes.
    let mut at_a_time = 8;
    while played < seeds.count {
        let count = at_a_time.min(seeds.count - played);
        for story in stories {
            let part = Seeds { first: seeds.first + played, count };
            let first = play(story, part, Until::Violation).violations.into_iter().next();
            if let Some(violation) = first {
                return Some((story, violation));
            }
        }
        played += count;
        at_a_time *= 2;
    }
    None
}

/// End of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// All seeds.
    End,
    /// The first violation.
    Violation,
}

struct Played {
    count: u64,
    violations: Vec<Violation>,
}

/// Plays a story on all processors.
fn play(story: &RandomStory, seeds: Seeds, until: Until) -> Played {
    let (next, count) = (AtomicU64::new(0), AtomicU64::new(0));
    let violations = Mutex::new(Vec::new());
    let reported = Mutex::new(Instant::now());
    let work = || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < seeds.count
        {
            let result = story.play(seeds.first + number);
            let done = count.fetch_add(1, Ordering::Relaxed) + 1;
            if let Err(violation) = result {
                let mut violations = violations.lock().expect("nobody panics with it");
                violations.push(violation);
                if until == Until::Violation || violations.len() >= VIOLATIONS_MAX {
                    next.store(seeds.count, Ordering::Relaxed);
                }
            }
            let mut reported = reported.lock().expect("nobody panics with it");
            if until == Until::End && reported.elapsed() >= PROGRESS_INTERVAL {
                *reported = Instant::now();
                eprintln!("{}: {done} of {} seeds", story.name, seeds.count);
            }
        }
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors {
            scope.spawn(work);
        }
    });
    let mut violations = violations.into_inner().expect("nobody panics with it");
    violations.sort_by_key(|violation| violation.seed);
    Played { count: count.into_inner(), violations }
}

/// Violations of a story that are shown.
const SHOWN_MAX: usize = 3;
/// Violations after which a story ends.
const VIOLATIONS_MAX: usize = 20;
/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

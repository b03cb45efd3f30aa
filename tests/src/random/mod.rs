//! Stories of random actions: nothing is expected of a single call, and the checks must hold for every seed.

mod cluster;
mod life;

use crate::{Violation, seeds};

/// Story of random actions.
#[derive(Clone, Copy, Debug)]
pub struct RandomStory {
    /// Its name in reports.
    pub name: &'static str,
    play: fn(u64) -> Result<(), Violation>,
    /// Seeds of a short test.
    count: u64,
}

impl RandomStory {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self { name: "calls", play: life::calls, count: 20 },
        Self { name: "stateless", play: life::stateless, count: 20 },
        Self { name: "forwards", play: life::forwards, count: 20 },
        Self { name: "restarts", play: life::restarts, count: 10 },
        Self { name: "nodes", play: cluster::all, count: 2 },
        Self { name: "nodes-served", play: cluster::served, count: 2 },
    ];

    /// Plays it from a seed.
    ///
    /// # Errors
    /// A check failed.
    pub fn play(&self, seed: u64) -> Result<(), Violation> {
        (self.play)(seed)
    }

    /// Plays the story of this name from the seeds of a short test, or from those of `RINGWAY_SEED` and `RINGWAY_SEEDS`. Panics if a check
    /// fails, or there is no such story.
    pub fn test(name: &str) {
        let story = Self::ALL.iter().find(|story| story.name == name).expect("a story has this name");
        seeds::run(name, story.count, story.play);
    }
}

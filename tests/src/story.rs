//! Running a story for each seed.

use crate::World;
use ringway_server::Config;
use ringway_sim::Faults;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A story: a name, what is special about its world, and what happens.
///
/// `RINGWAY_SEED` is the first seed (default 1), `RINGWAY_SEEDS` how many (default [`Story::SEEDS`]). A story that fails
/// prints its seed and what was on the wire.
pub struct Story {
    name: &'static str,
    faults: Faults,
    configure: fn(&mut Config),
}

impl Story {
    /// How many seeds run when nobody says.
    pub const SEEDS: u64 = 20;

    /// A story in a good network with the default configuration.
    pub fn new(name: &'static str) -> Self {
        Self { name, faults: Faults::default(), configure: |_| {} }
    }

    /// What the network does to packets.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// What the server is configured to do differently.
    pub fn configure(mut self, configure: fn(&mut Config)) -> Self {
        self.configure = configure;
        self
    }

    /// Tells it once for each seed. Afterwards the world settles and is checked.
    pub fn run(self, tell: impl Fn(&mut World)) {
        let first = number("RINGWAY_SEED").unwrap_or(1);
        let count = number("RINGWAY_SEEDS").unwrap_or(Self::SEEDS);
        for seed in first..first.saturating_add(count) {
            let mut world = World::new(seed, self.faults.clone(), self.configure);
            let told = catch_unwind(AssertUnwindSafe(|| {
                tell(&mut world);
                world.settle();
            }));
            if let Err(panic) = told {
                eprintln!("story '{}' fails with RINGWAY_SEED={seed} RINGWAY_SEEDS=1", self.name);
                eprintln!("{}", world.report());
                resume_unwind(panic);
            }
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

//! Running a story for each seed.

use crate::World;
use ringway_server::Config;
use ringway_sim::Faults;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Story: a test with a name and the differences of its world from the default.
///
/// `RINGWAY_SEED` is the first seed (default 1), `RINGWAY_SEEDS` their number (default [`Story::SEEDS`]). A story that
/// fails prints its seed and the sent packets.
pub struct Story {
    name: &'static str,
    faults: Faults,
    configure: fn(&mut Config),
}

impl Story {
    /// Default number of seeds.
    pub const SEEDS: u64 = 20;

    /// Creates a story with a good network and the default configuration.
    pub fn new(name: &'static str) -> Self {
        Self { name, faults: Faults::default(), configure: |_| {} }
    }

    /// Sets the faults of the network.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the change of the server's configuration.
    pub fn configure(mut self, configure: fn(&mut Config)) -> Self {
        self.configure = configure;
        self
    }

    /// Runs it once for each seed. Afterwards the world settles and is checked.
    pub fn run(self, notify: impl Fn(&mut World)) {
        let first = number("RINGWAY_SEED").unwrap_or(1);
        let count = number("RINGWAY_SEEDS").unwrap_or(Self::SEEDS);
        for seed in first..first.saturating_add(count) {
            let mut world = World::new(seed, self.faults.clone(), self.configure);
            let result = catch_unwind(AssertUnwindSafe(|| {
                notify(&mut world);
                world.settle();
            }));
            if let Err(panic) = result {
                eprintln!("story '{}' fails with RINGWAY_SEED={seed} RINGWAY_SEEDS=1", self.name);
                eprintln!("{}", world.report());
                resume_unwind(panic);
            }
        }
    }
}

pub(crate) fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

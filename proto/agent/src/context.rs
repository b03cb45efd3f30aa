//! State that all components use, and the argument that lends it to them.

use crate::draft::hex;
use crate::{Action, Config, Counters};
use alloc::vec::Vec;
use ringway_sansio::{Context, Entropy, Instant, Rng, Seed};

/// State that all components use: configuration, counters, randomness.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    pub(crate) random: Randomness,
    /// True after [`UserAgent::shut_down`](crate::UserAgent::shut_down): no new calls and registrations.
    pub(crate) is_stopping: bool,
}

/// Generators of randomness. Nothing visible comes from a generator that anything secret comes from.
pub(crate) struct Randomness {
    /// Media keys, which only the peer of a call may see.
    pub(crate) secrets: Entropy,
    /// Tags, Call-IDs, cnonces: unpredictable, but visible once they are sent.
    pub(crate) visible: Entropy,
    /// Back-off and glare: values that only have to differ.
    pub(crate) rng: Rng,
}

/// Argument of every call into the requests: the [`Context`] of the current call into the agent, and the shared state.
pub(crate) struct AgentContext<'a> {
    pub(crate) io: Context<'a, Action>,
    pub(crate) config: &'a Config,
    pub(crate) counters: &'a mut Counters,
    pub(crate) random: &'a mut Randomness,
}

impl Shared {
    pub(crate) fn new(config: Config, seed: &Seed) -> Self {
        Self { config, counters: Counters::default(), random: Randomness::new(seed), is_stopping: false }
    }

    /// Lends the shared state for one call into a component.
    pub(crate) fn lend<'a>(&'a mut self, cx: &'a mut Context<'_, Action>) -> AgentContext<'a> {
        AgentContext {
            io: Context::new(cx.now, cx.out, cx.actions),
            config: &self.config,
            counters: &mut self.counters,
            random: &mut self.random,
        }
    }
}

impl AgentContext<'_> {
    pub(crate) const fn now(&self) -> Instant {
        self.io.now
    }
}

impl Randomness {
    fn new(seed: &Seed) -> Self {
        Self {
            secrets: Entropy::new(&seed.part(SECRETS)),
            visible: Entropy::new(&seed.part(VISIBLE)),
            rng: Rng::new(&seed.part(TIMING)),
        }
    }

    /// An unpredictable tag of 16 hexadecimal digits.
    pub(crate) fn new_tag(&mut self) -> Vec<u8> {
        hex(&self.visible.bytes::<8>())
    }

    /// An unpredictable Call-ID of 32 hexadecimal digits.
    pub(crate) fn new_call_id(&mut self) -> Vec<u8> {
        hex(&self.visible.bytes::<16>())
    }
}

/// Parts of the seed.
const SECRETS: u64 = 0;
const TIMING: u64 = 1;
const VISIBLE: u64 = 2;

//! The thread that reads records and nodes.
//!
//! It has two connections to each master: one waits in XREAD for news, one reads pages, lookups and nodes. One thread delivers
//! both, so that a page is never older than what was delivered from the stream before; [`crate::stream::Position`] holds back what
//! the stream still has from before the page.

use crate::backoff::Backoff;
use crate::read_session::ReadSession;
use crate::reader_state::{ReaderState, wait};
use crate::shared::{Part, Shared};
use std::sync::Arc;
use std::time::Instant;

pub(crate) struct Reader {
    state: ReaderState,
    backoff: Backoff,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let seed = shared.settings.seed.rotate_left(32) ^ 0x9E37_79B9_7F4A_7C15;
        let state = ReaderState::new(shared);
        Self { state, backoff: Backoff::new(seed) }
    }

    /// Runs until the store is stopped.
    pub(crate) fn run(&mut self) {
        let shared = Arc::clone(&self.state.shared);
        while !shared.stopped() {
            self.backoff.begin(Instant::now());
            let ended = ReadSession::open(&mut self.state).and_then(|mut session| session.run());
            shared.close_lookups();
            let Err(error) = ended else { return };
            shared.fails(Part::Reader, &error.to_string());
            let until = Instant::now() + self.backoff.pause(Instant::now());
            while !shared.stopped() && Instant::now() < until {
                wait(&shared, &[], until.saturating_duration_since(Instant::now()));
            }
        }
    }
}

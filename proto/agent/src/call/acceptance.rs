//! A 2xx to an INVITE, from us, until its ACK (RFC 3261 §13.3.1.4). It is this layer that sends it again, over reliable
//! transports too, because only the ACK says that it arrived.
//!
//! ```text
//!   2xx sent ── T1, doubling up to T2: sent again ──┐
//!      │  ▲─────────────────────────────────────────┘
//!      │ ACK ──► done (its answer, where the 2xx had the offer)
//!      └ 64·T1 ──► BYE
//! ```

use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::TimerKey;
use ringway_transaction::ServerId;

/// A 2xx without its ACK yet.
#[derive(Debug)]
pub(super) struct Acceptance {
    pub(super) server: ServerId,
    pub(super) response: Vec<u8>,
    /// The INVITE's number, which its ACK has too.
    pub(super) cseq: u32,
    pub(super) accepting: Accepting,
    /// The 2xx had the offer.
    pub(super) awaits_answer: bool,
    pub(super) interval: Duration,
    pub(super) repeat: TimerKey,
    pub(super) give_up: TimerKey,
}

/// What was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepting {
    /// The call.
    Call,
    /// A change of it.
    Change,
}

impl Acceptance {
    pub(super) const fn new(
        server: ServerId,
        response: Vec<u8>,
        cseq: u32,
        accepting: Accepting,
        awaits_answer: bool,
    ) -> Self {
        Self {
            server,
            response,
            cseq,
            accepting,
            awaits_answer,
            interval: Duration::ZERO,
            repeat: TimerKey::NONE,
            give_up: TimerKey::NONE,
        }
    }
}

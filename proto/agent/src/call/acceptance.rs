//! A sent 2xx to an INVITE, until its ACK (RFC 3261 §13.3.1.4). This layer retransmits it, over reliable transports too,
//! because only the ACK confirms it end-to-end.
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

/// Sent 2xx without its ACK.
#[derive(Debug)]
pub(super) struct Acceptance {
    pub(super) server: ServerId,
    pub(super) response: Vec<u8>,
    /// CSeq number of the INVITE and of its ACK.
    pub(super) cseq: u32,
    pub(super) accepting: Accepting,
    /// True if the 2xx has the offer.
    pub(super) awaits_answer: bool,
    pub(super) interval: Duration,
    pub(super) repeat: TimerKey,
    pub(super) give_up: TimerKey,
}

/// Purpose of the accepted INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepting {
    /// New call.
    Call,
    /// Change of an established call.
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

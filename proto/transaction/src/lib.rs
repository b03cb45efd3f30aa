//! Transaction layer: RFC 3261 §17 with RFC 6026 (INVITE and 2xx) and RFC 4320 (non-INVITE), and the rules for Via of
//! §18.
//!
//! Does: the four state machines as pure functions ([`state`]), and [`Transactions`], which stores them, matches messages
//! to them, retransmits, runs timers A to M, and sends CANCEL and the ACK of a failed INVITE. [`SipFramer`] is the
//! framing of every machine that speaks SIP.
//!
//! Does not: choose responses and next hops. Its user (the server, the softphone) does that; only messages that the
//! parser rejects are answered here ([`answer_rejected`]).
//!
//! Start reading at [`Transactions`]; the machines are one file each in `state/`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod state;

mod client;
mod layer;
mod requesting;
mod server;
mod serving;
mod slab;
mod stream;
mod timers;
mod via;

pub use client::{ClientId, Outgoing};
pub use layer::{Answer, Counters, Incoming, Notice, Transactions};
pub use server::{Allowance, MatchKey, ServerId};
pub use serving::{answer_rejected, to_tag};
pub use slab::{Slab, SlabKey};
pub use stream::SipFramer;
pub use timers::{Limits, Timers};
pub use via::{
    Branch, BranchKey, DEFAULT_PORT, StatelessBranch, may_send_to, reply_address, reply_flow,
    shard_of_quoted, shard_of_response, stamped_address,
};

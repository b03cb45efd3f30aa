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

mod address;
mod allowance;
mod branch;
mod client;
mod clock;
mod config;
mod layer;
mod matching;
mod rejected;
mod requesting;
mod server;
mod serving;
mod slab;
mod stored;
mod stream;
mod to_tag;
mod token;
mod via;

pub use address::{DEFAULT_PORT, may_send_to};
pub use allowance::Allowance;
pub use branch::{Branch, BranchKey, StatelessBranch, shard_of_quoted, shard_of_response};
pub use client::{ClientId, Outgoing};
pub use config::{Limits, Timers};
pub use layer::{Answer, Counters, Incoming, Notice, Transactions};
pub use matching::MatchKey;
pub use rejected::answer_rejected;
pub use server::ServerId;
pub use slab::{Slab, SlabKey};
pub use stream::SipFramer;
pub use to_tag::to_tag;
pub use via::{reply_address, reply_flow, stamped_address};

//! A phone's signalling as one protocol machine: registration, dialogs, calls.
//!
//! Does: [`UserAgent`], a [`Node`](ringway_sansio::Node): registration with refresh and back-off, the client's half of
//! digest, calls in and out with early media, forks, hold, glare, transfer and replacement, queries, an outbound proxy or
//! none.
//!
//! Does not: open sockets, read clocks, look up names, or touch a packet of sound. What was agreed on for the sound comes
//! out as [`ringway_sdp::MediaParams`] in an [`AgentEvent`].
//!
//! Start reading at `agent.rs`; then `call/mod.rs` for a call's states, `request.rs` for how a request is sent,
//! `method/` for what comes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod agent;
mod call;
mod config;
mod connections;
mod counters;
mod dialog;
mod event;
mod method;
mod reply;
mod request;
mod session;
mod way;

pub use account::{AccountId, BadAccount};
pub use agent::{QueryId, UserAgent};
pub use call::{CallError, CallId, CallState, Role};
pub use config::{
    Account, Config, FirstHop, InDialogChallenges, LargeRequests, Limits, Listener, Secret, ServerAddress,
    Trace,
};
pub use counters::Counters;
pub use event::{Action, AgentEvent, By, Ended, MessageDirection};
pub use ringway_sip::digest::Ha1;
pub use ringway_transaction::SipFramer;
pub use way::NoWay;

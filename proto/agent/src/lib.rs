//! Signalling of a phone as one protocol machine: registration, dialogs, calls.
//!
//! Does: [`UserAgent`], a [`Node`](ringway_sansio::Node): registration with refresh and back-off, both halves of
//! digest, calls in and out with early media, forks, hold, glare, transfer and replacement, queries, an outbound proxy or
//! none.
//!
//! Does not: open sockets, read clocks, resolve names, or process media packets. The negotiated media is returned as
//! [`ringway_sdp::MediaParams`] in an [`AgentEvent`].
//!
//! Start reading at `agent/mod.rs`; then `call/mod.rs` for a call's states, `request/mod.rs` for how a request is sent,
//! `agent/dispatch.rs` for received requests.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod agent;
mod body;
mod call;
mod config;
mod context;
mod core_context;
mod counters;
mod dialog;
mod draft;
mod event;
mod next_hop;
mod registration;
mod request;
mod session;

pub use account::{BadAccount, is_instance};
pub use agent::UserAgent;
pub use call::{CallError, CallState, Role};
pub use config::{
    Account, CallerAuth, Config, InDialogChallenges, LargeRequests, Limits, Listener, PeerCredentials,
    Secret, ServerAddress, Trace,
};
pub use counters::Counters;
pub use event::{Abilities, Action, AgentEvent, By, Ended, MessageDirection};
pub use event::{AccountId, CallId, QueryId};
pub use next_hop::RouteError;
pub use ringway_sip::digest::Ha1;
pub use ringway_transaction::SipFramer;

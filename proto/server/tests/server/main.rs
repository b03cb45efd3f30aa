//! Tests of the server through [`ringway_sansio::Node`]: messages are its input, and the sent messages are checked as
//! text. Time is virtual; there are no sockets.
//!
//! Tested: the torture messages of RFC 4475 and RFC 5118, the registrar, digest, the proxy with its forks and dialogs, stateless
//! forwarding, redirecting, relaying, and malformed bytes. Not tested: sockets, and several shards at once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![allow(clippy::duplicate_mod, reason = "the harness of the fuzz target has the settings, too")]

mod advertised;
mod amplification;
mod blocks;
mod call_limits;
mod call_records;
mod cancel;
mod certificates;
mod challenge;
mod cluster;
mod connection;
mod content_length;
mod convert;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
mod credentials;
mod decisions;
mod dialog;
mod dialog_state;
mod digest_forms;
mod drain;
mod edge;
mod emergency;
mod ends;
mod events_corpus;
mod failover;
mod fork;
mod forwards;
mod front;
mod growth;
mod gruu;
mod guessing;
mod harness;
#[cfg(feature = "patterns")]
mod header_rules;
mod hidden_users;
mod hostile;
mod inner_hosts;
mod listeners;
mod locate;
mod log_events;
mod login;
mod long_requests;
mod mark;
mod media;
mod media_hostile;
mod memory;
mod messages;
mod messages_limits;
mod messages_phones;
mod moves;
mod nat;
mod neighbour_alias;
mod neighbour_calls;
mod neighbours;
mod numbers;
mod outbound;
mod overload;
mod overload_pulse;
mod path;
mod peer_control;
mod presence;
mod presence_limits;
mod proxy;
mod recursion;
mod redirect;
mod reflection;
mod register;
mod register_order;
mod regress;
mod relay;
mod rfc5118;
mod routes;
mod serial;
mod shared;
mod sips;
mod stateless;
mod steps;
mod stir;
mod stun;
mod topology;
mod torture_invalid;
mod torture_semantic;
mod torture_valid;
mod trunk_bypass;
mod trunk_dialogs;
mod trunk_fields;
mod trunk_identity;
mod trunk_logins;
mod trunk_owners;
mod trunk_registration;
mod trunks;

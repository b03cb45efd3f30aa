//! The driver with real sockets: listeners, clients, streams, their memory and their cost.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod cost;
mod files;
mod listeners;
mod memory;
mod node;
mod proxy_protocol;
mod runtime;
mod tcp;
mod udp;

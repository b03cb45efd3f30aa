//! The built program: its commands, its files, its log, its pages, and what its processes send.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin_api;
mod advertise;
mod answer;
mod call_records;
mod cert;
mod check;
mod commands;
mod cookbook;
mod dashboard;
mod documents;
mod drain;
mod dtls;
mod forward_live;
mod lab;
mod lab_run;
mod log;
mod media_relay;
mod messages;
mod migrate;
mod neighbour;
mod neighbour_tls;
mod open_polls;
mod phone;
mod phone_peers;
mod phone_screen;
mod program;
mod reload_live;
mod restart;
mod routes_live;
mod scripted_peer;
mod terminal;
mod tls;
mod tls_clients;
mod trace;
mod websocket;

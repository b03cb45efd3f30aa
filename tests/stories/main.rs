//! Stories: the real server and scripted phones in the simulator, each for many seeds.
//!
//! Tested: registration, calls, their records, failed calls, races, bad networks, ICMP errors, forks, forwards, media relays, TCP, TLS, neighbours,
//! trunks, what carriers see and sign, a front before nodes, WebSocket, reloads, restarts, softphones, several nodes with a shared store, and random actions.
//! `RINGWAY_SEED` and `RINGWAY_SEEDS` choose the seeds; a story that fails prints its own.
#![cfg(test)]

mod call;
mod call_records;
mod cancel;
mod carriers;
mod cluster;
mod cluster_moves;
mod cluster_nodes;
mod cluster_trunks;
mod fork;
mod forward;
mod front;
mod icmp;
mod load;
mod media;
mod messages;
mod moves;
mod neighbours;
mod network;
mod outbound;
mod presence;
mod random;
mod refused;
mod register;
mod reload;
mod softphone;
mod tcp;
mod tls;
mod trunks;
mod websocket;

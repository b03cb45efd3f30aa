//! Stories: the real server and scripted phones in the simulator, each for many seeds.
//!
//! Tested: registration, calls, their records, failed calls, races, bad networks, ICMP errors, forks, forwards, media relays, TCP, TLS, neighbours,
//! trunks, a front before nodes, WebSocket, reloads, restarts, softphones, and random actions.
//! `RINGWAY_SEED` and `RINGWAY_SEEDS` choose the seeds; a story that fails prints its own.
#![cfg(test)]

mod call;
mod call_records;
mod cancel;
mod cluster;
mod fork;
mod forward;
mod front;
mod icmp;
mod life;
mod load;
mod media;
mod messages;
mod neighbours;
mod network;
mod outbound;
mod presence;
mod refused;
mod register;
mod reload;
mod softphone;
mod tcp;
mod tls;
mod trunks;
mod websocket;

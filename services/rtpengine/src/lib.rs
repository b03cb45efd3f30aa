//! Control of rtpengine media relays, off the packet path.
//!
//! Does: runs a [`Client`](ringway_ng::Client) over one UDP socket. Requests are sent on the thread that asks; one thread
//! receives the answers, retransmits and pings: [`Relays`].
//!
//! Does not: decide which call is relayed (`ringway_server`), choose the relay or read its answers (`ringway_ng`).
//!
//! Start reading at [`Relays`].
#![forbid(unsafe_code)]

mod relays;

pub use relays::{Relays, Status};
pub use ringway_ng::RELAYS_MAX;

//! Control of rtpengine media relays over UDP.
//!
//! Does: gives a [`Client`](ringway_ng::Client) its sockets. The worker that asks sends the command, and its loop reads the
//! answer: [`Relays`].
//!
//! Does not: decide which call is relayed (`ringway_server`), choose the relay or read its answers (`ringway_ng`), run a
//! thread.
//!
//! Start reading at [`Relays`].
#![forbid(unsafe_code)]

mod relays;

pub use relays::{Relays, Status};
pub use ringway_ng::{RELAYS_MAX, RelayChange, RelayState};

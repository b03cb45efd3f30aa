//! What stories are told with: a server and phones in the simulator.
//!
//! Does: [`Story`] runs a story for one seed or many and prints the seed and the wire of one that fails; [`World`] is
//! the network it happens in, with the real server; a [`Phone`] is a scripted user agent, a softphone the real one
//! ([`World::softphone`]); [`check`] looks at the wire for what must never be there.
//!
//! Does not: hold the stories. They are in `stories/`, one file a subject.
//!
//! Start reading at [`World`].
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "everything in here is for tests")]

pub mod check;

mod phone;
mod softphone;
mod story;
mod world;

pub use phone::{Account, Behaviour, Heard, Phone};
pub use story::Story;
pub use world::{REALM, World};

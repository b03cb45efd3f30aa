//! Support for stories: a server and phones in the simulator.
//!
//! Does: [`Story`] runs a story for one seed or many, and prints seed and packets of one that fails; [`World`] is its
//! network with the real server; a [`RandomStory`] has random actions; a [`Phone`] is a scripted user agent, a softphone the real one ([`World::softphone`]);
//! [`check`] has the checks of the sent packets.
//!
//! Does not: contain the stories. They are in `stories/`, one file a subject.
//!
//! Start reading at [`World`].

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "everything in here is for tests")]

pub mod check;

mod branches;
mod cluster;
mod load;
mod phone;
mod random;
mod registrar;
mod relay;
mod seeds;
mod signers;
mod softphone;
mod stranger;
mod tls;
mod world;

pub use cluster::{Cluster, Store, StoreState};
pub use load::Load;
pub use phone::{Account, Behaviour, Phone, PhoneEvent, Scheme};
pub use random::RandomStory;
pub use seeds::{Violation, number};
pub use signers::{SIGNER_URL, signer};
pub use stranger::{Greeting, Stranger};
pub use world::{REALM, Story, World};

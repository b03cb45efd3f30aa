//! The telephone as one protocol machine, the same for Linux and for the image without an operating system.
//!
//! Does: registers an account, makes and answers calls, holds and transfers them, wires their media, decides on their
//! protection, keeps their history: [`Phone`], a [`Node`](ringway_sansio::Node), and [`CallMedia`], a
//! [`PacedNode`](ringway_sansio::PacedNode) for the sound of one call.
//!
//! Does not: open sockets, files or sound cards, read clocks, draw, resolve names, or mix the sound of calls. Its front end
//! carries out each [`Action`].
//!
//! Start reading at [`Phone`], then [`Phase`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod call;
mod call_media;
mod commands;
mod config;
mod event;
mod media;
mod phone;
mod protection;
mod signalling;

pub use action::Action;
pub use call::{Call, CallEnd, PastCall, Phase};
pub use call_media::{CallMedia, CallMediaEvent, MediaCommand};
pub use commands::{Digit, PhoneCommand};
pub use config::{IncomingPolicy, PhoneConfig, PhoneLimits, StunServer, TransferPolicy};
pub use event::{
    CallNumber, Hold, Levels, MediaReport, NetworkFacts, PhoneEvent, Side, SipMessage, TransferStep,
};
pub use phone::PhoneError;
pub use phone::{Phone, PhoneCounters};
pub use protection::{Protection, SasStatus, Signalling, SrtpPolicy, UnknownSrtpPolicy};
pub use ringway_agent::{Abilities, MessageDirection};
pub use ringway_media::Sound;
pub use ringway_sdp::CryptoSuite;

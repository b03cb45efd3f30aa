//! Digest authentication (RFC 7616, RFC 8760, RFC 3261 §22) for whoever challenges: the server and the called phone.
//!
//! Nonces are stateless ([`NonceMaker`]): they are checked by their MAC and time. What must be remembered is which nonce
//! counts were used ([`ReplayWindows`]), only of requests that proved a password, and capped; and wrong passwords, for each
//! user and each source ([`GuessLimits`]). [`Verifier`] puts them together; what it asks of its surroundings is [`Logins`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod guesses;
mod nonce;
mod replay;
mod seeded_hash;
mod verify;

pub use guesses::{GuessLimits, Login, LoginResult};
pub use nonce::{NonceAge, NonceId, NonceMaker};
pub use replay::{NonceUse, ReplayWindows};
pub use ringway_sip::digest::{Algorithm, Ha1};
pub use seeded_hash::SeededHash;
pub use verify::{Logins, Outcome, Verifier, request_mark};

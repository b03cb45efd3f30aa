//! Digest authentication (RFC 7616, RFC 8760, RFC 3261 §22): verified by the server and the called phone, and answered by the phone
//! and by the server towards trunks ([`AnsweredChallenge`]).
//!
//! Nonces are stateless ([`NonceMaker`]): they are verified by their MAC and time. State is kept only for used nonce counts
//! ([`ReplayWindows`]), of requests that proved a password, and for wrong passwords of each user and each source
//! ([`GuessLimits`]), and for clients whose digests cannot be verified ([`ChallengeLimits`]). All are bounded. [`Verifier`]
//! combines them and gets its data from [`Logins`].
//!
//! Identities of callers that a carrier has signed (STIR, RFC 8224) are in [`stir`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The checks of the corpus, which the fuzz targets have too, name the crate.
#[cfg(test)]
extern crate self as ringway_auth;
#[cfg(test)]
extern crate std;

pub mod stir;

mod answered;
mod limits;
mod nonce;
mod replay;
mod verify;

pub use answered::{AnsweredChallenge, Covered, NoChallenge, Unsupported, fields_of, quoted, strongest};
pub use limits::{ChallengeLimits, GuessLimits, Login, LoginResult, SeededHash};
pub use nonce::{NonceAge, NonceId, NonceMaker};
pub use replay::{NonceUse, ReplayWindows};
pub use ringway_sip::digest::{Algorithm, Ha1};
pub use verify::{
    DigestPolicy, DigestUri, Logins, NoncePolicy, Outcome, Repeats, ResponseBody, Unusable, Verifier,
    request_mark,
};

//! Digest authentication (RFC 7616, RFC 8760, RFC 3261 §22).
//!
//! Nonces are stateless ([`NonceMaker`]): any shard verifies them by their MAC and time. State is kept only for used
//! nonce counts ([`ReplayWindows`]), of requests that proved a password, and for wrong passwords of each user and each
//! source ([`GuessLimits`]). Both are bounded.

mod access;
mod authenticator;
mod dialogs;
mod guesses;
mod live_mark;
mod network;
mod nonce;
mod replay;
mod verify;

pub use access::Strangers;
pub(crate) use access::{Access, Facts, Grant, LiveMark, Reach, Sender, decide};
pub(crate) use authenticator::Authenticator;
pub use dialogs::DialogExtensions;
pub use guesses::{GuessLimits, Login, LoginResult};
pub(crate) use live_mark::live_mark;
pub(crate) use network::is_private;
pub use network::{Network, NotANetwork};
pub use nonce::{NonceAge, NonceId, NonceMaker};
pub use replay::{NonceUse, ReplayWindows};
pub use ringway_sip::digest::Algorithm;

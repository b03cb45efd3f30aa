//! Digest authentication (RFC 7616, RFC 8760, RFC 3261 §22).
//!
//! Nonces are stateless ([`NonceMaker`]): any shard checks them by their MAC and time. What must be remembered is which
//! nonce counts were used ([`ReplayWindows`]), only of requests that proved a password, and capped; and wrong passwords, for each
//! user and each source ([`GuessLimits`]).

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

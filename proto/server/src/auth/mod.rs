//! Access rules, client certificates, and digest authentication of requests (RFC 3261 §22); the digest itself is in
//! `ringway-auth`. Each shard
//! accepts the nonces of all.

mod access;
mod authenticator;
mod certificates;
mod certified;
mod dialogs;
mod live_mark;
mod methods;
mod network;
mod proven;
mod realms;

pub use access::Strangers;
pub(crate) use access::{
    Access, DialogMark, EdgePart, Facts, Grant, LiveMark, Reach, Sender, TrunkTarget, decide,
};
pub(crate) use authenticator::Authenticator;
pub use certificates::CertificateRules;
pub(crate) use certified::is_certified;
pub use dialogs::DialogExtensions;
pub(crate) use live_mark::{live_mark, moved_sides, named_user, user_of_side};
pub(crate) use methods::{ends_or_completes, is_of_call};
pub(crate) use network::is_local;
pub use network::{InnerHost, Network, NotANetwork, is_private};
pub(crate) use proven::proven_sender;
pub use realms::Realms;
pub use ringway_auth::{
    Algorithm, ChallengeLimits, DigestPolicy, GuessLimits, Login, LoginResult, NonceAge, NonceId, NonceMaker,
    NoncePolicy, NonceUse, ReplayWindows,
};

//! Access rules, client certificates, and digest authentication of requests (RFC 3261 §22); the digest itself is in
//! `ringway-auth`. Each shard
//! accepts the nonces of all.

mod access;
mod authenticator;
mod certified;
mod live_mark;
mod methods;
mod proven;

pub(crate) use access::{Access, DialogMark, Facts, LiveMark, decide};
pub(crate) use authenticator::Authenticator;
pub(crate) use certified::is_certified;
pub(crate) use live_mark::{live_mark, moved_sides, named_user, user_of_side};
pub(crate) use methods::{ends_or_completes, is_of_call};
pub(crate) use proven::proven_sender;

//! Access rules, client certificates, and digest authentication of requests (RFC 3261 §22); the digest itself is in
//! `ringway-auth`. Each shard
//! accepts the nonces of all.

mod access;
mod authenticator;
mod certified;
mod diversion;
mod diverted_to;
mod methods;
mod proven;
mod untrusted;

pub(crate) use access::{Access, Facts, decide};
pub(crate) use authenticator::Authenticator;
pub(crate) use certified::is_certified;
pub(crate) use diversion::{Diverted, diversions_of};
pub(crate) use diverted_to::DivertedTo;
pub(crate) use methods::{ends_or_completes, is_of_call};
pub(crate) use proven::proven_sender;
pub(crate) use untrusted::{Permitted, is_method_of_call, remove_fields};

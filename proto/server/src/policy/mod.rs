//! Access rules, client certificates, and digest authentication of requests (RFC 3261 §22); the digest itself is in
//! `ringway-auth`. Each shard
//! accepts the nonces of all.

mod access;
mod authenticator;
mod border;
mod diversion;
mod header_rules;
mod untrusted;

pub(crate) use access::{Access, Facts, decide, ends_or_completes, is_of_call, proven_sender};
pub(crate) use authenticator::{Authenticator, is_certified};
pub(crate) use border::{Border, changed_by};
pub(crate) use diversion::{Diverted, DivertedTo, diversions_of};
pub(crate) use untrusted::{Permitted, is_method_of_call, remove_fields};

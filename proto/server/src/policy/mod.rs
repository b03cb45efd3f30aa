//! Access rules, client certificates, digest authentication of requests (RFC 3261 §22), and signed identities; the digest itself is in
//! `ringway-auth`. Each shard
//! accepts the nonces of all.

mod access;
mod authenticator;
mod border;
mod diversion;
mod header_rules;
mod signed_caller;
mod untrusted;

pub(crate) use access::{Access, Facts, decide, ends_or_completes, is_of_call, proven_sender};
pub(crate) use authenticator::{Authenticator, is_certified};
pub(crate) use border::{Border, changed_by};
pub(crate) use diversion::{Diverted, DivertedTo, diversions_of};
pub(crate) use signed_caller::{
    ASSERTED_MAX, IdentityFault, VERSTAT, calling_trunk, check_time, claimed, has_verstat, result_in,
    signed_form, verify, verifying_trunk, without_result, without_verstat,
};
pub(crate) use untrusted::{Permitted, is_awaited_notify, is_method_of_call, remove_fields};

//! Certificates over HTTPS, on threads of their own: those of TLS by ACME (RFC 8555), and those of who signs the identities of callers (RFC
//! 8226).
//!
//! Does: orders a certificate for the server's domains from a directory, answers its challenges by HTTP (HTTP-01) or hands the
//! certificates of the challenge to the TLS listeners (TLS-ALPN-01, RFC 8737), checks what comes back, writes it to a file, and renews
//! it at two thirds of its life ([`Acme`]). Servers of a cluster share certificate and challenges ([`SharedOrders`]).
//!
//! Fetches, checks and caches the certificates of signers ([`Signers`]).
//!
//! Does not: load the certificate into listeners, which follow the file themselves; accept TLS connections; interpret SIP; bind the HTTP
//! port while no order waits for it.
//!
//! Start reading at [`Acme::start`], then `order.rs`; at [`Signers`]. When a certificate is ordered again is in `worker.rs`.
#![forbid(unsafe_code)]

mod answers;
mod certificate;
mod config;
mod folder;
#[cfg(test)]
mod hostile_tests;
mod http;
mod order;
mod shared;
#[cfg(test)]
mod shared_tests;
mod signers;
mod worker;

pub use answers::{AnswerCounts, ChallengeCertificates, SetChallenges};
pub use certificate::Validity;
pub use config::{AcmeConfig, AcmeError, ChallengeKind, check_contact, check_directory, check_domain};
pub use folder::{Folder, State};
pub use shared::{CHALLENGES_TIME, LOCK_TIME, SharedItem, SharedOrders};
pub use signers::{SignerRules, SignerStats, Signers};
pub use worker::{Acme, AcmeStats};

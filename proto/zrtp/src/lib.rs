//! ZRTP (RFC 6189): agreement on SRTP keys in the media path, with a short authentication string that the users compare.
//!
//! ```text
//! idle ─ start ─► discovering ─ both Hellos known ─► await DHPart1 ─► await Confirm1 ─► await Conf2ACK ─┐ initiator
//!                      │                                  │ lost the contention                         ├─► secured
//!                      └─ Commit ─► await DHPart2 ◄───────┘ ─► await Confirm2 ──────────────────────────┘ responder
//!        any of them ─ attack, refusal, silence ─► failed
//! ```
//!
//! Does: Diffie-Hellman mode with DH3k and EC25, S256 and S384, AES1 to AES3, HS32 and HS80, B32 and B256; contention;
//! retained secrets; the hash chain and `a=zrtp-hash`; answers to Ping, SASrelay and GoClear.
//!
//! Does not: Preshared and Multistream mode (a Commit of the first is answered with our Commit, one of the
//! second with an Error), signatures, auxiliary and PBX secrets, Twofish, Skein. It never falls back to clear
//! text.
//!
//! Start reading at [`Zrtp`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The checks of the corpus, which the fuzz targets have too, name the crate.
#[cfg(test)]
extern crate self as ringway_zrtp;
#[cfg(test)]
extern crate std;

mod agreement;
mod algorithm;
mod cache;
mod confirm;
mod discovery;
mod engine;
mod event;
mod exchange;
mod hash;
mod message;
mod packet;
mod retransmission;
mod sas;
mod secrets;
mod secured;

pub use algorithm::{Algorithms, AuthTag, CipherType, HashType, KeyAgreement, SasType};
pub use cache::{Retained, Zid, ZidCache};
pub use engine::{CommitMode, Zrtp, ZrtpConfig};
pub use event::{Continuity, Secured, ZrtpCounts, ZrtpEvent, ZrtpFailure};
pub use packet::is_zrtp;
pub use secured::SasCheck;

/// Maximum number of Diffie-Hellman computations in one agreement: two key pairs (a lost contention can
/// require a second one) and one result.
pub const COMPUTATIONS_MAX: u32 = 3;

/// Number of Confirms with a wrong MAC that are ignored before the agreement fails: a single forged packet
/// must not end it.
pub const CONFIRM_FAILURES_MAX: u32 = 3;

/// Maximum number of Hello rounds that late Hellos of the peer can start.
pub const HELLO_ROUNDS_MAX: u32 = 4;

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod story_tests;
#[cfg(test)]
mod wire;

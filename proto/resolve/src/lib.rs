//! Locating SIP servers (RFC 3263) by NAPTR, SRV and address records, and the SIP URIs of telephone numbers (RFC 6116).
//!
//! Does: asks one [`Question`] after another for a [`Target`](ringway_sansio::Target), and puts the servers into the order
//! in which they are tried: [`Locator`]. Does the same for the URIs of a [`NumberTarget`](ringway_sansio::NumberTarget):
//! [`NumberSearch`].
//!
//! Does not: send questions, cache records, read the wire format of DNS. Records are hostile input; as many as
//! [`Locator`] names are considered, and of regular expressions the subset that [`Substitution`] has.
//!
//! Start reading at [`Locator`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod expression;
mod locator;
mod number;

pub use expression::{NotUsable, Substitution};
pub use locator::{Locator, Naptr, Question, Srv, Usable};
pub use number::NumberSearch;

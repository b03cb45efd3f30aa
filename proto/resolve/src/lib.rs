//! Locating SIP servers (RFC 3263) by NAPTR, SRV and address records.
//!
//! Does: asks one [`Question`] after another for a [`Target`](ringway_sansio::Target), and puts the servers into the order
//! in which they are tried: [`Locator`].
//!
//! Does not: send questions, cache records, read the wire format of DNS. Records are hostile input; as many as
//! [`Locator`] names are considered.
//!
//! Start reading at [`Locator`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod locator;
mod ranked;
mod usable;

pub use locator::{Locator, Question};
pub use ranked::{Naptr, Srv};
pub use usable::Usable;

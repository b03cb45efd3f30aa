//! Users of a server: names, H(A1), the table of them in memory, and the list that they are loaded from.
//!
//! Does: checks names and passwords ([`UserName`]) and forwards ([`Forwards`]), keeps users with H(A1) in little memory
//! ([`Subscribers`]), reads the list that users come in ([`UserList`]).
//!
//! Does not: hold locks, open files, or keep passwords.
//!
//! Start reading at `subscribers.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod forwards;
mod list;
mod name;
mod subscribers;

pub use forwards::{Condition, ForwardUri, Forwards, NoAnswer, UnusableForward};
pub use list::{BadRow, UserList, UserRow};
pub use name::{Hashes, Unusable, UserName};
pub use ringway_sip::digest::Ha1;
pub use subscribers::{HashedName, NameHash, Subscribers};

#[cfg(test)]
mod list_tests;

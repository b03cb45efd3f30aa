//! Who the users of a server are, for every machine that a server runs on.
//!
//! Does: checks names and passwords ([`UserName`]), keeps users with H(A1) in little memory ([`Subscribers`]), reads the
//! list that users come in ([`UserList`]).
//!
//! Does not: hold locks, open files, or keep passwords.
//!
//! Start reading at `subscribers.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod list;
mod name;
mod subscribers;

pub use list::{BadRow, UserList, UserRow};
pub use name::{Unusable, UserName};
pub use ringway_sip::digest::Ha1;
pub use subscribers::{HashedName, NameHash, Subscribers};

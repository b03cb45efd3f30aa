//! Typed header values, each parsed from one value of its field.

mod contact;
mod cseq;
mod name_addr;
mod via;

pub use contact::{Contact, Contacts};
pub use cseq::CSeq;
pub use name_addr::NameAddr;
pub use via::Via;

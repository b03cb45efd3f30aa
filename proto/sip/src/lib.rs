//! SIP on the wire: bytes to messages and back.
//!
//! Does: reads a message as a borrowed view ([`Message`]), its typed headers ([`header`]) and URIs ([`Uri`]) on
//! demand; forwards the original bytes with patches ([`Edit`]); writes responses and requests that no value can break
//! out of ([`ResponseWriter`], [`RequestWriter`]); cuts byte streams into messages ([`StreamFramer`]); reads and writes
//! the syntax of digest credentials ([`digest`]).
//!
//! Does not: know transactions, dialogs, time, sockets, or what any of it means. It allocates nothing to read.
//!
//! Start reading at [`Message::parse`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod digest;
pub mod grammar;
pub mod header;

mod edit;
mod fields;
mod header_name;
mod hex;
mod limits;
mod lines;
mod message;
mod method;
mod params;
mod rejected;
mod scan;
mod stream;
mod uri;
mod uri_equal;
mod write;

pub use edit::{Edit, EditSpace};
pub use fields::{Field, Fields};
pub use header::{CSeq, Contact, Contacts, NameAddr, Via};
pub use header_name::HeaderName;
pub use hex::{hex16, read_hex, write_hex};
pub use limits::Limits;
pub use lines::{peek_header, peek_last_header};
pub use message::{Message, Start};
pub use method::Method;
pub use params::{Param, Params};
pub use rejected::{Reason, Rejected};
pub use stream::{StreamError, StreamFramer};
pub use uri::{Host, Scheme, Uri};
pub use write::{RequestWriter, ResponseWriter, UnsafeText, write_host, write_number};

/// A part of a message is not what RFC 3261 §25 allows there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("malformed")
    }
}

impl core::error::Error for Malformed {}

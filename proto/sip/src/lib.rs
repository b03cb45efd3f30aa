//! SIP messages: parsing, forwarding, writing, stream framing, digest syntax.
//!
//! Does: parses a message into a borrowed view ([`Message`]), its typed headers ([`header`]) and URIs ([`Uri`]) on
//! demand; forwards the original bytes with changes ([`Edit`]); writes responses and requests and rejects values with
//! line breaks ([`MessageWriter`]); cuts byte streams into messages ([`StreamFramer`]); splits
//! multipart bodies ([`BodyParts`]); parses and writes digest challenges and credentials ([`digest`]).
//!
//! Does not: handle transactions, dialogs, time or sockets. Parsing allocates nothing.
//!
//! Start reading at [`Message::parse`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod digest;
pub mod grammar;
pub mod header;

mod body;
mod edit;
mod fields;
mod header_name;
mod lines;
mod message;
mod method;
mod overload_control;
mod params;
mod reason;
mod scan;
mod stream;
mod uri;
mod write;

pub use body::{BodyPart, BodyParts};
pub use edit::{Edit, EditSpace};
pub use fields::{Field, Fields};
pub use header::{CSeq, Contact, Contacts, NameAddr, Via};
pub use header_name::HeaderName;
pub use lines::{peek_fields, peek_header, peek_header_range, peek_last_header};
pub use message::{Message, Rejected, Start};
pub use method::Method;
pub use overload_control::{OverloadControl, Reduction};
pub use params::{Param, Params};
pub use reason::{Limits, Reason};
pub use scan::{hex16, read_hex, read_hex32, write_hex};
pub use stream::{StreamError, StreamFramer};
pub use uri::{Host, Scheme, Uri};
pub use write::{MessageWriter, UnsafeText, write_host, write_number, write_via};

/// Error: a part of a message does not match the grammar of RFC 3261 §25.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed")]
pub struct Malformed;

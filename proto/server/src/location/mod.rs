//! The location service: where users are (RFC 3261 §10).

mod binding;
mod record;
mod table;

pub(crate) use binding::{Binding, Kind, Text, means_tcp};
pub use record::BadRecord;
pub(crate) use table::{Change, Room, SaveError, Saved};
pub use table::{Location, Registration, RegistrationRef};

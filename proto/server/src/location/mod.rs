//! Location service (RFC 3261 §10).

mod binding;
mod change;
mod name_index;
mod owner;
mod record;
mod shared;
mod table;

pub(crate) use binding::{
    Binding, BindingKey, FlowKey, Kind, PATH_END, Text, has_transport, instance_of, path_values,
};
pub(crate) use change::{Change, Room, SaveError};
pub use record::BadRecord;
pub(crate) use shared::{Holding, Offer, RecordTime, Removed};
pub(crate) use table::Saved;
pub use table::{LocationTable, Registration, RegistrationRef};

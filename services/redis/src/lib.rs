//! Registrations that several servers (nodes) share in Redis or Valkey.
//!
//! Does: writes the updates of a node ([`LocationStore::append`]) and passes the records of all nodes to a [`Sink`], on two threads;
//! keeps the list of nodes; connects again; reads and writes a few other values that nodes share ([`SharedValues`]), on the caller's thread. The store joins updates in a script, by the rule of
//! [`ringway_location::Registrations::apply`]. The answer of the first
//! host tells a single server, Sentinel and Cluster apart.
//!
//! Does not: read the body of a binding, or perform I/O for registrations on the caller's thread.
//!
//! Start reading at [`LocationStore`].
#![forbid(unsafe_code)]

mod connection;
mod nodes;
mod pending;
mod probe;
mod reader;
mod scripts;
mod settings;
mod shared;
mod sink;
mod status;
mod store;
mod values;
mod walk;
mod writer;

pub use pending::{MEMORY_BYTES_MAX, WAITING_BYTES_MAX};
pub use probe::{MasterReport, Report, probe};
pub use scripts::tag_of_user;
pub use settings::{LocationUrl, Settings};
pub use sink::{Event, NodeInfo, NodeState, Sink};
pub use status::{Kind, Status, StoreError, UrlError};
pub use store::LocationStore;
pub use values::SharedValues;
pub use walk::Walks;

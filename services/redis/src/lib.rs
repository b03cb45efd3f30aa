//! Registrations that several servers (nodes) share in Redis or Valkey.
//!
//! Does: writes the updates of a node ([`LocationStore::append`]) and passes the records of all nodes to a [`Sink`], on two threads;
//! keeps the list of nodes; connects again. The store joins updates in a script, by the rule of
//! [`ringway_location::Registrations::apply`]. The answer of the first
//! host tells a single server, Sentinel and Cluster apart.
//!
//! Does not: read the body of a binding, or perform I/O on the caller's thread.
//!
//! Start reading at [`LocationStore`].
#![forbid(unsafe_code)]

mod backoff;
mod connection;
mod error;
mod fetches;
mod heart;
mod keys;
mod lookups;
mod nodes;
mod pace;
mod pending;
mod probe;
mod read_session;
mod reader;
mod reader_state;
mod refused;
mod reply;
mod scripts;
mod settings;
mod shared;
mod sink;
mod socket;
mod status;
mod store;
mod stream;
mod sweep;
mod topology;
mod url;
mod value;
mod walk;
mod writer;

pub use error::{StoreError, UrlError};
pub use keys::tag_of_user;
pub use probe::{MasterReport, Report, probe};
pub use settings::Settings;
pub use sink::{Event, NodeInfo, NodeState, Sink};
pub use status::{Kind, Status};
pub use store::LocationStore;
pub use sweep::Walks;
pub use url::LocationUrl;

//! Users from PostgreSQL and MySQL, and registrations into them.
//!
//! Does: makes the tables of this program in a database, reads all users or those that changed into the store of a node
//! ([`Follower`]), on a thread of its own ([`Provisioning`]), reports its state ([`Status`]), and changes users ([`UserTables`]);
//! writes the registrations of a node into a table ([`WriteBack`]).
//!
//! Does not: answer a question while a request waits, but for measurements ([`DangerLookup`]), or change the server that runs: it follows the change log of the store.
//!
//! Start reading at [`Follower`].
#![forbid(unsafe_code)]

mod danger_lookup;
mod edit;
mod error;
mod location_row;
mod location_table;

mod progress;
mod provisioning;
mod query;
mod query_session;
mod read;
mod row;
mod status;
mod table_session;
mod tables;
mod time;
mod waiting;
mod window;
mod write_back;

pub use danger_lookup::DangerLookup;
pub use edit::UserTables;
pub use error::ProvisioningError;
pub use location_row::LiveRegistration;
pub use location_table::check_location_table;
pub use provisioning::{Follower, Provisioning};
pub use query::UserQuery;
pub use status::{Counts, Status};
pub use tables::{remove_tables, table_names};
pub use write_back::{LiveRegistrations, Position, WriteBack, WriteBackCounts};

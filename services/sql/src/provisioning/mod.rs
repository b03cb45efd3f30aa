//! Users from PostgreSQL and MySQL, and registrations into them.
//!
//! Does: makes the tables of this program in a database, reads all users or those that changed into the store of a node
//! ([`Follower`]), on a thread of its own ([`Provisioning`]), reports its state ([`Status`]), and changes users ([`UserTables`]);
//! writes the registrations of a node into a table ([`WriteBack`]).
//!
//! Does not: answer a question while a request waits, but for measurements ([`DangerLookup`]), or change the server that runs: it follows the change log of the store.
//!
//! Start reading at [`Follower`].

mod danger_lookup;
mod edit;
mod location_table;

mod follower;
mod progress;
mod query;
mod read;
mod status;
mod tables;
mod write_back;

pub use danger_lookup::DangerLookup;
pub use edit::UserTables;
pub use follower::{Follower, Provisioning};
pub use location_table::{LiveRegistration, check_location_table};
pub use query::UserQuery;
pub use status::{Counts, ProvisioningError, Status};
pub use tables::{remove_tables, table_names};
pub use write_back::{LiveRegistrations, Position, WriteBack, WriteBackCounts};

//! Users from PostgreSQL and MySQL.
//!
//! Does: makes the tables of this program in a database, reads all users or those that changed into the store of a node
//! ([`Follower`]), on a thread of its own ([`Provisioning`]), reports its state ([`Status`]), and changes users ([`UserTables`]).
//!
//! Does not: answer a question while a request waits, or change the server that runs: it follows the change log of the store.
//!
//! Start reading at [`Follower`].
#![forbid(unsafe_code)]

mod edit;
mod error;
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
mod window;

pub use edit::UserTables;
pub use error::ProvisioningError;
pub use provisioning::{Follower, Provisioning};
pub use query::UserQuery;
pub use status::{Counts, Status};

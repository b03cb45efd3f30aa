//! Users and settings in the databases of other SIP servers.
//!
//! Does: reads subscribers ([`read_accounts`]) and what can be expressed as settings ([`read_settings`]) of Kamailio and OpenSIPS from
//! SQLite, MySQL, MariaDB and PostgreSQL; tells which tables were left alone.
//!
//! Does not: write anything, read scripts, or decide what becomes of a user.
//!
//! Start reading at [`Database::open`].
#![forbid(unsafe_code)]

mod account;
mod database;
mod error;
mod origin;
mod settings;

pub use account::{Account, read_accounts};
pub use database::Database;
pub use error::MigrationError;
pub use origin::Origin;
pub use settings::{Address, LeftTable, Registration, Settings, read_settings};

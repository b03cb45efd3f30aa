//! Users and settings in the databases of other SIP servers.
//!
//! Does: reads subscribers ([`read_accounts`]) and what can be expressed as settings ([`read_settings`]) of Kamailio and OpenSIPS from
//! SQLite, MySQL, MariaDB and PostgreSQL; tells which tables were left alone.
//!
//! Does not: write anything, read scripts, or decide what becomes of a user.
//!
//! Start reading at [`Database::open`].

mod database;
mod tables;

pub use database::{Database, MigrationError, Origin};
pub use tables::{Account, Address, LeftTable, Registration, Settings, read_accounts, read_settings};

//! Connections to PostgreSQL and MySQL.
//!
//! Does: connects by a URL ([`DatabaseUrl`]), runs statements and passes rows as texts ([`Server`]), with a limit in time for each
//! connection and each row; waits for PostgreSQL's notifications. Each [`Server`] has a runtime of its own and blocks the calling
//! thread.
//!
//! Does not: have tables of its own, or connect again.
//!
//! Start reading at [`Server`].
#![forbid(unsafe_code)]

mod access;
mod answer;
mod error;
mod hex;
mod mysql;
mod postgres;
mod server;
mod url;

pub use access::DatabaseAccess;
pub use answer::Wait;
pub use error::{DatabaseError, UrlError};
pub use hex::hex;
pub use server::Server;
pub use url::{DatabaseUrl, Engine};

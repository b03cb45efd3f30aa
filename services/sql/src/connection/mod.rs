//! Connections to PostgreSQL and MySQL.
//!
//! Does: connects by a URL ([`DatabaseUrl`]), runs statements and passes rows as texts ([`Server`]), with a limit in time for each
//! connection and each row; waits for PostgreSQL's notifications. Each [`Server`] has a runtime of its own and blocks the calling
//! thread.
//!
//! Does not: have tables of its own, or connect again.
//!
//! Start reading at [`Server`].

mod answer;
mod mysql;
mod postgres;
mod server;
mod url;

pub use answer::{DatabaseError, UrlError, Wait, hex};
pub use server::Server;
pub use url::{DatabaseAccess, DatabaseUrl, Engine};

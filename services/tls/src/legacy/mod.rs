//! Connections by OpenSSL, for experiments with legacy versions and cipher suites.
//!
//! Does: the same rules as rustls has here, for identities (RFC 5922), revocation lists, tickets and names that clients send.
//!
//! Does not: resume sessions of connections that it dials, since the binding has no safe function for that.

mod connection;
mod contexts;
mod errors;
#[cfg(test)]
mod tests;

pub(crate) use connection::OpenSsl;
pub(crate) use contexts::Contexts;

//! Databases of SQL: users, registrations, and the tables of other servers.
//!
//! Does: connects to PostgreSQL and MySQL ([`connection`]); follows the users of a database into the store of a node and writes
//! registrations into a table ([`provisioning`]); reads users and settings of Kamailio and OpenSIPS ([`migration`]).
//!
//! Does not: answer a question while a request waits, but for measurements
//! ([`DangerLookup`](provisioning::DangerLookup)), or have the node's own users: those are in `services/store`.
//!
//! Start reading at [`provisioning::Follower`].
#![forbid(unsafe_code)]

pub mod connection;
pub mod migration;
pub mod provisioning;

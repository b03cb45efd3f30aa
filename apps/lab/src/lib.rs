//! Load for SIP servers, and measurements of them.
//!
//! Does: offers load at a rate, in an open loop, or keeps a window of attempts open ([`load`]); starts the server under load as a
//! process of its own ([`server`], [`subject`]), keeps it saturated ([`saturation`]) and reads its CPU time,
//! memory and delays ([`process`], [`machine`], [`server_delay`]), compares servers turn by turn ([`measure`], [`operation`]); sends floods and misbehaving calls ([`attack`]);
//! measures a server on a second machine through an [`agent`] there; measures how exactly the machine sleeps ([`floor`]), and where a server's CPU time goes ([`profile`]). Results are records ([`record`]), and become one HTML file ([`report`]).
//!
//! Does not: judge results: those are the rows of `cargo xtask bench`.
//!
//! Start reading at [`load::run`] and [`measure::measure`].

pub mod agent;
pub mod attack;
pub mod campaign;
pub mod capture;
pub mod documents;
pub mod floor;
pub mod handshake_cost;
pub mod load;
pub mod machine;
pub mod measure;
pub mod operation;
pub mod process;
pub mod profile;
pub mod record;
pub mod registering;
pub mod report;
pub mod saturation;
pub mod server;
pub mod server_delay;
pub mod sipp_xml;
pub mod statistics;
pub mod subject;
pub mod sys;
pub mod text_file;
pub mod times;
pub mod tls;

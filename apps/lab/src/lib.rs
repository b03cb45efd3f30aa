//! Load for SIP servers, and measurements of them.
//!
//! Does: offers load at a rate, in an open loop ([`load`]); plays both ends of REGISTERs and calls in a closed loop
//! ([`closed_loop`]); starts the server under load as a process of its own ([`server`], [`subject`]) and reads its CPU time and
//! memory ([`process`], [`machine`]), compares servers turn by turn ([`measure`]); sends floods and misbehaving calls ([`attack`]);
//! runs both ends of a phone call ([`phone`]). Results are records ([`record`]), and become one HTML file ([`report`]).
//!
//! Does not: judge results: those are the rows of `cargo xtask bench`.
//!
//! Start reading at [`load::run`] and [`closed_loop::drive`].

pub mod attack;
pub mod call;
pub mod campaign;
pub mod closed_loop;
pub mod digest;
pub mod floor;
pub mod load;
pub mod machine;
pub mod measure;
pub mod phone;
pub mod process;
pub mod record;
pub mod refused;
pub mod register;
pub mod registering;
pub mod report;
pub mod server;
pub mod sipp_xml;
pub mod statistics;
pub mod subject;
pub mod sys;
pub mod template;
pub mod text_file;
pub mod times;
pub mod wire;

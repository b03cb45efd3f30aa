//! Registrar: REGISTER (RFC 3261 §10.3), what it stores, the ends of bindings, and its drain.

mod drain;
mod drain_time;
mod ends;
mod extensions;
mod register;
mod sharing;

pub(crate) use drain::DRAINING;
pub(crate) use register::Registrar;

//! The terminal interface of `ringway phone`.
//!
//! Does: shows what the phone does, and turns keys into what it shall do. What goes in and out is in `event.rs`, so
//! that all of it runs in a test without a phone, a clock or a terminal.
//!
//! Does not: know SIP or RTP.
//!
//! Start reading at [`model::Model`].

pub(crate) mod event;
mod field;
mod form;
mod key;
pub(crate) mod model;
#[cfg(test)]
mod picture;
#[cfg(test)]
mod pictures;
mod run;
#[cfg(test)]
mod scene;
pub(crate) mod settings;
mod setup;
mod terminal;
mod text;
mod view;
mod worker;

pub(crate) use run::{PhoneScreenArgs, run};

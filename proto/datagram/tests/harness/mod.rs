//! Checks that hold for any input.

pub(crate) mod client_hello;

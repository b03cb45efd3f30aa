//! The server from its first DHCP packet on, on a cable in memory with a virtual clock.
//!
//! Tested: DHCP and fixed addresses, settings and users by TFTP and their errors, registration over UDP and TCP,
//! redirects, TLS, a lost lease, low memory, a missing random seed, the consoles. Not tested here: hardware.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod consoles;
mod serving;
mod starting;
mod tls;
mod world;

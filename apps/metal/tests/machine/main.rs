//! The machine from its first DHCP packet on, on a cable in memory and a virtual clock.
//!
//! Tested: DHCP and fixed addresses, settings and users by TFTP and what is wrong with them, registration over UDP and TCP,
//! redirects, a lost lease, little memory, chance, the consoles. Not tested here: hardware.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod consoles;
mod serving;
mod starting;
mod world;

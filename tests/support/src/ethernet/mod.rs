//! Link in memory between a station of `ringway-ethernet` and a host of another stack.

pub mod cable;
pub mod dhcp_host;

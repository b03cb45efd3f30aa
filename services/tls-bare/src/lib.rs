//! TLS without an operating system, by rustls without its standard library: for the server on the image, and for both sides
//! in the simulator.
//!
//! Does: implement [`ringway_stream::Layer`] by rustls' unbuffered connections; provide the layers of a driver's accepted
//! connections ([`TlsLayers`]), whose handshakes run in the driver's own task, limited in number, by source and in time; those of
//! dialled connections ([`TlsClient`]), which the image does not use; read certificate and key ([`Credentials`]); implement
//! rustls' cryptographic provider over RustCrypto, whose random numbers come from a seed.
//!
//! Does not: perform I/O; read clocks; decide which servers are accepted; verify certificates of clients; resume sessions; offer versions
//! before TLS 1.2, other suites than TLS_AES_128_GCM_SHA256 and TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, other groups than
//! secp256r1, or 0-RTT data.
//!
//! Start reading at [`TlsLayers`], then `layer.rs`, `role.rs`, `gate.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod gate;
mod layer;
mod provider;
mod role;
#[cfg(test)]
mod tests;

pub use gate::{HANDSHAKES_MAX, HandshakeCounters};
pub use layer::{Credentials, CredentialsError, TlsClient, TlsLayers};

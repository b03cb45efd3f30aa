//! TLS for a server without an operating system, by rustls without its standard library.
//!
//! Does: implement [`ringway_stream::Layer`] by rustls' unbuffered connection ([`TlsLayer`]); provide the layers of a
//! [`ringway_ethernet::Station`] ([`TlsLayers`]), whose handshakes run in the station's own task, limited in number, by source
//! and in time; read certificate and key ([`Credentials`]); implement rustls' cryptographic provider over RustCrypto.
//!
//! Does not: perform I/O; read clocks; open connections; verify certificates of clients; resume sessions; offer versions
//! before TLS 1.2, other suites than TLS_AES_128_GCM_SHA256 and TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, other groups than
//! secp256r1, or 0-RTT data.
//!
//! Start reading at [`TlsLayers`], then `layer.rs`, `gate.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod credentials;
mod gate;
mod layer;
mod layers;
mod provider;
#[cfg(test)]
mod tests;

pub use credentials::{Credentials, CredentialsError};
pub use gate::{HANDSHAKES_MAX, HandshakeCounters};
pub use layer::TlsLayer;
pub use layers::TlsLayers;

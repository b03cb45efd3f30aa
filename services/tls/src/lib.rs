//! TLS for SIP connections, by rustls with aws-lc-rs.
//!
//! Does: implement [`ringway_stream::Layer`] by a rustls connection ([`TlsLayer`]); provide the layers of a
//! [`ringway_linux::Runtime`] ([`TlsLayers`]), whose handshakes run on threads of their own when they are many; load certificates, keys and
//! revocation lists ([`TlsFiles`]); verify a server's identity as RFC 5922 requires; resume sessions on both sides.
//!
//! Does not: open sockets; interpret SIP; offer versions before TLS 1.2, suites without forward secrecy, or 0-RTT data.
//!
//! Start reading at [`TlsLayers`], then `layer.rs`.

mod budget;
mod counters;
mod files;
mod handshake;
mod handshakes;
mod identity;
mod layer;
mod layers;
mod records;
mod report;
mod sessions;
#[cfg(test)]
mod tests;
mod threads;

pub use counters::{TlsCounters, TlsCounts};
pub use files::{ClientAuth, DomainFiles, PeerCa, TlsError, TlsFiles, TlsMaterial};
pub use handshakes::HandshakeLimits;
pub use layer::TlsLayer;
pub use layers::{InlineTls, TlsLayers};
pub use report::{Observer, Role};

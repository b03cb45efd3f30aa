//! TLS for SIP connections, by rustls with aws-lc-rs; for experiments with legacy cipher suites, by OpenSSL.
//!
//! Does: implement [`ringway_stream::Layer`] by a connection of either library ([`TlsLayer`]); provide the layers of a
//! [`ringway_linux::Runtime`] ([`TlsLayers`]), whose handshakes run on threads of their own when they are many; load certificates, keys and
//! revocation lists ([`TlsFiles`]); verify a server's identity as RFC 5922 requires; provide
//! the names of clients with certificates; make the certificates of links between nodes; resume sessions on both sides;
//! answer challenges of ACME by TLS-ALPN-01.
//!
//! Does not: open sockets; interpret SIP; offer 0-RTT data; offer versions before TLS 1.2, or suites without forward secrecy,
//! except by OpenSSL in a build with the feature `legacy-tls` ([`Backend::OpenSsl`]).
//!
//! Start reading at [`TlsLayers`], then `layer.rs`.

mod challenge;
mod configs;
mod connection;
mod files;
mod handshake;
mod identity;
mod job;
mod layer;
mod layers;
#[cfg(feature = "legacy-tls")]
mod legacy;
mod limits;
mod links;
mod material;
mod offer;
mod report;
mod sessions;
#[cfg(test)]
mod tests;

pub use files::{ClientAuth, DomainFiles, PeerCa, TlsError, TlsFiles, authorities};
pub use identity::ServerVerifier;
pub use layer::TlsLayer;
pub use layers::{InlineTls, TlsLayers};
pub use limits::HandshakeLimits;
pub use links::{AuthoritySeed, LinkTls};
pub use material::TlsMaterial;
pub use offer::{Backend, Offer, OfferError, OfferSettings, Suite, TlsVersion};
pub use report::{Observer, Role, TlsCounters, TlsCounts};

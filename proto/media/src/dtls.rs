//! Interface to an implementation of DTLS (RFC 5764), which a program adds: its cryptography needs more than `no_std`.
//!
//! ```text
//!   program ── DtlsIdentity ──► session ── associate ──► DtlsAssociation
//!                                  datagrams, time ─────────► │ ──► poll: datagrams, then keys or a failure
//! ```
//! The session tells DTLS from the other packets of a port (RFC 7983), limits what strangers can cause, and gives the
//! keys to SRTP. The association has the handshake, its retransmissions and the certificates.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use ringway_sansio::Instant;
use ringway_sdp::{CryptoSuite, DtlsRole, Fingerprint, MasterKey};

/// Our certificate, and the factory of associations that present it.
pub trait DtlsIdentity: fmt::Debug + Send + Sync {
    /// Fingerprint of our certificate, for the SDP.
    fn fingerprint(&self) -> Fingerprint;

    /// Begins an association in this role. The handshake fails unless the peer's certificate has one of these
    /// fingerprints; there are no keys before that is checked.
    fn associate(
        &self,
        role: DtlsRole,
        fingerprints: &[Fingerprint],
        now: Instant,
    ) -> Box<dyn DtlsAssociation>;
}

/// One association: a handshake, and then the answers to retransmissions of its last messages.
pub trait DtlsAssociation: Send {
    /// Handles a datagram of the peer.
    fn on_datagram(&mut self, now: Instant, datagram: &[u8]);

    /// Performs the retransmissions that are due at `now`; calling it early is harmless.
    fn on_timeout(&mut self, now: Instant);

    /// Time of the next retransmission.
    fn next_deadline(&self) -> Option<Instant>;

    /// Next output, if any; call until it returns `None` after each other call.
    fn poll(&mut self) -> Option<DtlsOutput>;
}

/// Output of an association.
pub enum DtlsOutput {
    /// A datagram for the peer.
    Datagram(Vec<u8>),
    /// The handshake is complete, and the certificate has an announced fingerprint.
    Keys(Box<DtlsKeys>),
    /// The handshake failed; nothing follows, and further input is ignored.
    Failed(DtlsFailure),
}

/// Keys of SRTP from a handshake (RFC 5764 §4.2).
#[derive(Clone)]
pub struct DtlsKeys {
    /// Crypto suite of both directions.
    pub suite: CryptoSuite,
    /// Our key.
    pub send: MasterKey,
    /// The peer's key.
    pub receive: MasterKey,
}

/// Reason why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DtlsFailure {
    /// The certificate has none of the fingerprints in the SDP.
    #[error(
        "the other phone's certificate does not have the fingerprint that its SDP announced: somebody may be in between"
    )]
    WrongCertificate,
    /// No SRTP profile in common (RFC 5764 §4.1.1).
    #[error("the other phone has no SRTP profile in common with this one")]
    NoProfile,
    /// The peer does not answer, stopped answering, or refused without encryption, which anybody could forge.
    #[error("the other phone did not complete the handshake in time")]
    Unanswered,
    /// The peer ended the handshake with an encrypted alert, or violated the protocol.
    #[error("the handshake failed")]
    Handshake,
    /// The implementation failed.
    #[error("the handshake could not be started")]
    Internal,
}

/// True for a ClientHello (RFC 6347 §4.2.2), in a record without encryption.
pub(crate) fn is_client_hello(datagram: &[u8]) -> bool {
    const HANDSHAKE: u8 = 22;
    const CLIENT_HELLO: u8 = 1;
    datagram.first() == Some(&HANDSHAKE)
        && datagram.get(3..5) == Some(&[0, 0])
        && datagram.get(RECORD_HEADER_BYTES) == Some(&CLIENT_HELLO)
}

/// True for a ClientHello without a cookie: the message number 0 of the handshake.
pub(crate) fn is_first_message(datagram: &[u8]) -> bool {
    is_client_hello(datagram)
        && datagram.get(RECORD_HEADER_BYTES + 4..RECORD_HEADER_BYTES + 6) == Some(&[0, 0])
}

const RECORD_HEADER_BYTES: usize = 13;

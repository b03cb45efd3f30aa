//! Interface between a driver and an implementation of DTLS.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::{Flow, Instant, PeerNames};

/// Provides the associations of a driver's DTLS listeners. It is called on the workers' threads and must not block.
pub trait Associations: Send + Sync {
    /// Judges a datagram of a peer without an association, and one that looks like a ClientHello of a peer that has one. It
    /// keeps nothing. At most one datagram, which is shorter than the received one, is written to `answer`.
    fn judge(&self, now: Instant, flow: &Flow, datagram: &[u8], answer: &mut Vec<u8>) -> FirstDatagram;

    /// Creates the association of a ClientHello that was [`FirstDatagram::Proven`]. `None`: too many handshakes.
    fn accept(&self, now: Instant, flow: &Flow, datagram: &[u8]) -> Option<Box<dyn Association>>;

    /// Creates an association with the flow's remote address. `None`: this program opens none, or the flow's host has no name.
    fn dial(&self, now: Instant, flow: &Flow) -> Option<Box<dyn Association>>;
}

/// Judgement of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstDatagram {
    /// It is dropped.
    Dropped,
    /// It is answered with the datagram in `answer`.
    Answered,
    /// It is a ClientHello of a client that receives at its address.
    Proven,
}

/// One association: handshake, then messages. It performs no I/O and reads no clock.
///
/// After each call the driver takes the outputs until there is none, and asks for the next deadline.
pub trait Association {
    /// Processes a datagram of the peer.
    fn on_datagram(&mut self, now: Instant, datagram: &[u8]);

    /// Retransmits what is due.
    fn on_timeout(&mut self, now: Instant);

    /// Encrypts a message. Only an established association sends.
    ///
    /// # Errors
    /// The message is longer than a record can be, or the association is not established.
    fn send(&mut self, now: Instant, message: &[u8]) -> Result<(), SendError>;

    /// Notifies the peer of the end. The association is used for nothing else afterwards.
    fn close(&mut self, now: Instant);

    /// The next output.
    fn poll(&mut self) -> Option<Output>;

    /// Time of the next [`Association::on_timeout`].
    fn next_deadline(&self) -> Option<Instant>;

    /// True between the end of the handshake and the end of the association.
    fn is_established(&self) -> bool;

    /// Names in the verified certificate of the peer.
    fn peer_names(&self) -> Option<Arc<PeerNames>>;

    /// True if the peer of a dialled association is also the host of `flow`, by the certificate that it presented: there can be
    /// one association only between two addresses.
    fn is_also(&self, flow: &Flow) -> bool;

    /// Memory in use in bytes, approximately.
    fn held_bytes(&self) -> usize;
}

/// Output of an [`Association`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Datagram for the peer.
    Datagram(Vec<u8>),
    /// The handshake is complete.
    Established,
    /// Message of the peer: the payload of one record.
    Message(Vec<u8>),
    /// The peer closed the association.
    Closed,
    /// The handshake failed, or the peer ended the association with an error.
    Failed,
}

/// Reason why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// It is longer than a record can be.
    TooLong,
    /// There is no association to send it over.
    NotEstablished,
}

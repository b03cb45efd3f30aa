//! Interface to a network card.

/// A network card that sends and receives frames in its own buffers.
///
/// A frame is an Ethernet II frame without preamble and frame check sequence, 14 to [`FRAME_BYTES_MAX`] bytes. No
/// method blocks.
pub trait Card {
    /// MAC address.
    fn address(&self) -> [u8; 6];

    /// True while the link is up.
    fn is_up(&mut self) -> bool;

    /// Takes the next received frame. `take` reads it in the card's buffer, which the card reuses afterwards. `None`:
    /// no frame was received.
    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R>;

    /// Sends a frame of `bytes` bytes, at most [`FRAME_BYTES_MAX`]. `fill` writes it into the card's buffer, whose
    /// previous content is unspecified. False: the send ring is full; `fill` was not called and the frame is lost.
    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool;

    /// Notifies the card of the frames from [`Card::send`]; called once after a burst.
    fn flush(&mut self);

    /// Current counters.
    fn counters(&self) -> CardCounters;
}

/// Counters of a card since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardCounters {
    /// Frames received.
    pub received: u64,
    /// Frames handed to the card for sending.
    pub sent: u64,
    /// Frames not sent because the ring was full.
    pub not_sent: u64,
    /// Frames that the card dropped or found damaged, if it reports them.
    pub damaged: u64,
}

/// Maximum length of a frame in bytes: 1,500 after the 14-byte header (IEEE 802.3).
pub const FRAME_BYTES_MAX: usize = 1514;

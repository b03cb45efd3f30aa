//! The network card, as the rest sees it.

/// A network card: frames in, frames out, each where the card itself keeps them.
///
/// A frame is an Ethernet II frame without preamble and check sequence, 14 to [`FRAME_BYTES_MAX`] bytes. Nothing here
/// waits: what is not there yet is there at the next call.
pub trait Card {
    /// Its hardware address.
    fn address(&self) -> [u8; 6];

    /// True while there is a link.
    fn is_up(&mut self) -> bool;

    /// Takes the next frame that arrived. `take` sees it where the card put it; afterwards that room is the card's
    /// again. `None`: there is none.
    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R>;

    /// Sends a frame of `bytes` bytes, at most [`FRAME_BYTES_MAX`], that `fill` writes into the card's own room; that
    /// room holds anything before. False: the card takes none now, `fill` was not called, and the frame is lost.
    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool;

    /// Makes the card look at what [`Card::send`] gave it: called once after a burst.
    fn flush(&mut self);

    /// What it counted.
    fn counters(&self) -> CardCounters;
}

/// What a card counts. All since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardCounters {
    /// Frames that arrived.
    pub received: u64,
    /// Frames given to the card to send.
    pub sent: u64,
    /// Frames that could not be sent because the ring was full.
    pub not_sent: u64,
    /// Frames that the card itself dropped or found damaged, as far as it says.
    pub damaged: u64,
}

/// The longest frame: 1,500 bytes after the header of 14 (IEEE 802.3).
pub const FRAME_BYTES_MAX: usize = 1514;

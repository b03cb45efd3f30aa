//! Interface between the image and a program.

use crate::{Hardware, Memory};
use ringway_ethernet::Worked;
use ringway_sansio::Instant;

/// Program of a machine: its two tasks and its consoles. No method blocks.
pub trait Program<C>: Sized {
    /// True if the program uses a sound card.
    const HAS_SOUND: bool;

    /// Starts the program at `now`. Errors in the command line are shown on its screen.
    fn start(card: C, command_line: &str, hardware: Hardware, now: Instant) -> Self;

    /// Task Receive: processes one frame from the card up to the reply.
    fn receive(&mut self, now: Instant) -> Worked;

    /// Task Main: all other work. To be called when [`Program::receive`] returns [`Worked::Begun`], and at least every
    /// millisecond.
    fn run(&mut self, now: Instant, memory: Memory);

    /// Number of messages received over TCP and TLS since the start, for measurements.
    fn stream_messages(&self) -> u64 {
        0
    }

    /// Notifies the card of written frames.
    fn flush(&mut self);

    /// Processes a byte of the serial line.
    fn on_serial_byte(&mut self, now: Instant, byte: u8);

    /// Processes a byte of the keyboard controller (scan code set 1).
    fn on_scan_code(&mut self, now: Instant, byte: u8);

    /// Draws the page if due, and passes each changed word of VGA's text memory to `put`: its index and its value.
    fn draw(&mut self, now: Instant, put: impl FnMut(usize, u16));

    /// Writes pending output of the serial line into `room`; returns the number of bytes.
    fn serial_output(&mut self, room: &mut [u8]) -> usize;
}

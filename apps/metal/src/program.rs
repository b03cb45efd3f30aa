//! Interface between the image and a program.

use crate::{Hardware, Machine, Memory, PhoneMachine};
use ringway_ethernet::{Card, Worked};
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

/// Implements [`Program`] by the inherent methods of the same names.
macro_rules! program {
    ($machine:ident, $has_sound:literal) => {
        impl<C: Card> Program<C> for $machine<C> {
            const HAS_SOUND: bool = $has_sound;

            fn start(card: C, command_line: &str, hardware: Hardware, now: Instant) -> Self {
                Self::new(card, command_line, hardware, now)
            }

            fn receive(&mut self, now: Instant) -> Worked {
                self.receive(now)
            }

            fn run(&mut self, now: Instant, memory: Memory) {
                self.run(now, memory);
            }

            fn flush(&mut self) {
                self.flush();
            }

            fn on_serial_byte(&mut self, now: Instant, byte: u8) {
                self.on_serial_byte(now, byte);
            }

            fn on_scan_code(&mut self, now: Instant, byte: u8) {
                self.on_scan_code(now, byte);
            }

            fn draw(&mut self, now: Instant, put: impl FnMut(usize, u16)) {
                self.draw(now, put);
            }

            fn serial_output(&mut self, room: &mut [u8]) -> usize {
                self.serial_output(room)
            }
        }
    };
}

program!(Machine, false);
program!(PhoneMachine, true);

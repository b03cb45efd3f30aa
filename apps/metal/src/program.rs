//! What a machine does, as the image and its tests run it.

use crate::{Hardware, Machine, Memory, PhoneMachine};
use ringway_ethernet::{Card, Worked};
use ringway_sansio::Instant;

/// A machine's two tasks and its consoles. Nothing in it waits.
pub trait Program<C>: Sized {
    /// True when it makes use of a sound card.
    const HAS_SOUND: bool;

    /// A machine that starts at `now`. What is wrong with the command line it says on its screen.
    fn start(card: C, command_line: &str, hardware: Hardware, now: Instant) -> Self;

    /// The task Receive: one frame from the card to the reply.
    fn receive(&mut self, now: Instant) -> Worked;

    /// The task Main: everything that is not about one frame. To be called when [`Program::receive`] has begun something,
    /// and at least every millisecond.
    fn run(&mut self, now: Instant, memory: Memory);

    /// Sends what the last frames made.
    fn flush(&mut self);

    /// A byte came from the serial line.
    fn on_serial_byte(&mut self, now: Instant, byte: u8);

    /// A byte came from the keyboard controller (scan code set 1).
    fn on_scan_code(&mut self, now: Instant, byte: u8);

    /// Draws what is due, and tells each word of VGA's text memory that changed: its place and its value.
    fn draw(&mut self, now: Instant, put: impl FnMut(usize, u16));

    /// Writes what the serial line is to say next into `room`, and gives how many bytes.
    fn serial_output(&mut self, room: &mut [u8]) -> usize;
}

/// Both machines have these functions by the same names.
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

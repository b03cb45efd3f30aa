//! Text output on the screen and on the first serial port (16550, COM1): 115,200 bit/s, 8 data bits, no parity, one stop bit.

use core::fmt;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use crate::clock::wait_until;
use crate::port::{inb, outb};
use crate::vga::{ALARM, GREY, Vga};

/// Console for text output. It never fails, waits only for the serial line, and allocates nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    colours: u8,
}

impl Console {
    /// For messages of the boot.
    pub(crate) const fn plain() -> Self {
        Self { colours: GREY }
    }

    /// For fault reports.
    pub(crate) const fn alarm() -> Self {
        Self { colours: ALARM }
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => {
                    Serial.write_all(line.as_bytes());
                    Serial.write_all(b"\r\n");
                }
                None => Serial.write_all(line.as_bytes()),
            }
        }
        Vga.print(text, self.colours);
        Ok(())
    }
}

/// Prints a line to the console.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use core::fmt::Write as _;
        // Writing to the console cannot fail.
        let _ = writeln!($crate::console::Console::plain(), $($words)*);
    }};
}

/// The port. If there is none, output is discarded and nothing is received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serial;

/// Initialises the port. False: there is none.
pub(crate) fn start() -> bool {
    // The scratch register must return a written byte.
    outb(SCRATCH, 0xA5);
    if inb(SCRATCH) != 0xA5 {
        return false;
    }
    outb(INTERRUPT_ENABLE, 0);
    outb(LINE_CONTROL, DIVISOR_LATCH);
    outb(DATA, 1); // 115,200 divided by 1
    outb(INTERRUPT_ENABLE, 0);
    outb(LINE_CONTROL, EIGHT_BITS);
    outb(FIFO_CONTROL, FIFO_ON_AND_EMPTY);
    outb(MODEM_CONTROL, READY);
    IS_PRESENT.store(true, Relaxed);
    true
}

impl Serial {
    /// Number of bytes that the port accepts now; 0 if there is none.
    pub(crate) fn room(self) -> usize {
        let is_empty = IS_PRESENT.load(Relaxed) && inb(LINE_STATUS) & QUEUE_EMPTY != 0;
        if is_empty { QUEUE_BYTES } else { 0 }
    }

    /// Writes as many bytes as the port accepts now, at most its queue of 16 bytes; returns their number.
    pub(crate) fn write_some(self, bytes: &[u8]) -> usize {
        if !IS_PRESENT.load(Relaxed) || inb(LINE_STATUS) & QUEUE_EMPTY == 0 {
            return 0;
        }
        let now = bytes.len().min(QUEUE_BYTES);
        bytes.iter().take(now).for_each(|byte| outb(DATA, *byte));
        now
    }

    /// Writes all bytes, waiting for the line; disables the port if it stops accepting bytes.
    pub(crate) fn write_all(self, mut bytes: &[u8]) {
        while !bytes.is_empty() && IS_PRESENT.load(Relaxed) {
            let written = self.write_some(bytes);
            bytes = bytes.get(written..).unwrap_or_default();
            if written == 0 && !wait_until(QUEUE_TIME_MAX, || inb(LINE_STATUS) & QUEUE_EMPTY != 0) {
                IS_PRESENT.store(false, Relaxed);
            }
        }
    }

    /// Next received byte.
    pub(crate) fn read(self) -> Option<u8> {
        (IS_PRESENT.load(Relaxed) && inb(LINE_STATUS) & BYTE_RECEIVED != 0).then(|| inb(DATA))
    }
}

static IS_PRESENT: AtomicBool = AtomicBool::new(false);

const DATA: u16 = 0x3F8;
const INTERRUPT_ENABLE: u16 = DATA + 1;
const FIFO_CONTROL: u16 = DATA + 2;
const LINE_CONTROL: u16 = DATA + 3;
const MODEM_CONTROL: u16 = DATA + 4;
const LINE_STATUS: u16 = DATA + 5;
const SCRATCH: u16 = DATA + 7;
const DIVISOR_LATCH: u8 = 0x80;
const EIGHT_BITS: u8 = 0x03;
const FIFO_ON_AND_EMPTY: u8 = 0xC7;
/// DTR, RTS.
const READY: u8 = 0x03;
const BYTE_RECEIVED: u8 = 0x01;
const QUEUE_EMPTY: u8 = 0x20;
/// Size of the send queue.
pub(crate) const QUEUE_BYTES: usize = 16;
/// 16 bytes take 1.4 ms.
const QUEUE_TIME_MAX: Duration = Duration::from_millis(20);

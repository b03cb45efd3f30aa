//! The keyboard: PS/2 (Intel 8042), polled. It gives scan codes of set 1, as the BIOS leaves the controller; what they mean is
//! `ringway-screen`'s to know. A USB keyboard is one of these as long as the BIOS plays one for it.

use crate::port::inb;

/// The keyboard. Where there is none, nothing comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyboard;

impl Keyboard {
    /// The next byte of a scan code.
    pub(crate) fn read(self) -> Option<u8> {
        for _ in 0..MOUSE_BYTES_MAX {
            let status = inb(STATUS);
            // All bits set: there is no controller.
            if status & FULL == 0 || status == 0xFF {
                return None;
            }
            let byte = inb(DATA);
            if status & FROM_MOUSE == 0 {
                return Some(byte);
            }
        }
        None
    }
}

const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
const FULL: u8 = 1;
const FROM_MOUSE: u8 = 1 << 5;
/// Bytes of a mouse passed over in one call.
const MOUSE_BYTES_MAX: usize = 16;

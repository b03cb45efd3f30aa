//! PS/2 keyboard (Intel 8042), polled. It delivers scan codes of set 1, the setting of the BIOS; `ringway-ui`
//! decodes them. A USB keyboard works as long as the BIOS emulates PS/2.

use crate::port::inb;

/// The keyboard. Without a controller it delivers nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyboard;

impl Keyboard {
    /// Next byte of a scan code.
    pub(crate) fn read(self) -> Option<u8> {
        for _ in 0..MOUSE_BYTES_MAX {
            let status = inb(STATUS);
            // All bits are set if there is no controller.
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
/// Maximum number of mouse bytes skipped in one call.
const MOUSE_BYTES_MAX: usize = 16;

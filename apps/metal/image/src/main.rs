//! The server on a PC without an operating system.
#![no_std]
#![no_main]

use ringway_metal::Machine;

/// Entry point, called by boot.s in 64-bit mode with a stack, the first page tables, and interrupts off.
#[unsafe(no_mangle)]
extern "C" fn image_main(magic: u32, information: u32) -> ! {
    // SAFETY: boot.s calls this once, with the loader's values.
    unsafe { ringway_image::run::<Machine<_>>(magic, information) }
}

//! The phone on a PC without an operating system.
#![no_std]
#![no_main]

use ringway_metal::PhoneMachine;

/// Where boot.s goes to: 64-bit mode, a stack, the first page tables, interrupts off.
#[unsafe(no_mangle)]
extern "C" fn image_main(magic: u32, information: u32) -> ! {
    // SAFETY: boot.s calls this once, with what the loader handed over.
    unsafe { ringway_image::run::<PhoneMachine<_>>(magic, information) }
}

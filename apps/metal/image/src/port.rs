//! I/O ports and other single instructions of the processor.

use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _rdtsc};

/// Reads a byte from a port.
pub(crate) fn inb(port: u16) -> u8 {
    let value;
    // SAFETY: reading a port changes no memory. Side effects on the device are up to its driver.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes a byte to a port.
pub(crate) fn outb(port: u16, value: u8) {
    // SAFETY: only devices of this crate are written to. If a port access makes a device write to memory (`ac97.rs`),
    // that memory is never freed and accessed by pointers only.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
}

/// Reads 16 bits from a port.
pub(crate) fn inw(port: u16) -> u16 {
    let value;
    // SAFETY: as in `inb`.
    unsafe { asm!("in ax, dx", in("dx") port, out("ax") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes 16 bits to a port.
pub(crate) fn outw(port: u16, value: u16) {
    // SAFETY: as in `outb`.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags)) };
}

/// Reads 32 bits from a port.
pub(crate) fn inl(port: u16) -> u32 {
    let value;
    // SAFETY: as in `inb`.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes 32 bits to a port.
pub(crate) fn outl(port: u16, value: u32) {
    // SAFETY: as in `outb`.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags)) };
}

/// Reads the time-stamp counter: cycles since the processor's reset.
pub(crate) fn tsc() -> u64 {
    // SAFETY: every 64-bit processor has the instruction, and CR4.TSD is clear.
    unsafe { _rdtsc() }
}

/// EAX, EBX, ECX and EDX of a CPUID leaf; zeros if the processor does not support the leaf.
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let highest = __cpuid_count(leaf & 0xC000_0000, 0).eax;
    if leaf > highest {
        return [0; 4];
    }
    let found = __cpuid_count(leaf, subleaf);
    [found.eax, found.ebx, found.ecx, found.edx]
}

/// Halts the processor for ever.
pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: interrupts are off and stay off, so the processor stays halted.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

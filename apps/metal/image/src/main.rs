//! Ringway as a machine: what a PC needs under the server when there is no operating system.
//!
//! Does: boot (`boot.s`, [`boot`]), page tables and faults ([`paging`], [`descriptors`], [`fault`]), heap ([`heap`]), clock
//! ([`clock`], [`rtc`]), chance ([`chance`]), the PCI bus and its network cards ([`pci`], [`card`]), serial port, screen and
//! keyboard ([`serial`], [`vga`], [`keyboard`]).
//!
//! Does not: know IP, SIP, pages or settings. One processor, no interrupts: it polls.
//!
//! Start reading at [`machine::start`].
#![no_std]
#![no_main]

extern crate alloc;

mod boot;
mod card;
mod chance;
mod check;
mod clock;
mod console;
mod descriptors;
mod fault;
mod heap;
mod keyboard;
mod machine;
mod paging;
mod pci;
mod port;
mod provoke;
mod rtc;
mod runtime;
mod serial;
mod serve;
mod vga;

/// Where boot.s goes to: 64-bit mode, a stack, the first page tables, interrupts off.
#[unsafe(no_mangle)]
extern "C" fn image_main(magic: u32, information: u32) -> ! {
    // SAFETY: boot.s calls this once, with what the loader handed over.
    let machine = unsafe { machine::start(magic, information) };
    serve::run(machine)
}

//! Platform of the bootable image: runs the server or the phone on a PC without an operating system.
//!
//! Does: boot (`boot.s`, [`boot`]), page tables and faults ([`paging`], [`descriptors`], [`fault`]), heap ([`heap`]),
//! clock ([`clock`], [`rtc`]), random seed ([`entropy`]), the PCI bus and its network cards ([`pci`], [`card`]), sound
//! ([`ac97`]), serial port, screen and keyboard ([`serial`], [`vga`], [`keyboard`]).
//!
//! Does not: contain IP, SIP, screen pages or settings. One processor, no interrupts: it polls.
//!
//! It has two programs, each an ELF file: the server (`main.rs`) and the phone (`phone.rs`).
//!
//! Start reading at [`run`], then [`machine::start`].
#![no_std]

extern crate alloc;

mod ac97;
mod boot;
mod card;
mod check;
mod clock;
mod console;
mod entropy;
mod fault;
mod heap;
mod machine;
mod paging;
mod pci;
mod port;
mod serve;

pub use card::AnyCard;
pub use serve::run;

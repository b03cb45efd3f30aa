//! The user interface of the phone and of the machine without an operating system.
//!
//! Does: draws the administrator's pages ([`admin`]) and the phone's page ([`phone`]) into [`Cells`], from plain
//! values; writes changed cells to VGA text memory ([`Vga`]) and to a terminal ([`Terminal`]); turns the bytes of a
//! serial line ([`SerialKeys`]) or of a PC keyboard ([`Ps2Keys`]) into keys.
//!
//! Does not: touch hardware, read clocks, or parse SIP. Text from the network is shown inside the columns meant for it,
//! and cannot contain control sequences for a terminal.
//!
//! Start reading at [`Cells`], then `admin/mod.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admin;
mod cells;
mod figures;
mod keys;
mod log;
mod network;
pub mod phone;
mod style;
#[cfg(test)]
mod svg;
mod terminal;
mod text;
mod vga;
mod window;

pub use cells::{Cell, Cells, Field};
pub use figures::{Clock, Delay, Grouped, MebiBytes, Span};
pub use keys::{Key, Ps2Keys, SerialKeys, Typed};
pub use log::{Level, Log};
pub use network::{Address, Card, Network, Source};
pub use style::Style;
pub use terminal::Terminal;
pub use text::{Clip, is_obeyed};
pub use vga::Vga;
pub use window::SPARE_ROW;

#[cfg(test)]
mod tests;

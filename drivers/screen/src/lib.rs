//! A text screen of 80 by 25 cells for a machine without an operating system.
//!
//! Does: draws what an administrator wants to know ([`admin`]) and what a person at a phone needs ([`phone`]) into
//! [`Cells`], from plain values; carries changed cells to VGA text memory ([`Vga`]) and to a terminal at a serial line
//! ([`Terminal`]); makes keys of what a serial line ([`SerialKeys`]) or a PC keyboard ([`Ps2Keys`]) sends.
//!
//! Does not: touch hardware, read clocks, or know SIP. Text from the network is shown inside the columns meant for it, and
//! nothing in it is obeyed by a terminal.
//!
//! Start reading at [`Cells`], then `admin/mod.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admin;
mod cells;
mod clip;
mod cp437;
mod figures;
mod history;
mod keys;
mod log;
mod network;
pub mod phone;
mod style;
mod terminal;
mod vga;
mod window;

pub use cells::{Cell, Cells, Field};
pub use clip::Clip;
pub use figures::{Clock, Delay, Grouped, MebiBytes, Span};
pub use keys::{Key, Ps2Keys, SerialKeys, Typed};
pub use log::{Level, Log};
pub use network::{Address, Card, Network, Source};
pub use style::{Colour, Style};
pub use terminal::{Charset, Terminal};
pub use vga::Vga;

//! Network cards.

mod dma;
mod e1000;
mod virtio;

use core::fmt;

use ringway_ethernet::{Card, CardCounters};

use crate::pci::Function;

pub(crate) use dma::{Identity, pages};
pub(crate) use e1000::E1000;
pub(crate) use virtio::VirtioNet;

/// A supported network card.
pub enum AnyCard {
    /// virtio-net.
    VirtioNet(VirtioNet),
    /// Intel 8254x, 82574 and I217 to I219.
    E1000(E1000),
}

impl AnyCard {
    /// Name of the card, if it is supported.
    pub(crate) fn name(function: &Function) -> Option<&'static str> {
        match (function.is.vendor_id, function.is.device_id) {
            (0x1AF4, 0x1000 | 0x1041) => Some("virtio-net"),
            (vendor, device) => e1000::name(vendor, device),
        }
    }

    /// Resets and configures the card. `None`: it is not supported.
    pub(crate) fn start(function: &Function) -> Option<Result<Self, CardError>> {
        Self::name(function)?;
        Some(if function.is.vendor_id == 0x1AF4 {
            VirtioNet::start(function).map(Self::VirtioNet)
        } else {
            E1000::start(function).map(Self::E1000)
        })
    }
}

impl Card for AnyCard {
    fn address(&self) -> [u8; 6] {
        match self {
            Self::VirtioNet(card) => card.address(),
            Self::E1000(card) => card.address(),
        }
    }

    fn is_up(&mut self) -> bool {
        match self {
            Self::VirtioNet(card) => card.is_up(),
            Self::E1000(card) => card.is_up(),
        }
    }

    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self {
            Self::VirtioNet(card) => card.receive(take),
            Self::E1000(card) => card.receive(take),
        }
    }

    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        match self {
            Self::VirtioNet(card) => card.send(bytes, fill),
            Self::E1000(card) => card.send(bytes, fill),
        }
    }

    fn flush(&mut self) {
        match self {
            Self::VirtioNet(card) => card.flush(),
            Self::E1000(card) => card.flush(),
        }
    }

    fn counters(&self) -> CardCounters {
        match self {
            Self::VirtioNet(card) => card.counters(),
            Self::E1000(card) => card.counters(),
        }
    }
}

/// Error of [`AnyCard::start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CardError {
    /// The firmware assigned no address, or one that cannot be mapped.
    Bus,
    /// The card does not complete its reset, or lacks a required feature.
    Start,
    /// The card has no MAC address.
    Address,
    /// No memory for the buffers.
    Memory,
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bus => "the BIOS assigned no usable address: check its slot in the BIOS setup",
            Self::Start => "the card does not start: power the machine off and on, or use another card",
            Self::Address => "the card has no MAC address: its EEPROM is empty or broken, use another card",
            Self::Memory => "there is not enough memory for its buffers",
        })
    }
}

/// Minimum length of a frame: the header (IEEE 802.3).
const FRAME_BYTES_MIN: usize = 14;

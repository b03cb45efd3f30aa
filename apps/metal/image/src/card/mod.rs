//! Network cards, and the memory shared with devices (DMA).

mod e1000;
mod virtio;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use alloc::alloc::{alloc_zeroed, dealloc};
use ringway_ethernet::{Card, CardCounters};
use virtio_drivers::{BufferDirection, Hal, PhysAddr};

use crate::paging::map_device;
use crate::pci::Function;

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

/// Buffers of [`BUFFER_BYTES`] that a card shares with its driver. Never freed: a card may write to them as long as it
/// runs.
pub(crate) struct Buffers {
    first: NonNull<u8>,
    count: usize,
}

impl Buffers {
    /// `None`: the heap is full.
    pub(crate) fn new(count: usize) -> Option<Self> {
        Some(Self { first: pages((count * BUFFER_BYTES).div_ceil(PAGE_BYTES))?, count })
    }

    /// Physical address of a buffer; memory is identity-mapped.
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.pointer(index).as_ptr() as u64
    }

    /// Returns a buffer.
    ///
    /// # Safety
    /// The card does not write to it during the lifetime of the reference.
    pub(crate) unsafe fn get(&self, index: usize) -> &[u8] {
        // SAFETY: the buffer is never freed, and the caller excludes access by the card.
        unsafe { core::slice::from_raw_parts(self.pointer(index).as_ptr(), BUFFER_BYTES) }
    }

    /// Returns a buffer for writing.
    ///
    /// # Safety
    /// The card neither reads nor writes it during the lifetime of the reference.
    pub(crate) unsafe fn get_mut(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as in `get`; `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.pointer(index).as_ptr(), BUFFER_BYTES) }
    }

    fn pointer(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count, "the card returned an invalid buffer index");
        // SAFETY: the index is below the count, so this is inside the allocation.
        unsafe { self.first.add(index * BUFFER_BYTES) }
    }
}

/// Allocates zeroed pages. `None`: the heap is full.
pub(crate) fn pages(count: usize) -> Option<NonNull<u8>> {
    let layout = page_layout(count)?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

fn page_layout(count: usize) -> Option<Layout> {
    Layout::from_size_align(count.max(1).checked_mul(PAGE_BYTES)?, PAGE_BYTES).ok()
}

/// DMA for virtio-drivers: memory is identity-mapped, and the heap is below 4 GiB.
pub(crate) struct Identity;

// SAFETY: pages are zeroed, aligned and allocated exclusively; a device's registers are identity-mapped and used by one
// driver only.
unsafe impl Hal for Identity {
    fn dma_alloc(pages_wanted: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // Address zero means failure to virtio-drivers.
        pages(pages_wanted).map_or((0, NonNull::dangling()), |start| (start.as_ptr() as u64, start))
    }

    unsafe fn dma_dealloc(_: PhysAddr, start: NonNull<u8>, count: usize) -> i32 {
        if let Some(layout) = page_layout(count) {
            // SAFETY: by the caller's contract `dma_alloc` returned it, with this layout.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, size: usize) -> NonNull<u8> {
        // An address that cannot be mapped faults at its first use, and the report contains it.
        map_device(address, size as u64);
        NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling())
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().as_ptr() as u64
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

/// Minimum length of a frame: the header (IEEE 802.3).
const FRAME_BYTES_MIN: usize = 14;
/// Size of a buffer: a frame and the card's headers.
pub(crate) const BUFFER_BYTES: usize = 2048;
/// Size of a page.
pub(crate) const PAGE_BYTES: usize = 4096;

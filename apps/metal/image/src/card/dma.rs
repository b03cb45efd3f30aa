//! Memory that a card reads and writes by itself.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

use virtio_drivers::{BufferDirection, Hal, PhysAddr};

use crate::paging::map_device;

/// Buffers of [`BUFFER_BYTES`] that a card shares with its driver. They are kept for good: a card may write to them as long
/// as it runs.
pub(crate) struct Buffers {
    first: NonNull<u8>,
    count: usize,
}

impl Buffers {
    /// `None`: the heap is full.
    pub(crate) fn new(count: usize) -> Option<Self> {
        Some(Self { first: pages((count * BUFFER_BYTES).div_ceil(PAGE_BYTES))?, count })
    }

    /// Where a buffer is, for the card: every address means itself.
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.pointer(index).as_ptr() as u64
    }

    /// A buffer.
    ///
    /// # Safety
    /// The card does not write to it as long as the reference lives.
    pub(crate) unsafe fn get(&self, index: usize) -> &[u8] {
        // SAFETY: the buffer is there for good; the caller keeps the card off.
        unsafe { core::slice::from_raw_parts(self.pointer(index).as_ptr(), BUFFER_BYTES) }
    }

    /// A buffer to write to.
    ///
    /// # Safety
    /// The card neither reads nor writes it as long as the reference lives.
    pub(crate) unsafe fn get_mut(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as in `get`; `self` is borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.pointer(index).as_ptr(), BUFFER_BYTES) }
    }

    fn pointer(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count, "the card named a buffer that there is not");
        // SAFETY: the index is below the count, so this is inside the allocation.
        unsafe { self.first.add(index * BUFFER_BYTES) }
    }
}

/// Zeroed pages from the heap. `None`: it is full.
pub(crate) fn pages(count: usize) -> Option<NonNull<u8>> {
    let layout = page_layout(count)?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

fn page_layout(count: usize) -> Option<Layout> {
    Layout::from_size_align(count.max(1).checked_mul(PAGE_BYTES)?, PAGE_BYTES).ok()
}

/// How virtio-drivers reaches memory: every address means itself, and the heap is below 4 GiB.
pub(crate) struct Identity;

// SAFETY: pages come zeroed and aligned from the allocator, which hands out nothing twice; a device's registers are mapped
// at their own address and belong to its one driver.
unsafe impl Hal for Identity {
    fn dma_alloc(pages_wanted: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // Address zero says "none" to virtio-drivers.
        pages(pages_wanted).map_or((0, NonNull::dangling()), |start| (start.as_ptr() as u64, start))
    }

    unsafe fn dma_dealloc(_: PhysAddr, start: NonNull<u8>, count: usize) -> i32 {
        if let Some(layout) = page_layout(count) {
            // SAFETY: by the caller's promise `dma_alloc` gave it, with this layout.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, size: usize) -> NonNull<u8> {
        // An address that cannot be mapped faults at its first use, and the report names it.
        map_device(address, size as u64);
        NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling())
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().as_ptr() as u64
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

/// Bytes of a buffer: a frame and what a card puts before or behind it.
pub(crate) const BUFFER_BYTES: usize = 2048;
/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;

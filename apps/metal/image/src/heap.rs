//! Heap of limited size, with counters.
//!
//! The allocator is talc: its binned free lists avoid walking a list whose length peers control, as a first-fit list
//! (linked_list_allocator) would. There is one processor and no interrupt, so it needs no lock. The heap does not grow.
//! When it is full an allocation fails: callers of `try_reserve`, or that check [`free_bytes`] before, continue; all
//! others panic, which prints a report and resets.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

use talc::TalcCell;
use talc::source::Manual;

use crate::boot::{FOUR_GIB, Region};

/// Usage of the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapCounters {
    /// Total bytes.
    pub(crate) size: usize,
    /// Free bytes, possibly fragmented.
    pub(crate) free: usize,
    /// Maximum bytes in use since the start.
    pub(crate) peak: usize,
    /// Failed allocations.
    pub(crate) failures: u64,
}

/// Initialises the heap with the largest free regions below 4 GiB (which every card can access), without the first
/// mebibyte and the image, up to [`HEAP_BYTES_MAX`]. Returns its size.
///
/// # Safety
/// Called once, before the first allocation; `memory` is not used otherwise, except by the image at `image`.
pub(crate) unsafe fn start(memory: &[Region], image: Region) -> usize {
    let mut left = HEAP_BYTES_MAX;
    let mut below = u64::MAX;
    while left > 0 {
        // The largest region below the previous size; a second one of equal size is skipped.
        let usable = memory.iter().map(|region| without_image(*region, image));
        let Some(region) = usable.filter(|region| region.bytes() < below).max_by_key(|region| region.bytes())
        else {
            break;
        };
        below = region.bytes();
        let bytes = below.min(left);
        if bytes < REGION_BYTES_MIN {
            break;
        }
        // SAFETY: the region is free according to the firmware, mapped, and by the caller's contract not used otherwise.
        if unsafe { HEAP.talc.claim(region.start as *mut u8, bytes as usize) }.is_some() {
            left -= bytes;
        }
    }
    let size = (HEAP_BYTES_MAX - left) as usize;
    HEAP.size.set(size);
    HEAP.lowest_free.set(size);
    size
}

/// Free bytes, possibly fragmented; checked before accepting work.
pub(crate) fn free_bytes() -> usize {
    HEAP.talc.counters().available_bytes
}

/// Usage of the heap.
pub(crate) fn counters() -> HeapCounters {
    HeapCounters {
        size: HEAP.size.get(),
        free: free_bytes(),
        peak: HEAP.size.get().saturating_sub(HEAP.lowest_free.get()),
        failures: HEAP.failures.get(),
    }
}

/// Part of a region that can be heap: below 4 GiB, above the first mebibyte, above the image.
fn without_image(region: Region, image: Region) -> Region {
    let start = region.start.max(LOW_MEMORY_END);
    let start = if start < image.end && region.end > image.start { image.end } else { start };
    Region { start: start.next_multiple_of(PAGE_BYTES), end: region.end.min(FOUR_GIB) }
}

struct Heap {
    talc: TalcCell<Manual>,
    size: Cell<usize>,
    lowest_free: Cell<usize>,
    failures: Cell<u64>,
}

impl Heap {
    fn count(&self, pointer: *mut u8) -> *mut u8 {
        if pointer.is_null() {
            self.failures.set(self.failures.get() + 1);
        } else {
            self.lowest_free.set(self.lowest_free.get().min(free_bytes()));
        }
        pointer
    }
}

// SAFETY: talc fulfils the contract; counting does not access allocated memory.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is talc's.
        self.count(unsafe { self.talc.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.talc.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.count(unsafe { self.talc.realloc(pointer, layout, new_size) })
    }
}

// SAFETY: there is one processor, interrupts are off, and a fault does not return: there is no concurrent access.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap {
    talc: TalcCell::new(Manual),
    size: Cell::new(0),
    lowest_free: Cell::new(0),
    failures: Cell::new(0),
};

/// Maximum size of the heap.
pub(crate) const HEAP_BYTES_MAX: u64 = 128 << 20;

/// Minimum size of a region.
const REGION_BYTES_MIN: u64 = 1 << 20;
const LOW_MEMORY_END: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;

//! The heap: a bounded piece of free memory, counted.
//!
//! The allocator is talc: binned free lists, so that neither finding nor giving back walks a list that peers can make
//! long (a first-fit list, as in linked_list_allocator, does). There is one processor and no interrupt, so it needs no
//! lock. Nothing in it grows: when it is full, an allocation fails, and whoever asked by `try_reserve` or looked at
//! [`free_bytes`] before goes on; anybody else ends in the panic handler, which prints and resets.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

use talc::TalcCell;
use talc::source::Manual;

use crate::boot::{FOUR_GIB, Region};

/// How full the heap is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapCounters {
    /// Bytes of the heap.
    pub(crate) size: usize,
    /// Bytes free, in pieces.
    pub(crate) free: usize,
    /// The most bytes that were ever in use.
    pub(crate) peak: usize,
    /// Allocations that failed.
    pub(crate) failures: u64,
}

/// Gives the heap its memory: the largest free regions below 4 GiB (where every card reaches), without the first
/// mebibyte and the image, [`HEAP_BYTES_MAX`] at most. Returns what it took.
///
/// # Safety
/// Called once, before the first allocation; nobody else uses `memory`, except the image at `image`.
pub(crate) unsafe fn start(memory: &[Region], image: Region) -> usize {
    let mut left = HEAP_BYTES_MAX;
    let mut below = u64::MAX;
    while left > 0 {
        // The largest of those that are smaller than the last; of two equal ones, one is enough.
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
        // SAFETY: the region is free memory by the firmware's word, mapped, and nobody else's by the caller's.
        if unsafe { HEAP.talc.claim(region.start as *mut u8, bytes as usize) }.is_some() {
            left -= bytes;
        }
    }
    let size = (HEAP_BYTES_MAX - left) as usize;
    HEAP.size.set(size);
    HEAP.lowest_free.set(size);
    size
}

/// Bytes that are free, in pieces: what a machine looks at before it takes more work.
pub(crate) fn free_bytes() -> usize {
    HEAP.talc.counters().available_bytes
}

/// How full the heap is.
pub(crate) fn counters() -> HeapCounters {
    HeapCounters {
        size: HEAP.size.get(),
        free: free_bytes(),
        peak: HEAP.size.get().saturating_sub(HEAP.lowest_free.get()),
        failures: HEAP.failures.get(),
    }
}

/// What of a region can be heap: below 4 GiB, above the first mebibyte, above the image.
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

// SAFETY: talc keeps the contract; counting does not touch memory that it hands out.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is talc's condition.
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

// SAFETY: there is one processor, interrupts are never on, and a fault never comes back: nothing ever runs beside it.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap {
    talc: TalcCell::new(Manual),
    size: Cell::new(0),
    lowest_free: Cell::new(0),
    failures: Cell::new(0),
};

/// The largest heap.
pub(crate) const HEAP_BYTES_MAX: u64 = 128 << 20;

/// Smaller pieces of free memory are left alone.
const REGION_BYTES_MIN: u64 = 1 << 20;
const LOW_MEMORY_END: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;

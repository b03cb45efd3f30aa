//! The page tables: every address means itself, and what has no business somewhere is stopped there.
//!
//! Code can be read and run, constants can be read, everything else can be written and not run (CR0.WP, EFER.NXE). There
//! is no page 0, no page below the stack, and nothing where there is neither free memory nor a device that a driver asked
//! for. Devices are not cached.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};

use crate::boot::{FOUR_GIB, Region};
use crate::port::cpuid;

/// Where the parts of the image are; the names are those of link.ld.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Code.
    pub(crate) text: Region,
    /// Constants.
    pub(crate) rodata: Region,
    /// Variables, and the stack at their end.
    pub(crate) data: Region,
    /// The page below the stack.
    pub(crate) stack_guard: Region,
}

/// What an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The first page: a null pointer, or a little behind one.
    Null,
    /// The page below the stack.
    StackGuard,
    /// Code of the image.
    Text,
    /// Constants of the image.
    Rodata,
    /// Variables of the image.
    Data,
    /// Free memory or a device.
    Mapped,
    /// Nothing.
    Nothing,
}

/// Makes the tables and switches to them. True where data cannot be executed: a processor, or a BIOS setting, may lack it.
///
/// # Safety
/// Called once, on the tables of boot.s, which map what these map. `memory` is what the firmware says.
pub(crate) unsafe fn start(memory: &[Region]) -> bool {
    let layout = layout();
    let has_no_execute = cpuid(0x8000_0001, 0)[3] & (1 << 20) != 0;
    if has_no_execute {
        TABLES.no_execute.set(NO_EXECUTE);
        // SAFETY: EFER exists on every 64-bit processor, and the bit is there by CPUID.
        unsafe {
            asm!("rdmsr", "or eax, 0x800", "wrmsr", in("ecx") 0xC000_0080_u32, out("eax") _, out("edx") _)
        };
    }
    let data = WRITABLE | TABLES.no_execute.get();
    let by_pages_end = layout.data.end.next_multiple_of(LARGE_PAGE);
    for page in (VGA.start..VGA.end).step_by(PAGE as usize) {
        TABLES.map_page(page, data | UNCACHED);
    }
    for page in (layout.text.start..by_pages_end).step_by(PAGE as usize) {
        let is_free = || memory.iter().any(|region| region.start <= page && page + PAGE <= region.end);
        let flags = match place_in_image(page, layout) {
            Some(Place::Text) => Some(0),
            Some(Place::Rodata) => Some(TABLES.no_execute.get()),
            Some(Place::Data) => Some(data),
            None if is_free() => Some(data),
            Some(Place::Null | Place::StackGuard | Place::Mapped | Place::Nothing) | None => None,
        };
        if let Some(flags) = flags {
            TABLES.map_page(page, flags);
        }
    }
    for region in memory {
        let from = (region.start & !(LARGE_PAGE - 1)).max(by_pages_end);
        for page in (from..region.end.min(FOUR_GIB)).step_by(LARGE_PAGE as usize) {
            TABLES.map_large_page(page, data);
        }
    }
    TABLES.switch();
    has_no_execute
}

/// Makes the registers of a device reachable, uncached, at their own address. False: an address that is none, or too
/// many devices.
pub(crate) fn map_device(start: u64, bytes: u64) -> bool {
    let Some(end) = start.checked_add(bytes.max(1)) else { return false };
    if start < layout().data.end.next_multiple_of(LARGE_PAGE) || end > CANONICAL_END {
        return false;
    }
    let flags = WRITABLE | UNCACHED | TABLES.no_execute.get();
    let first = start & !(LARGE_PAGE - 1);
    let is_mapped = (first..end).step_by(LARGE_PAGE as usize).all(|page| TABLES.map_large_page(page, flags));
    TABLES.switch();
    is_mapped
}

/// What an address belongs to, for a fault's report.
pub(crate) fn place(address: u64) -> Place {
    match address {
        0..PAGE => Place::Null,
        _ => match place_in_image(address, layout()) {
            Some(place) => place,
            None if TABLES.is_mapped(address) => Place::Mapped,
            None => Place::Nothing,
        },
    }
}

/// Where the parts of the image are.
pub(crate) fn layout() -> Layout {
    unsafe extern "C" {
        static image_start: u8;
        static text_end: u8;
        static rodata_end: u8;
        static stack_guard: u8;
        static image_end: u8;
    }
    let text_start = (&raw const image_start) as u64;
    let rodata_start = (&raw const text_end) as u64;
    let data_start = (&raw const rodata_end) as u64;
    let guard = (&raw const stack_guard) as u64;
    Layout {
        text: Region { start: text_start, end: rodata_start },
        rodata: Region { start: rodata_start, end: data_start },
        data: Region { start: data_start, end: (&raw const image_end) as u64 },
        stack_guard: Region { start: guard, end: guard + PAGE },
    }
}

fn place_in_image(address: u64, layout: Layout) -> Option<Place> {
    let is_in = |region: Region| (region.start..region.end).contains(&address);
    match () {
        () if is_in(layout.stack_guard) => Some(Place::StackGuard),
        () if is_in(layout.text) => Some(Place::Text),
        () if is_in(layout.rodata) => Some(Place::Rodata),
        () if is_in(layout.data) => Some(Place::Data),
        () => None,
    }
}

/// Page tables from a pool: the first is the PML4.
#[repr(C, align(4096))]
struct Tables {
    pool: UnsafeCell<[[u64; 512]; TABLES_MAX]>,
    /// How many are in use besides the first. All zeros at the start: the file need not hold the pool.
    used_below_first: Cell<usize>,
    no_execute: Cell<u64>,
}

impl Tables {
    fn map_page(&self, address: u64, flags: u64) -> bool {
        self.map(address, 3, address & !(PAGE - 1) | flags | PRESENT)
    }

    fn map_large_page(&self, address: u64, flags: u64) -> bool {
        self.map(address, 2, address & !(LARGE_PAGE - 1) | flags | PRESENT | LARGE)
    }

    /// Writes `entry` for `address` into a table of `level`: 2 is a page directory, 3 a page table. False: the pool is
    /// empty, or a finer table is in the way.
    fn map(&self, address: u64, level: u32, entry: u64) -> bool {
        let mut table = 0;
        for upper in 0..level {
            let slot = slot(address, upper);
            let found = self.entry(table, slot);
            table = if found & PRESENT == 0 {
                let next = self.used_below_first.get() + 1;
                if next == TABLES_MAX {
                    return false;
                }
                self.used_below_first.set(next);
                self.set_entry(table, slot, self.address(next) | PRESENT | WRITABLE);
                next
            } else if found & LARGE != 0 {
                return false;
            } else {
                self.index(found)
            };
        }
        let old = self.entry(table, slot(address, level));
        if old & PRESENT != 0 && level == 2 && old & LARGE == 0 {
            return false;
        }
        self.set_entry(table, slot(address, level), entry);
        true
    }

    fn is_mapped(&self, address: u64) -> bool {
        let mut table = 0;
        for level in 0..4 {
            let entry = self.entry(table, slot(address, level));
            if entry & PRESENT == 0 {
                return false;
            }
            if entry & LARGE != 0 || level == 3 {
                return true;
            }
            table = self.index(entry);
        }
        false
    }

    fn entry(&self, table: usize, slot: usize) -> u64 {
        // SAFETY: nothing runs beside this, and no reference into the pool is ever made.
        unsafe { (&raw const (*self.pool.get())[table][slot]).read_volatile() }
    }

    fn set_entry(&self, table: usize, slot: usize, entry: u64) {
        // SAFETY: as above; the processor reads the entry in whole.
        unsafe { (&raw mut (*self.pool.get())[table][slot]).write_volatile(entry) };
    }

    fn address(&self, table: usize) -> u64 {
        self.pool.get() as u64 + table as u64 * PAGE
    }

    fn index(&self, entry: u64) -> usize {
        ((entry & ADDRESS) - self.pool.get() as u64) as usize / PAGE as usize
    }

    /// Makes the processor use the tables as they are now; caches are written back, since a page may have become uncached.
    fn switch(&self) {
        // SAFETY: the tables map the code that runs, its stack and its data where they are.
        unsafe { asm!("wbinvd", "mov cr3, {}", in(reg) self.address(0), options(nostack, preserves_flags)) };
    }
}

/// The entry's number in a table of a level: 0 is the PML4.
fn slot(address: u64, level: u32) -> usize {
    (address >> (39 - 9 * level)) as usize & 511
}

// SAFETY: there is one processor, interrupts are never on, and a fault's report only reads.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables {
    pool: UnsafeCell::new([[0; 512]; TABLES_MAX]),
    used_below_first: Cell::new(0),
    no_execute: Cell::new(0),
};

/// PML4, PDPT, four page directories below 4 GiB, the image's page tables, and the rest for devices above 4 GiB.
const TABLES_MAX: usize = 24;
const PAGE: u64 = 4096;
const LARGE_PAGE: u64 = 2 << 20;
const CANONICAL_END: u64 = 1 << 47;
const VGA: Region = Region { start: 0xA_0000, end: 0xC_0000 };

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
/// PCD and PWT: strong uncacheable in the PAT as it is after reset.
const UNCACHED: u64 = 1 << 4 | 1 << 3;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

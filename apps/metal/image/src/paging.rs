//! Page tables: identity-mapped, with access restricted to what each part needs.
//!
//! Code is readable and executable, constants are readable, everything else is writable and not executable (CR0.WP,
//! EFER.NXE). Page 0, the page below the stack, and all addresses without free memory or a mapped device are not
//! present. Devices are uncached.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};

use crate::boot::{FOUR_GIB, Region};
use crate::port::cpuid;

/// Address ranges of the image's sections, from link.ld.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Code.
    pub(crate) text: Region,
    /// Constants.
    pub(crate) rodata: Region,
    /// Variables, with the stack at the end.
    pub(crate) data: Region,
    /// The page below the stack.
    pub(crate) stack_guard: Region,
}

/// Kind of memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// First page: a null pointer, possibly with an offset.
    Null,
    /// Page below the stack.
    StackGuard,
    /// Code of the image.
    Text,
    /// Constants of the image.
    Rodata,
    /// Variables of the image.
    Data,
    /// Free memory or a device.
    Mapped,
    /// Not mapped.
    Unmapped,
}

/// Creates the page tables and switches to them. True if data is not executable; the processor or the BIOS may lack NX.
///
/// # Safety
/// Called once, on the page tables of boot.s, which map the same addresses. `memory` is the firmware's memory map.
pub(crate) unsafe fn start(memory: &[Region]) -> bool {
    let layout = layout();
    let has_no_execute = cpuid(0x8000_0001, 0)[3] & (1 << 20) != 0;
    if has_no_execute {
        TABLES.no_execute.set(NO_EXECUTE);
        // SAFETY: EFER exists on every 64-bit processor, and CPUID reports the bit.
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
        let flags = match kind_in_image(page, layout) {
            Some(MemoryKind::Text) => Some(0),
            Some(MemoryKind::Rodata) => Some(TABLES.no_execute.get()),
            Some(MemoryKind::Data) => Some(data),
            None if is_free() => Some(data),
            Some(MemoryKind::Null | MemoryKind::StackGuard | MemoryKind::Mapped | MemoryKind::Unmapped)
            | None => None,
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

/// Identity-maps a device's registers, uncached. False: the address is invalid, or the table pool is used up.
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

/// Kind of memory at an address, for fault reports.
pub(crate) fn kind_of(address: u64) -> MemoryKind {
    match address {
        0..PAGE => MemoryKind::Null,
        _ => match kind_in_image(address, layout()) {
            Some(kind) => kind,
            None if TABLES.is_mapped(address) => MemoryKind::Mapped,
            None => MemoryKind::Unmapped,
        },
    }
}

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

fn kind_in_image(address: u64, layout: Layout) -> Option<MemoryKind> {
    let is_in = |region: Region| (region.start..region.end).contains(&address);
    match () {
        () if is_in(layout.stack_guard) => Some(MemoryKind::StackGuard),
        () if is_in(layout.text) => Some(MemoryKind::Text),
        () if is_in(layout.rodata) => Some(MemoryKind::Rodata),
        () if is_in(layout.data) => Some(MemoryKind::Data),
        () => None,
    }
}

/// Page tables from a pool; the first one is the PML4.
#[repr(C, align(4096))]
struct Tables {
    pool: UnsafeCell<[[u64; 512]; TABLES_MAX]>,
    /// Tables in use besides the first. Zero at the start, so that the pool can be in the bss section.
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
    /// used up, or the mapping conflicts with an existing one.
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
        // SAFETY: there is no concurrent access, and no reference into the pool is created.
        unsafe { (&raw const (*self.pool.get())[table][slot]).read_volatile() }
    }

    fn set_entry(&self, table: usize, slot: usize, entry: u64) {
        // SAFETY: as above; the processor reads an entry atomically.
        unsafe { (&raw mut (*self.pool.get())[table][slot]).write_volatile(entry) };
    }

    fn address(&self, table: usize) -> u64 {
        self.pool.get() as u64 + table as u64 * PAGE
    }

    fn index(&self, entry: u64) -> usize {
        ((entry & ADDRESS) - self.pool.get() as u64) as usize / PAGE as usize
    }

    /// Loads the page tables into the processor; caches are written back, because a page may have become uncached.
    fn switch(&self) {
        // SAFETY: the tables identity-map the running code, its stack and its data.
        unsafe { asm!("wbinvd", "mov cr3, {}", in(reg) self.address(0), options(nostack, preserves_flags)) };
    }
}

/// Index in a table of a level: 0 is the PML4.
fn slot(address: u64, level: u32) -> usize {
    (address >> (39 - 9 * level)) as usize & 511
}

// SAFETY: there is one processor, interrupts are off, and a fault's report only reads.
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
/// PCD and PWT: strong uncacheable with the PAT's reset value.
const UNCACHED: u64 = 1 << 4 | 1 << 3;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

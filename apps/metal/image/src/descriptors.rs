//! Descriptor tables: segments (GDT), interrupt stacks (TSS), exception entries (IDT).

use core::arch::asm;
use core::cell::UnsafeCell;

/// Fills and loads the three tables.
///
/// # Safety
/// Called once.
pub(crate) unsafe fn start() {
    unsafe extern "C" {
        static exception_entries: [u64; VECTORS];
    }
    // SAFETY: the caller calls once, so these references are unique; the entries are in fault.s.
    let (tables, entries) = unsafe { (&mut *TABLES.0.get(), &exception_entries) };
    for (index, stack) in tables.stacks.iter().enumerate() {
        let top = stack.as_ptr_range().end as u64;
        // Interrupt stack table: from byte 36 of the TSS, unaligned.
        tables.task[9 + 2 * index] = top as u32;
        tables.task[10 + 2 * index] = (top >> 32) as u32;
    }
    // No I/O permission map: its offset is the end of the TSS.
    tables.task[25] = (TASK_BYTES as u32) << 16;
    let task = tables.task.as_ptr() as u64;
    tables.segments = [
        0,
        CODE_64,
        DATA,
        (task & 0xFF_FFFF) << 16 | (task >> 24 & 0xFF) << 56 | TASK_AVAILABLE << 40 | (TASK_BYTES - 1),
        task >> 32,
    ];
    for (vector, (gate, entry)) in tables.gates.iter_mut().zip(entries).enumerate() {
        gate[0] = entry & 0xFFFF
            | u64::from(CODE_SELECTOR) << 16
            | stack_of(vector) << 32
            | INTERRUPT_GATE << 40
            | (entry >> 16 & 0xFFFF) << 48;
        gate[1] = entry >> 32;
    }
    let segments =
        Pointer { limit: (size_of_val(&tables.segments) - 1) as u16, base: tables.segments.as_ptr() as u64 };
    let gates =
        Pointer { limit: (size_of_val(&tables.gates) - 1) as u16, base: tables.gates.as_ptr() as u64 };
    // SAFETY: the tables are static; the selectors have the same meaning as in the table of boot.s.
    unsafe {
        asm!(
            "lgdt [{segments}]",
            "push {code}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "retfq",
            "2:",
            "mov ds, {data:e}",
            "mov es, {data:e}",
            "mov ss, {data:e}",
            "ltr {task:x}",
            "lidt [{gates}]",
            segments = in(reg) &raw const segments,
            gates = in(reg) &raw const gates,
            code = const CODE_SELECTOR,
            data = in(reg) u64::from(DATA_SELECTOR),
            task = in(reg) u64::from(TASK_SELECTOR),
            scratch = out(reg) _,
        );
    }
}

/// Number of the interrupt stack for a vector; 0 is the current stack. Exceptions caused by a bad stack, or that occur
/// at any time, have their own.
fn stack_of(vector: usize) -> u64 {
    match vector {
        2 => 1,       // non-maskable interrupt
        8 => 2,       // double fault
        12 | 14 => 3, // stack-segment fault, page fault
        18 => 4,      // machine check
        _ => 0,
    }
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

#[repr(C, align(16))]
struct Tables {
    stacks: [[u128; STACK_BYTES / 16]; 4],
    gates: [[u64; 2]; VECTORS],
    segments: [u64; 5],
    task: [u32; TASK_BYTES as usize / 4],
}

struct Once(UnsafeCell<Tables>);

// SAFETY: there is one processor, and `start` takes the only reference.
unsafe impl Sync for Once {}

static TABLES: Once = Once(UnsafeCell::new(Tables {
    stacks: [[0; STACK_BYTES / 16]; 4],
    gates: [[0; 2]; VECTORS],
    segments: [0; 5],
    task: [0; TASK_BYTES as usize / 4],
}));

const VECTORS: usize = 32;
const STACK_BYTES: usize = 16 << 10;
const TASK_BYTES: u64 = 104;
const CODE_SELECTOR: u16 = 0x08;
const DATA_SELECTOR: u16 = 0x10;
const TASK_SELECTOR: u16 = 0x18;
const CODE_64: u64 = 0x00AF_9B00_0000_FFFF;
const DATA: u64 = 0x00CF_9300_0000_FFFF;
/// Present, 64-bit TSS, available.
const TASK_AVAILABLE: u64 = 0x89;
/// Present, 64-bit interrupt gate.
const INTERRUPT_GATE: u64 = 0x8E;

//! Panics and exceptions: reported on serial port and screen, then the machine resets after three seconds. Descriptor tables:
//! segments (GDT), interrupt stacks (TSS), exception entries (IDT).

use core::arch::asm;
use core::cell::UnsafeCell;
use core::fmt::{self, Write as _};
use core::panic::PanicInfo;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};
use core::time::Duration;

use crate::clock;
use crate::console::{Console, Vga};
use crate::paging::{MemoryKind, kind_of};
use crate::port::{halt, inb, outb};

/// Makes the machine stop after a fault's report instead of resetting, for a reader and for tests: QEMU exits if it has
/// its exit device (`-device isa-debug-exit,iobase=0xf4`).
pub(crate) fn stop_after_report() {
    STOPS.store(true, Relaxed);
}

/// Resets the machine: by the keyboard controller, the chipset, and finally a triple fault.
pub(crate) fn reset() -> ! {
    clock::wait_until(Duration::from_millis(50), || inb(KEYBOARD_STATUS) & 2 == 0);
    outb(KEYBOARD_STATUS, 0xFE);
    clock::wait(Duration::from_millis(50));
    outb(RESET_CONTROL, 0x02);
    outb(RESET_CONTROL, 0x06);
    clock::wait(Duration::from_millis(50));
    let nothing = [0_u16; 5];
    // SAFETY: the reset is intended: without an IDT the exception becomes a triple fault.
    unsafe { asm!("lidt [{}]", "ud2", in(reg) &raw const nothing, options(noreturn)) };
}

/// Ends QEMU with the exit status `2 * code + 1` if it has its exit device; otherwise returns.
pub(crate) fn exit_emulator(code: u8) {
    outb(EXIT_DEVICE, code);
}

/// Stack frame of the processor and fault.s.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Exception {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    error_code: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

#[unsafe(no_mangle)]
extern "C" fn handle_exception(exception: &Exception) -> ! {
    let address: u64;
    // SAFETY: reading CR2 changes nothing.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    end(Exit::Exception, |to| report(to, exception, address))
}

#[panic_handler]
fn panicked(panic: &PanicInfo<'_>) -> ! {
    end(Exit::Panic, |to| {
        match panic.location() {
            Some(at) => write!(to, "panic at {}:{}: ", at.file(), at.line())?,
            None => write!(to, "panic: ")?,
        }
        writeln!(to, "{}", panic.message())
    })
}

/// Exit codes for QEMU's exit device.
#[derive(Clone, Copy)]
enum Exit {
    Panic = 0x20,
    Exception = 0x21,
}

fn end(exit: Exit, report: impl FnOnce(&mut Console) -> fmt::Result) -> ! {
    // A fault during a report resets at once.
    if DEPTH.fetch_add(1, Relaxed) > 0 {
        reset();
    }
    Vga.clear();
    let mut to = Console::alarm();
    let stops = STOPS.load(Relaxed);
    let _ = writeln!(to, "\nRingway cannot go on.").and_then(|()| report(&mut to)).and_then(|()| {
        writeln!(to, "{}", if stops { "The machine stops." } else { "The machine resets in 3 seconds." })
    });
    if stops {
        exit_emulator(exit as u8);
        halt();
    }
    clock::wait(Duration::from_secs(3));
    reset();
}

fn report(to: &mut Console, exception: &Exception, address: u64) -> fmt::Result {
    let e = exception;
    let name = usize::try_from(e.vector).ok().and_then(|vector| NAMES.get(vector)).unwrap_or(&"unknown");
    writeln!(to, "exception {} ({name}), error code {:#x}, at rip {:#x}", e.vector, e.error_code, e.rip)?;
    if e.vector == PAGE_FAULT {
        let deed = match e.error_code {
            code if code & 16 != 0 => "run",
            code if code & 2 != 0 => "written",
            _ => "read",
        };
        writeln!(to, "address {address:#x} was to be {deed}: {}", meaning(kind_of(address), deed))?;
    }
    // Three registers fit a row of the screen.
    writeln!(to, "rax {:016x} rbx {:016x} rcx {:016x}", e.rax, e.rbx, e.rcx)?;
    writeln!(to, "rdx {:016x} rsi {:016x} rdi {:016x}", e.rdx, e.rsi, e.rdi)?;
    writeln!(to, "rbp {:016x} rsp {:016x} r8  {:016x}", e.rbp, e.rsp, e.r8)?;
    writeln!(to, "r9  {:016x} r10 {:016x} r11 {:016x}", e.r9, e.r10, e.r11)?;
    writeln!(to, "r12 {:016x} r13 {:016x} r14 {:016x}", e.r12, e.r13, e.r14)?;
    writeln!(to, "r15 {:016x} cr2 {address:016x} rflags {:x} cs {:x} ss {:x}", e.r15, e.rflags, e.cs, e.ss)
}

fn meaning(kind: MemoryKind, deed: &str) -> &'static str {
    match kind {
        MemoryKind::Null => "a null pointer, there is no first page",
        MemoryKind::StackGuard => "stack overflow: guard page",
        MemoryKind::Text => "code is read-only",
        MemoryKind::Rodata if deed == "run" => "constants are not executable",
        MemoryKind::Rodata => "constants are read-only",
        MemoryKind::Data | MemoryKind::Mapped if deed == "run" => "data is not executable",
        MemoryKind::Data | MemoryKind::Mapped => "memory that is there",
        MemoryKind::Unmapped => "there is no memory, and no device that a driver asked for",
    }
}

static STOPS: AtomicBool = AtomicBool::new(false);
static DEPTH: AtomicU8 = AtomicU8::new(0);

/// Names of the vectors (Intel SDM volume 3, 6.3.1; AMD APM volume 2, 8.2).
const NAMES: [&str; 32] = [
    "divide error",
    "debug",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack-segment fault",
    "general protection",
    "page fault",
    "reserved",
    "x87 floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point error",
    "virtualization",
    "control protection",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "hypervisor injection",
    "VMM communication",
    "security",
    "reserved",
];

const PAGE_FAULT: u64 = 14;
const KEYBOARD_STATUS: u16 = 0x64;
const RESET_CONTROL: u16 = 0xCF9;
const EXIT_DEVICE: u16 = 0xF4;

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

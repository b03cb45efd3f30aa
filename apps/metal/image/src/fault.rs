//! Panics and exceptions: reported on serial port and screen, then the machine resets after three seconds.

use core::arch::asm;
use core::fmt::{self, Write as _};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use core::time::Duration;

use crate::clock;
use crate::console::Console;
use crate::paging::{MemoryKind, kind_of};
use crate::port::{halt, inb, outb};
use crate::vga::Vga;

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

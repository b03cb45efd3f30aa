//! Symbols that the compiler and the prebuilt core library require of every program.

use core::arch::global_asm;

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("fault.s"));
global_asm!(include_str!("memory.s"));

/// Referenced by unwind tables; panics do not unwind.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Referenced by the core library; panics do not unwind.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    crate::port::halt()
}

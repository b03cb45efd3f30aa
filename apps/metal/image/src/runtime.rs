//! What the compiler and the prebuilt core library want from every program.

use core::arch::global_asm;

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("fault.s"));
global_asm!(include_str!("memory.s"));

/// Named by unwind tables; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Named by the core library; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    crate::port::halt()
}

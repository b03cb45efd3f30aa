//! Deliberate faults (`provoke=NAME` on the command line), to test their reports.

use core::hint::black_box;

use alloc::vec::Vec;

use crate::paging::layout;

/// Provokes the named fault; returns if the name is unknown.
pub(crate) fn provoke(name: &str) {
    match name {
        "panic" => panic!("provoked"),
        "null" => read(8),
        "nothing" => read(0x7000_0000_0000),
        "text" => write(layout().text.start),
        "rodata" => write(layout().rodata.start),
        "run-data" => run(layout().data.start),
        "stack" => {
            black_box(recurse(0));
        }
        "divide" => {
            // SAFETY: this ends in the report of a divide error.
            unsafe { core::arch::asm!("div {0:e}", in(reg) 0, out("eax") _, inout("edx") 0 => _) };
        }
        "memory" => {
            let mut allocations = Vec::new();
            loop {
                allocations.push(black_box(Vec::<u8>::with_capacity(1 << 20)));
            }
        }
        _ => {}
    }
}

fn read(address: u64) {
    // SAFETY: nothing is mapped there, which ends in the report of a page fault.
    black_box(unsafe { (black_box(address) as *const u8).read_volatile() });
}

fn write(address: u64) {
    // SAFETY: it is read-only, which ends in the report of a page fault.
    unsafe { (black_box(address) as *mut u8).write_volatile(0) };
}

fn run(address: u64) {
    // SAFETY: it is not executable, which ends in the report of a page fault.
    let function =
        unsafe { core::mem::transmute::<*const (), extern "C" fn()>(black_box(address) as *const ()) };
    function();
}

#[expect(unconditional_recursion, reason = "this is what it is for")]
fn recurse(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    room[0] + recurse(depth + 1) + room[1]
}

//! Provoked faults: the machine reports the fault and its location, then resets.

use std::time::Instant;

use anyhow::{Result, bail};

use super::booted::Booted;
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};

pub(super) fn checks() -> Vec<Scenario> {
    let fault = |(name, exit, words): (&'static str, i32, &'static [&'static str])| {
        let body = move |stage: &Stage| stopped(stage, &format!("fault=stop provoke={name}"), exit, words);
        Scenario::new(format!("faults/{name}"), body)
    };
    let mut all: Vec<Scenario> = FAULTS.into_iter().map(fault).collect();
    all.push(Scenario::new("faults/reset", reset));
    let memory = |stage: &Stage| stopped(stage, "check=memory", 1, &["are as byte by byte"]);
    all.push(Scenario::new("memory-functions", memory));
    all
}

/// Checks that the machine prints these texts and ends QEMU with this exit status.
fn stopped(stage: &Stage, command_line: &str, exit: i32, words: &[&str]) -> Result<()> {
    let machine =
        Machine::new(Medium::Kernel).with_options(&["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
    let machine = Booted::start(&machine, stage, command_line)?;
    let status = machine.running.wait()?;
    let said = machine.said();
    for word in words {
        if !said.contains(word) {
            bail!("the machine does not say \"{word}\"");
        }
    }
    if status.code() != Some(exit) {
        bail!("QEMU ended with {status}, and {exit} was expected");
    }
    Ok(())
}

/// Checks that the machine resets after its last message; with `-no-reboot` QEMU then ends.
fn reset(stage: &Stage) -> Result<()> {
    let machine = Booted::start(&Machine::new(Medium::Kernel), stage, "provoke=null")?;
    machine.running.wait_for_output("The machine resets in 3 seconds.")?;
    let begun = Instant::now();
    let status = machine.running.wait()?;
    let waited_s = begun.elapsed().as_secs_f64();
    if !status.success() || waited_s < 2.0 {
        bail!("QEMU ended with {status} after {waited_s:.1} s");
    }
    Ok(())
}

/// Arguments of `provoke` in the image, QEMU's exit status, and expected output.
const FAULTS: [(&str, i32, &[&str]); 9] = [
    ("panic", PANIC, &["panic at ", "src/check.rs:", ": provoked"]),
    ("null", EXCEPTION, &["exception 14 (page fault)", " at rip 0x", "a null pointer", "rax "]),
    ("nothing", EXCEPTION, &["address 0x700000000000 was to be read: there is no memory"]),
    ("text", EXCEPTION, &["was to be written: code is read-only"]),
    ("rodata", EXCEPTION, &["was to be written: constants are read-only"]),
    ("run-data", EXCEPTION, &["was to be run: data is not executable"]),
    ("stack", EXCEPTION, &["stack overflow: guard page"]),
    ("divide", EXCEPTION, &["exception 0 (divide error)", " at rip 0x"]),
    ("memory", PANIC, &["panic at ", "allocation"]),
];
/// `isa-debug-exit` returns `2 * code + 1` of the value that `fault.rs` of the image writes.
const PANIC: i32 = 2 * 0x20 + 1;
const EXCEPTION: i32 = 2 * 0x21 + 1;

//! Main loop: runs Receive while there are frames, and Main in between.

use core::time::Duration;

use ringway_ethernet::Worked;
use ringway_metal::{Memory, Program, tables_with};
use ringway_sansio::Seed;

use crate::card::AnyCard;
use crate::keyboard::Keyboard;
use crate::lock::CoreLocks;
use crate::machine::Hardware;
use crate::measure::Measure;
use crate::port::tsc;
use crate::serial::{QUEUE_BYTES, Serial};
use crate::vga::Vga;
use crate::{clock, heap, machine};

/// Starts the machine and runs a program on it for ever.
///
/// # Safety
/// Called once, with the loader's values, on the stack and the page tables of boot.s.
pub unsafe fn run<P: Program<AnyCard>>(magic: u32, information: u32) -> ! {
    // SAFETY: the caller's contract.
    let Hardware { boot, functions, card, card_name, random_seed, tls_seed } =
        unsafe { machine::start(magic, information) };
    let sound = if P::HAS_SOUND { machine::start_sound(&functions) } else { None };
    let found = ringway_metal::Hardware {
        card_name,
        version: env!("CARGO_PKG_VERSION"),
        words: &["check", "fault", "measure", "provoke"],
        seed: random_seed.map(|(bytes, _)| Seed::from_bytes(bytes)),
        tls_seed: tls_seed.map(Seed::from_bytes),
        boot_file: boot.file,
        sound,
        tables: tables_with::<CoreLocks>(),
    };
    let mut program = P::start(card, boot.command_line, found, clock::now());
    let mut measure = boot.value("measure").and_then(Measure::of);
    let mut main_at = clock::now();
    loop {
        let mut worked = Worked::Nothing;
        let (mut taken, begun) = (0, tsc());
        for _ in 0..BURST {
            worked = program.receive(clock::now());
            if worked != Worked::Done {
                break;
            }
            taken += 1;
        }
        program.flush();
        if let Some(measure) = measure.as_mut().filter(|_| taken > 0) {
            measure.note_answered(taken, tsc().saturating_sub(begun));
        }
        let now = clock::now();
        if worked == Worked::Begun || now >= main_at {
            program.run(now, memory());
            if let Some(measure) = measure.as_mut().filter(|_| worked == Worked::Begun) {
                measure.note_begun(program.stream_messages(), tsc().saturating_sub(begun));
            }
            if now >= main_at {
                main_at = now + MAIN_INTERVAL;
                consoles(&mut program);
            }
        }
        core::hint::spin_loop();
    }
}

/// Passes input to the program, draws, and writes output to the serial port.
fn consoles(program: &mut impl Program<AnyCard>) {
    let now = clock::now();
    if let Some(byte) = Keyboard.read() {
        program.on_scan_code(now, byte);
    }
    if let Some(byte) = Serial.read() {
        program.on_serial_byte(now, byte);
    }
    program.draw(now, |cell, word| Vga.put(cell, word));
    let room = Serial.room();
    let mut bytes = [0; QUEUE_BYTES];
    if let Some(bytes) = bytes.get_mut(..room) {
        let count = program.serial_output(bytes);
        Serial.write_some(bytes.get(..count).unwrap_or_default());
    }
}

fn memory() -> Memory {
    let heap = heap::counters();
    Memory {
        used: heap.size.saturating_sub(heap.free) as u64,
        peak: heap.peak as u64,
        limit: heap.size as u64,
        failures: heap.failures,
    }
}

/// Maximum number of frames before the card is notified of replies.
const BURST: usize = 32;

const MAIN_INTERVAL: Duration = Duration::from_millis(1);

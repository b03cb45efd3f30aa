//! Main loop: runs Receive while there are frames, and Main in between; locks of a machine with one core and no thread, which
//! only refuse to be taken twice.

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use ringway_ethernet::Worked;
use ringway_metal::{Memory, Program, tables_with};
use ringway_sansio::{Locked, Locks, Seed};

use crate::card::AnyCard;
use crate::check::Measure;
use crate::console::{Keyboard, QUEUE_BYTES, Serial, Vga};
use crate::machine::{self, Hardware};
use crate::port::tsc;
use crate::{clock, heap};

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
        step_clock: (boot.value("measure") == Some("steps")).then_some(tsc as fn() -> u64),
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

/// Locks of one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreLocks;

struct CoreLock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by `with` alone, which nobody enters while another call is in it.
unsafe impl<T: Send> Sync for CoreLock<T> {}

impl Locks for CoreLocks {
    fn lock<T: Send + Sync + 'static>(value: T) -> Box<dyn Locked<T> + Send + Sync> {
        Box::new(CoreLock { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) })
    }
}

impl<T> CoreLock<T> {
    fn with(&self, change: impl FnOnce(&mut T)) {
        if !self.is_taken.swap(true, Ordering::Acquire) {
            // SAFETY: `is_taken` was false, and is true until the end of this call.
            change(unsafe { &mut *self.value.get() });
            self.is_taken.store(false, Ordering::Release);
        }
    }
}

impl<T> Locked<T> for CoreLock<T> {
    fn read(&self, read: &mut dyn FnMut(&T)) {
        self.with(|value| read(value));
    }

    fn change(&self, change: &mut dyn FnMut(&mut T)) {
        self.with(change);
    }
}

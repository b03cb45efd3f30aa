//! The two tasks on this machine: Receive while there are frames, Main in between.

use core::time::Duration;

use ringway_ethernet::Worked;
use ringway_metal::{Machine, Memory};
use ringway_sansio::Seed;

use crate::card::AnyCard;
use crate::keyboard::Keyboard;
use crate::machine::Hardware;
use crate::serial::{QUEUE_BYTES, Serial};
use crate::vga::Vga;
use crate::{clock, heap};

/// Serves for good.
pub(crate) fn run(hardware: Hardware) -> ! {
    let Hardware { boot, card, card_name, chance } = hardware;
    let found = ringway_metal::Hardware {
        card_name,
        version: env!("CARGO_PKG_VERSION"),
        words: &["check", "fault", "provoke"],
        seed: chance.map(|(bytes, _)| Seed::from_bytes(bytes)),
    };
    let mut machine = Machine::new(card, boot.command_line, found, clock::now());
    let mut main_at = clock::now();
    loop {
        let mut worked = Worked::Nothing;
        for _ in 0..BURST {
            worked = machine.receive(clock::now());
            if worked != Worked::Done {
                break;
            }
        }
        machine.flush();
        let now = clock::now();
        if worked == Worked::Begun || now >= main_at {
            machine.run(now, memory());
            if now >= main_at {
                main_at = now + MAIN_EVERY;
                consoles(&mut machine);
            }
        }
        core::hint::spin_loop();
    }
}

/// Takes keys, draws, and gives the serial line what it has room for.
fn consoles(machine: &mut Machine<AnyCard>) {
    let now = clock::now();
    if let Some(byte) = Keyboard.read() {
        machine.on_scan_code(now, byte);
    }
    if let Some(byte) = Serial.read() {
        machine.on_serial_byte(now, byte);
    }
    machine.draw(now, |place, word| Vga.put(place, word));
    let room = Serial.room();
    let mut bytes = [0; QUEUE_BYTES];
    if let Some(bytes) = bytes.get_mut(..room) {
        let count = machine.serial_output(bytes);
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

/// Frames before the card is told of what was sent.
const BURST: usize = 32;

const MAIN_EVERY: Duration = Duration::from_millis(1);

//! AC'97 audio of Intel's first I/O hubs (82801AA to 82801CA, ICH to ICH3), polled.
//!
//! Intel, "82801AA (ICH) and 82801AB (ICH0) I/O Controller Hub", 13 (AC'97 audio): two engines, each with a ring of 32
//! buffers in memory. "Audio Codec '97", revision 2.3: the codec's registers. The codec must support variable rate
//! audio; codecs with a fixed rate of 48,000 samples/s are not supported.
//!
//! Samples are 8,000/s, the same on both output channels; of the microphone's channels the left one is used.

use alloc::boxed::Box;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;

use ringway_metal::SoundCard;

use crate::card::pages;
use crate::clock;
use crate::pci::{self, Function};
use crate::port::{inb, inl, inw, outb, outl, outw};

/// A running sound card.
#[derive(Debug)]
pub(crate) struct Ac97 {
    out: Engine,
    input: Engine,
    name: &'static str,
}

/// Error of [`Ac97::start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoundError {
    /// The firmware assigned no I/O ports.
    Bus,
    /// The codec does not become ready, or does not answer.
    Codec,
    /// An engine does not complete its reset.
    Engine,
    /// The codec does not support 8,000 samples/s.
    Rate,
    /// No memory for the buffers.
    Memory,
}

impl fmt::Display for SoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bus => "the BIOS assigned no usable address: enable sound in the BIOS setup",
            Self::Codec => "its codec does not start: power the machine off and on",
            Self::Engine => "it does not start: power the machine off and on",
            Self::Rate => "its codec does not support 8,000 samples/s",
            Self::Memory => "there is not enough memory for its buffers",
        })
    }
}

impl Ac97 {
    /// Name of the sound card, if it is supported.
    pub(crate) fn name(function: &Function) -> Option<&'static str> {
        match (function.is.vendor_id, function.is.device_id) {
            (0x8086, 0x2415) => Some("Intel 82801AA AC97"),
            (0x8086, 0x2425) => Some("Intel 82801AB AC97"),
            (0x8086, 0x2445) => Some("Intel 82801BA AC97"),
            (0x8086, 0x2485) => Some("Intel 82801CA AC97"),
            _ => None,
        }
    }

    /// Resets and configures the card. `None`: it is not supported.
    pub(crate) fn start(function: &Function) -> Option<Result<Box<dyn SoundCard>, SoundError>> {
        let name = Self::name(function)?;
        Some(Self::set_up(function, name).map(|card| Box::new(card) as Box<dyn SoundCard>))
    }

    fn set_up(function: &Function, name: &'static str) -> Result<Self, SoundError> {
        let bar = |index| pci::port_bar(function.at, index).ok_or(SoundError::Bus);
        let (codec, master) = (bar(0)?, bar(1)?);
        pci::enable(function.at);
        // Cold reset: the link's reset line is held for at least a microsecond.
        outl(master + GLOBAL_CONTROL, 0);
        let _held = clock::wait_until(RESET_TIME, || false);
        outl(master + GLOBAL_CONTROL, OUT_OF_RESET);
        if !clock::wait_until(START_TIME_MAX, || inl(master + GLOBAL_STATUS) & CODEC_READY != 0) {
            return Err(SoundError::Codec);
        }
        Mixer { codec, master }.start()?;
        Engine::reset(master + MICROPHONE)?;
        let out = Engine::start(master + OUT)?;
        let mut input = Engine::start(master + IN)?;
        input.run_to(BLOCKS - 1);
        Ok(Self { out, input, name })
    }
}

impl SoundCard for Ac97 {
    fn name(&self) -> &str {
        self.name
    }

    fn queued(&mut self) -> usize {
        let Engine { next, within, .. } = self.out;
        let Position { block, left, is_halted } = self.out.position();
        let ahead = distance(block, next);
        // An incomplete block is not played before it is filled, and does not keep the engine running.
        if is_halted || ahead == 0 { 0 } else { left + (ahead - 1) * BLOCK_SAMPLES + within }
    }

    fn play(&mut self, samples: &[i16]) {
        // A port access takes a microsecond, so the position is read once for all samples.
        let ahead = distance(self.out.position_block(), self.out.next);
        let room = (BLOCKS - 2).saturating_sub(ahead) * BLOCK_SAMPLES;
        samples.iter().take(room).for_each(|&sample| self.out.put(sample));
    }

    fn captured(&mut self) -> usize {
        let Position { block, is_halted, .. } = self.input.position();
        if is_halted {
            // Nothing was read for 300 ms: all captured samples are old.
            (self.input.next, self.input.within) = ((block + 1) % BLOCKS, 0);
        }
        // The block before the current one is the last valid block.
        self.input.run_to((block + BLOCKS - 1) % BLOCKS);
        match distance(self.input.next, block) {
            // The engine has not advanced since it was started.
            blocks if blocks == BLOCKS - 1 => 0,
            blocks => (blocks * BLOCK_SAMPLES).saturating_sub(self.input.within),
        }
    }

    fn capture(&mut self, room: &mut [i16]) -> usize {
        let count = self.captured().min(room.len());
        for sample in room.iter_mut().take(count) {
            *sample = self.input.take();
        }
        count
    }
}

/// Registers of the codec, behind I/O ports. An access takes about 20 µs on the AC-link.
#[derive(Clone, Copy, Debug)]
struct Mixer {
    codec: u16,
    master: u16,
}

impl Mixer {
    fn start(self) -> Result<(), SoundError> {
        self.write(0x00, 0); // reset
        let is_ready =
            || matches!(self.read(POWER), Ok(power) if power & CONVERTERS_READY == CONVERTERS_READY);
        if !clock::wait_until(START_TIME_MAX, is_ready) {
            return Err(SoundError::Codec);
        }
        if self.read(EXTENDED_ID)? & VARIABLE_RATE == 0 {
            return Err(SoundError::Rate);
        }
        let control = self.read(EXTENDED_CONTROL)?;
        self.write(EXTENDED_CONTROL, control | VARIABLE_RATE);
        for rate in [OUT_RATE, IN_RATE] {
            self.write(rate, SAMPLE_RATE_HZ);
            // The codec replaces the rate by the nearest one that it supports.
            if self.read(rate)? != SAMPLE_RATE_HZ {
                return Err(SoundError::Rate);
            }
        }
        for (register, value) in MIXER_SETTINGS {
            self.write(register, value);
        }
        Ok(())
    }

    fn read(self, register: u16) -> Result<u16, SoundError> {
        self.wait();
        // Value of a codec that does not answer.
        let value = inw(self.codec + register);
        if value == u16::MAX { Err(SoundError::Codec) } else { Ok(value) }
    }

    fn write(self, register: u16, value: u16) {
        self.wait();
        outw(self.codec + register, value);
    }

    /// Waits for the end of the previous access. If it does not end, the next read fails.
    fn wait(self) {
        clock::wait_until(ACCESS_TIME_MAX, || inb(self.master + ACCESS) & BUSY == 0);
    }
}

/// One direction: an engine with its ring of blocks.
#[derive(Debug)]
struct Engine {
    ports: u16,
    /// One page of descriptors, then the blocks. Never freed.
    memory: NonNull<u8>,
    /// Block of the next sample.
    next: usize,
    /// Index of the next sample in the block.
    within: usize,
    is_running: bool,
}

/// Position of an engine in its ring.
#[derive(Clone, Copy, Debug)]
struct Position {
    block: usize,
    /// Samples of the block that remain.
    left: usize,
    /// True if the engine has processed all valid blocks.
    is_halted: bool,
}

impl Engine {
    /// Stops the engine and resets its registers; a reset is permitted only while it is stopped.
    fn reset(ports: u16) -> Result<(), SoundError> {
        outb(ports + CONTROL, 0);
        let is_halted = clock::wait_until(START_TIME_MAX, || inw(ports + STATUS) & HALTED != 0);
        outb(ports + CONTROL, RESET);
        let is_reset = clock::wait_until(START_TIME_MAX, || inb(ports + CONTROL) & RESET == 0);
        if is_halted && is_reset { Ok(()) } else { Err(SoundError::Engine) }
    }

    /// Resets the engine and sets its ring.
    fn start(ports: u16) -> Result<Self, SoundError> {
        Self::reset(ports)?;
        let memory = pages(PAGES).ok_or(SoundError::Memory)?;
        let engine = Self { ports, memory, next: 0, within: 0, is_running: false };
        for index in 0..BLOCKS {
            let address = engine.block(index).as_ptr() as u64 as u32;
            let words = [address, BLOCK_SAMPLES as u32 * CHANNELS as u32];
            // SAFETY: the descriptors are in the first page, 8 bytes each, aligned; the engine does not run yet.
            unsafe { engine.memory.cast::<[u32; 2]>().add(index).write_volatile(words) };
        }
        fence(Ordering::SeqCst);
        // The heap is below 4 GiB and identity-mapped.
        outl(ports + RING, memory.as_ptr() as u64 as u32);
        Ok(engine)
    }

    fn position(&self) -> Position {
        // The engine may advance between two reads.
        for _ in 0..3 {
            let block = self.position_block();
            let left = usize::from(inw(self.ports + LEFT)) / CHANNELS;
            let is_halted = inw(self.ports + STATUS) & HALTED != 0;
            if self.position_block() == block {
                return Position { block, left: left.min(BLOCK_SAMPLES), is_halted };
            }
        }
        Position { block: self.position_block(), left: 0, is_halted: false }
    }

    fn position_block(&self) -> usize {
        usize::from(inb(self.ports + CURRENT)) % BLOCKS
    }

    /// Sets the last valid block and starts the engine.
    fn run_to(&mut self, last: usize) {
        fence(Ordering::SeqCst);
        outb(self.ports + LAST_VALID, last as u8);
        if !self.is_running {
            self.is_running = true;
            outb(self.ports + CONTROL, RUN);
        }
    }

    fn put(&mut self, sample: i16) {
        let pointer = self.sample_pointer();
        // SAFETY: the pointer is in the ring; the engine does not read this block before `run_to`.
        unsafe { pointer.write_volatile([sample; CHANNELS]) };
        if self.step() {
            self.run_to((self.next + BLOCKS - 1) % BLOCKS);
        }
    }

    fn take(&mut self) -> i16 {
        // SAFETY: the pointer is in the ring, and any bytes are valid samples.
        let [left, _right] = unsafe { self.sample_pointer().read_volatile() };
        self.step();
        left
    }

    /// Advances to the next sample. True: it is in the next block.
    fn step(&mut self) -> bool {
        self.within += 1;
        if self.within < BLOCK_SAMPLES {
            return false;
        }
        (self.next, self.within) = ((self.next + 1) % BLOCKS, 0);
        true
    }

    fn sample_pointer(&self) -> NonNull<[i16; CHANNELS]> {
        debug_assert!(self.next < BLOCKS && self.within < BLOCK_SAMPLES);
        // SAFETY: both indices are below their limits (`step`), so this is inside the block.
        unsafe { self.block(self.next).cast::<[i16; CHANNELS]>().add(self.within) }
    }

    fn block(&self, index: usize) -> NonNull<u8> {
        // SAFETY: the index is below BLOCKS; the pages have room for all blocks behind the first page.
        unsafe { self.memory.add(PAGE_BYTES + (index % BLOCKS) * BLOCK_BYTES) }
    }
}

/// Number of blocks from one to the other, forwards.
fn distance(from: usize, to: usize) -> usize {
    (to + BLOCKS - from) % BLOCKS
}

const SAMPLE_RATE_HZ: u16 = 8000;
const CHANNELS: usize = 2;
/// Buffers of a ring; fixed by the hardware.
const BLOCKS: usize = 32;
/// 10 ms.
const BLOCK_SAMPLES: usize = 80;
const BLOCK_BYTES: usize = BLOCK_SAMPLES * CHANNELS * 2;
const PAGE_BYTES: usize = 4096;
const PAGES: usize = 1 + (BLOCKS * BLOCK_BYTES).div_ceil(PAGE_BYTES);

/// A codec is ready after some ten milliseconds.
const START_TIME_MAX: Duration = Duration::from_secs(1);
const RESET_TIME: Duration = Duration::from_micros(20);
const ACCESS_TIME_MAX: Duration = Duration::from_millis(1);

// The controller's ports.
const IN: u16 = 0x00;
const OUT: u16 = 0x10;
const MICROPHONE: u16 = 0x20;
const GLOBAL_CONTROL: u16 = 0x2C;
const OUT_OF_RESET: u32 = 1 << 1;
const GLOBAL_STATUS: u16 = 0x30;
const CODEC_READY: u32 = 1 << 8;
/// Reading this register acquires the codec until the next access to it ends.
const ACCESS: u16 = 0x34;
const BUSY: u8 = 1 << 0;

// The ports of one engine.
const RING: u16 = 0x0;
const CURRENT: u16 = 0x4;
const LAST_VALID: u16 = 0x5;
const STATUS: u16 = 0x6;
const HALTED: u16 = 1 << 0;
const LEFT: u16 = 0x8;
const CONTROL: u16 = 0xB;
const RUN: u8 = 1 << 0;
const RESET: u8 = 1 << 1;

// The codec's registers.
const POWER: u16 = 0x26;
/// ADC and DAC.
const CONVERTERS_READY: u16 = 0b11;
const EXTENDED_ID: u16 = 0x28;
const EXTENDED_CONTROL: u16 = 0x2A;
const VARIABLE_RATE: u16 = 1 << 0;
const OUT_RATE: u16 = 0x2C;
const IN_RATE: u16 = 0x32;
/// Master and headphones at -6 dB, PCM output at 0 dB, microphone gain 12 dB and muted in the output mix.
const MIXER_SETTINGS: [(u16, u16); 6] =
    [(0x02, 0x0404), (0x04, 0x0404), (0x18, 0x0808), (0x0E, 0x8008), (0x1A, 0x0000), (0x1C, 0x0808)];

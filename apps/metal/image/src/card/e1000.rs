//! Intel's gigabit cards: 8254x on PCI (QEMU's `e1000` is an 82540EM), 82574L on PCI Express (`e1000e`), and I217 to I219 in
//! chipsets. Legacy descriptors, polled, one queue each way. Registers of Intel's gigabit cards, with the names of the
//! manuals: "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual" (8254x), chapter 13, and "82574
//! GbE Controller Family Datasheet", chapter 10.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;

use ringway_ethernet::{Card, CardCounters, FRAME_BYTES_MAX};

use super::{Buffers, pages};
use super::{CardError, FRAME_BYTES_MIN};
use crate::clock::{wait, wait_until};
use crate::paging::map_device;
use crate::pci::{self, Function};

/// A card of this family.
pub struct E1000 {
    registers: Registers,
    address: [u8; 6],
    receive: Ring,
    /// Receive descriptors returned since the last write of the tail register.
    given_back: usize,
    send: Ring,
    /// First descriptor that may not have been sent yet.
    sent_from: usize,
    /// Frames written since the last write of the tail register.
    unflushed: usize,
    counters: CardCounters,
    /// Sum of the card's own counters, which are cleared by reading.
    damaged: Cell<u64>,
}

/// Variants of the family.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// 82543 to 82546 on PCI.
    Pci,
    /// 82574 and 82583 on PCI Express.
    Express,
    /// Integrated in the chipset; the transceiver is shared with the management firmware.
    Chipset,
}

/// Name of a card of this family.
pub(crate) fn name(vendor: u16, device: u16) -> Option<&'static str> {
    (vendor == INTEL).then(|| kind(device)).flatten().map(|(name, _)| name)
}

impl E1000 {
    /// Resets the card and sets its rings.
    pub(crate) fn start(function: &Function) -> Result<Self, CardError> {
        let (_, generation) = kind(function.is.device_id).ok_or(CardError::Start)?;
        pci::enable(function.at);
        let (address, bytes) = pci::memory_bar(function.at, 0).ok_or(CardError::Bus)?;
        let registers = Registers::at(address, bytes)?;
        reset(&registers, generation)?;
        let address = hardware_address(&registers, generation).ok_or(CardError::Address)?;
        let card = Self {
            registers,
            address,
            receive: Ring::new()?,
            given_back: 0,
            send: Ring::new()?,
            sent_from: 0,
            unflushed: 0,
            counters: CardCounters::default(),
            damaged: Cell::new(0),
        };
        card.set_up(generation);
        Ok(card)
    }

    fn set_up(&self, generation: Generation) {
        let registers = &self.registers;
        let [a, b, c, d, e, f] = self.address;
        registers.write(RAL, u32::from_le_bytes([a, b, c, d]));
        registers.write(RAH, u32::from_le_bytes([e, f, 0, 0]) | RAH_AV);
        let table = if generation == Generation::Chipset { 32 } else { 128 };
        (0..table).for_each(|index| registers.write(MTA + 4 * index, 0));

        self.receive.describe_all();
        let receive = self.receive.address();
        registers.write(RDBAL, receive as u32);
        registers.write(RDBAH, (receive >> 32) as u32);
        registers.write(RDLEN, (RING * DESCRIPTOR_BYTES) as u32);
        registers.write(RDH, 0);
        registers.write(RDT, 0);
        let send = self.send.address();
        registers.write(TDBAL, send as u32);
        registers.write(TDBAH, (send >> 32) as u32);
        registers.write(TDLEN, (RING * DESCRIPTOR_BYTES) as u32);
        registers.write(TDH, 0);
        registers.write(TDT, 0);
        if generation != Generation::Pci {
            registers.set(TXDCTL, TXDCTL_EACH);
        }
        registers.write(TIPG, TIPG_COPPER);
        registers.set(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS);
        registers.write(RCTL, RCTL_EN | RCTL_BAM | RCTL_SECRC);
        // All but one: if the tail equals the head, the ring is empty.
        registers.write(RDT, RING as u32 - 1);
    }

    /// Returns descriptors to the card if there are at least `at_least`.
    fn write_receive_tail(&mut self, at_least: usize) {
        if self.given_back >= at_least {
            self.given_back = 0;
            // The descriptors must be in memory before the card reads them.
            fence(Ordering::SeqCst);
            self.registers.write(RDT, (self.receive.next + RING - 1) as u32 % RING as u32);
        }
    }

    fn write_send_tail(&mut self) {
        if self.unflushed > 0 {
            self.unflushed = 0;
            fence(Ordering::SeqCst);
            self.registers.write(TDT, self.send.next as u32);
        }
    }

    /// Next descriptor with a frame, and the frame's length; invalid frames are counted and their descriptors returned.
    fn next_received(&mut self) -> Option<(usize, usize)> {
        loop {
            let at = self.receive.next;
            let status = self.receive.status(at);
            if status & DONE == 0 {
                return None;
            }
            // Orders the following reads after the read of the status bit.
            fence(Ordering::Acquire);
            let (bytes, errors) = self.receive.received(at);
            let is_whole = status & END_OF_PACKET != 0 && errors & ERRORS == 0;
            if is_whole && (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&bytes) {
                return Some((at, bytes));
            }
            self.counters.damaged += 1;
            self.give_back(at);
        }
    }

    fn give_back(&mut self, at: usize) {
        self.receive.describe(at, 0, 0);
        self.receive.next = (at + 1) % RING;
        self.given_back += 1;
        self.write_receive_tail(NOTIFY_AFTER);
    }

    /// Frees the descriptors of sent frames. True: there is a free descriptor.
    fn reclaim(&mut self) -> bool {
        while self.sent_from != self.send.next && self.send.status(self.sent_from) & DONE != 0 {
            self.sent_from = (self.sent_from + 1) % RING;
        }
        (self.send.next + 1) % RING != self.sent_from
    }
}

impl Card for E1000 {
    fn address(&self) -> [u8; 6] {
        self.address
    }

    fn is_up(&mut self) -> bool {
        self.registers.read(STATUS) & STATUS_LU != 0
    }

    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let Some((at, bytes)) = self.next_received() else {
            self.write_receive_tail(1);
            return None;
        };
        self.counters.received += 1;
        // SAFETY: a completed descriptor belongs to the driver until it is returned below.
        let taken = take(unsafe { &self.receive.buffers.get(at)[..bytes] });
        self.give_back(at);
        Some(taken)
    }

    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let mut has_room = (self.send.next + 1) % RING != self.sent_from || self.reclaim();
        if !has_room {
            self.write_send_tail();
            has_room = self.reclaim();
        }
        if !has_room || bytes > FRAME_BYTES_MAX {
            self.counters.not_sent += 1;
            return false;
        }
        let at = self.send.next;
        // SAFETY: the descriptor is behind the tail, so the card does not read its buffer.
        fill(unsafe { &mut self.send.buffers.get_mut(at)[..bytes] });
        self.send.describe(at, bytes as u16, END_OF_PACKET_AND_REPORT);
        self.send.next = (at + 1) % RING;
        self.unflushed += 1;
        self.counters.sent += 1;
        if self.unflushed >= NOTIFY_AFTER {
            self.write_send_tail();
        }
        true
    }

    fn flush(&mut self) {
        self.write_send_tail();
        self.reclaim();
    }

    fn counters(&self) -> CardCounters {
        let more: u64 = DAMAGED.iter().map(|counter| u64::from(self.registers.read(*counter))).sum();
        self.damaged.set(self.damaged.get() + more);
        CardCounters { damaged: self.counters.damaged + self.damaged.get(), ..self.counters }
    }
}

/// Stops and resets the card except its transceiver, so that the link stays up.
fn reset(registers: &Registers, generation: Generation) -> Result<(), CardError> {
    registers.write(IMC, u32::MAX);
    registers.write(RCTL, 0);
    registers.write(TCTL, TCTL_PSP);
    if generation != Generation::Pci {
        registers.set(CTRL, CTRL_GIO_MASTER_DISABLE);
        // If the card does not stop, it is reset nevertheless.
        wait_until(MASTER_TIME_MAX, || registers.read(STATUS) & STATUS_GIO_MASTER == 0);
    }
    registers.set(CTRL, CTRL_RST);
    // The chipset's card hangs if it is accessed too early.
    wait(if generation == Generation::Chipset { RESET_TIME_CHIPSET } else { RESET_TIME });
    if !wait_until(RESET_TIME_MAX, || registers.read(CTRL) & CTRL_RST == 0) {
        return Err(CardError::Start);
    }
    if generation == Generation::Express {
        // If the bit is not set, `hardware_address` reads the EEPROM itself.
        wait_until(EEPROM_TIME_MAX, || registers.read(EECD) & EECD_AUTO_RD != 0);
    }
    registers.write(IMC, u32::MAX);
    registers.read(ICR);
    let off = CTRL_LRST | CTRL_ILOS | CTRL_FRCSPD | CTRL_FRCDPX | CTRL_FLOW | CTRL_VME | CTRL_PHY_RST;
    registers.write(
        CTRL,
        registers.read(CTRL) & !(off | CTRL_GIO_MASTER_DISABLE) | CTRL_SLU | CTRL_ASDE | CTRL_FD,
    );
    if generation != Generation::Pci {
        registers.set(CTRL_EXT, CTRL_EXT_DRV_LOAD);
    }
    FLOW_CONTROL.iter().for_each(|register| registers.write(*register, 0));
    Ok(())
}

/// The address that the reset loaded, or else the first three words of the EEPROM.
fn hardware_address(registers: &Registers, generation: Generation) -> Option<[u8; 6]> {
    let (low, high) = (registers.read(RAL), registers.read(RAH));
    let is_address = |address: &[u8; 6]| address != &[0; 6] && address[0] & 1 == 0;
    let ([a, b, c, d], [e, f, _, _]) = (low.to_le_bytes(), high.to_le_bytes());
    if high & RAH_AV != 0 && is_address(&[a, b, c, d, e, f]) {
        return Some([a, b, c, d, e, f]);
    }
    let mut address = [0; 6];
    for (word, bytes) in address.chunks_exact_mut(2).enumerate() {
        bytes.copy_from_slice(&eeprom(registers, generation, word as u32)?.to_le_bytes());
    }
    Some(address).filter(is_address)
}

/// Reads a word of the EEPROM. `None`: it does not answer.
fn eeprom(registers: &Registers, generation: Generation, word: u32) -> Option<u16> {
    let (shift, done) = if generation == Generation::Pci { (8, 1 << 4) } else { (2, 1 << 1) };
    registers.write(EERD, word << shift | 1);
    let is_present = wait_until(EEPROM_TIME_MAX, || registers.read(EERD) & done != 0);
    is_present.then(|| (registers.read(EERD) >> 16) as u16)
}

/// Ring of legacy descriptors with their buffers.
struct Ring {
    descriptors: NonNull<Descriptor>,
    buffers: Buffers,
    /// Next descriptor to be used by the driver.
    next: usize,
}

impl Ring {
    fn new() -> Result<Self, CardError> {
        let descriptors =
            pages((RING * DESCRIPTOR_BYTES).div_ceil(super::PAGE_BYTES)).ok_or(CardError::Memory)?;
        let buffers = Buffers::new(RING).ok_or(CardError::Memory)?;
        Ok(Self { descriptors: descriptors.cast(), buffers, next: 0 })
    }

    fn address(&self) -> u64 {
        self.descriptors.as_ptr() as u64
    }

    fn describe_all(&self) {
        (0..RING).for_each(|at| self.describe(at, 0, 0));
    }

    fn describe(&self, at: usize, bytes: u16, command: u8) {
        let address = self.buffers.address(at);
        let descriptor = Descriptor { address, bytes, offset: 0, command, status: 0, errors: 0, special: 0 };
        // SAFETY: the pointer is in the ring, and the descriptor belongs to the driver.
        unsafe { self.pointer(at).write_volatile(descriptor) };
    }

    /// Status byte; bit 0 is set when the card has completed the descriptor.
    fn status(&self, at: usize) -> u8 {
        // SAFETY: the pointer is in the ring, and any byte is valid.
        unsafe { (&raw const (*self.pointer(at)).status).read_volatile() }
    }

    /// Length of a received frame, and its error bits.
    fn received(&self, at: usize) -> (usize, u8) {
        // SAFETY: as above; the card does not write to a completed descriptor.
        let descriptor = unsafe { self.pointer(at).read_volatile() };
        (usize::from(descriptor.bytes), descriptor.errors)
    }

    fn pointer(&self, at: usize) -> *mut Descriptor {
        self.descriptors.as_ptr().wrapping_add(at % RING)
    }
}

/// Legacy descriptor of either ring (8254x manual, 3.2.3 and 3.3.3). Byte 12 is the status in both. Byte 11 is the
/// command for sending and part of the checksum for receiving; byte 13 has the receive errors.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    bytes: u16,
    offset: u8,
    command: u8,
    status: u8,
    errors: u8,
    special: u16,
}

/// Supported cards.
fn kind(device: u16) -> Option<(&'static str, Generation)> {
    Some(match device {
        0x1004 => ("Intel 82543GC", Generation::Pci),
        0x1008 | 0x100C | 0x100D => ("Intel 82544", Generation::Pci),
        0x100E | 0x1015 => ("Intel 82540EM", Generation::Pci),
        0x100F => ("Intel 82545EM", Generation::Pci),
        0x1010 => ("Intel 82546EB", Generation::Pci),
        0x10D3 | 0x10F6 => ("Intel 82574L", Generation::Express),
        0x150C => ("Intel 82583V", Generation::Express),
        0x153A | 0x153B => ("Intel I217", Generation::Chipset),
        0x155A | 0x1559 | 0x15A0..=0x15A3 => ("Intel I218", Generation::Chipset),
        0x156F | 0x1570 | 0x15B7..=0x15BE | 0x15D6..=0x15D8 | 0x15DF..=0x15E3 => {
            ("Intel I219", Generation::Chipset)
        }
        0x0D4C..=0x0D4F | 0x0D53 | 0x0D55 => ("Intel I219", Generation::Chipset),
        _ => return None,
    })
}

const INTEL: u16 = 0x8086;
const RING: usize = 256;
const DESCRIPTOR_BYTES: usize = 16;
/// The tail registers are written after this many descriptors, or at the end of a burst.
const NOTIFY_AFTER: usize = 64;
/// Descriptor done (DD).
const DONE: u8 = 1;
/// End of packet (EOP).
const END_OF_PACKET: u8 = 2;
/// EOP, IFCS (the card adds the frame check sequence), RS (the card reports completion).
const END_OF_PACKET_AND_REPORT: u8 = 1 | 2 | 8;
/// CE, SE, SEQ, CXE, RXE. The checksum bits are ignored, since checksum offload is off.
const ERRORS: u8 = 0x97;
const MASTER_TIME_MAX: Duration = Duration::from_millis(20);
const RESET_TIME: Duration = Duration::from_millis(1);
const RESET_TIME_CHIPSET: Duration = Duration::from_millis(20);
const RESET_TIME_MAX: Duration = Duration::from_millis(50);
const EEPROM_TIME_MAX: Duration = Duration::from_millis(10);

/// Memory-mapped registers of a card.
pub(crate) struct Registers {
    base: NonNull<u8>,
}

impl Registers {
    /// Maps the registers at the address that the firmware assigned.
    pub(crate) fn at(address: u64, bytes: u64) -> Result<Self, CardError> {
        if bytes < REGISTERS_BYTES || !map_device(address, bytes) {
            return Err(CardError::Bus);
        }
        NonNull::new(address as *mut u8).map(|base| Self { base }).ok_or(CardError::Bus)
    }

    /// Reads a register.
    pub(crate) fn read(&self, offset: u32) -> u32 {
        // SAFETY: every offset of this file is within `REGISTERS_BYTES`, which are mapped and belong to the card.
        unsafe { self.base.byte_add(offset as usize).cast::<u32>().read_volatile() }
    }

    /// Writes a register.
    pub(crate) fn write(&self, offset: u32, value: u32) {
        // SAFETY: as in `read`; the driver never frees memory whose address it writes to the card.
        unsafe { self.base.byte_add(offset as usize).cast::<u32>().write_volatile(value) };
    }

    /// Sets bits of a register.
    pub(crate) fn set(&self, offset: u32, bits: u32) {
        self.write(offset, self.read(offset) | bits);
    }
}

/// All registers of this file have smaller offsets.
const REGISTERS_BYTES: u64 = 0x8000;

/// Device control.
pub(crate) const CTRL: u32 = 0x0000;
/// Full duplex.
pub(crate) const CTRL_FD: u32 = 1;
/// No new requests as bus master (PCI Express).
pub(crate) const CTRL_GIO_MASTER_DISABLE: u32 = 1 << 2;
/// Link reset.
pub(crate) const CTRL_LRST: u32 = 1 << 3;
/// Speed detected by the transceiver (auto-speed detection).
pub(crate) const CTRL_ASDE: u32 = 1 << 5;
/// Set link up.
pub(crate) const CTRL_SLU: u32 = 1 << 6;
/// Invert loss of signal.
pub(crate) const CTRL_ILOS: u32 = 1 << 7;
/// Speed set by software.
pub(crate) const CTRL_FRCSPD: u32 = 1 << 11;
/// Duplex set by software.
pub(crate) const CTRL_FRCDPX: u32 = 1 << 12;
/// Resets all but the bus interface; cleared by the card.
pub(crate) const CTRL_RST: u32 = 1 << 26;
/// Flow control in both directions.
pub(crate) const CTRL_FLOW: u32 = 3 << 27;
/// Removes VLAN tags.
pub(crate) const CTRL_VME: u32 = 1 << 30;
/// Resets the transceiver.
pub(crate) const CTRL_PHY_RST: u32 = 1 << 31;
/// Device status.
pub(crate) const STATUS: u32 = 0x0008;
/// Link up.
pub(crate) const STATUS_LU: u32 = 1 << 1;
/// Bus master requests are pending (PCI Express).
pub(crate) const STATUS_GIO_MASTER: u32 = 1 << 19;
/// EEPROM control.
pub(crate) const EECD: u32 = 0x0010;
/// The values that the reset loads from the EEPROM are loaded (82574 and later).
pub(crate) const EECD_AUTO_RD: u32 = 1 << 9;
/// EEPROM read.
pub(crate) const EERD: u32 = 0x0014;
/// Extended device control.
pub(crate) const CTRL_EXT: u32 = 0x0018;
/// Tells the management firmware that a driver is loaded.
pub(crate) const CTRL_EXT_DRV_LOAD: u32 = 1 << 28;
/// Flow control: address, type, timer.
pub(crate) const FLOW_CONTROL: [u32; 4] = [0x0028, 0x002C, 0x0030, 0x0170];
/// Interrupt causes, cleared by reading.
pub(crate) const ICR: u32 = 0x00C0;
/// Interrupt mask clear.
pub(crate) const IMC: u32 = 0x00D8;
/// Receive control.
pub(crate) const RCTL: u32 = 0x0100;
/// Receive enable.
pub(crate) const RCTL_EN: u32 = 1 << 1;
/// Accepts broadcasts.
pub(crate) const RCTL_BAM: u32 = 1 << 15;
/// Strips the frame check sequence.
pub(crate) const RCTL_SECRC: u32 = 1 << 26;
/// Transmit control.
pub(crate) const TCTL: u32 = 0x0400;
/// Transmit enable.
pub(crate) const TCTL_EN: u32 = 1 << 1;
/// Pads short frames.
pub(crate) const TCTL_PSP: u32 = 1 << 3;
/// 15 retries and a collision distance of 64 bytes, as recommended for full duplex and gigabit.
pub(crate) const TCTL_COLLISIONS: u32 = 15 << 4 | 64 << 12;
/// Gaps between frames.
pub(crate) const TIPG: u32 = 0x0410;
/// Recommended values for copper: 8, 8, 6.
pub(crate) const TIPG_COPPER: u32 = 8 | 8 << 10 | 6 << 20;
/// Receive descriptors: address, its upper half, bytes, head, tail.
pub(crate) const RDBAL: u32 = 0x2800;
/// The upper half of [`RDBAL`].
pub(crate) const RDBAH: u32 = 0x2804;
/// Bytes of the ring.
pub(crate) const RDLEN: u32 = 0x2808;
/// Head: the card's index in the ring.
pub(crate) const RDH: u32 = 0x2810;
/// Tail: the driver's index in the ring.
pub(crate) const RDT: u32 = 0x2818;
/// Transmit descriptors, with the same registers.
pub(crate) const TDBAL: u32 = 0x3800;
/// The upper half of [`TDBAL`].
pub(crate) const TDBAH: u32 = 0x3804;
/// Bytes of the ring.
pub(crate) const TDLEN: u32 = 0x3808;
/// Head: the card's index in the ring.
pub(crate) const TDH: u32 = 0x3810;
/// Tail: the driver's index in the ring.
pub(crate) const TDT: u32 = 0x3818;
/// Transmit descriptor control.
pub(crate) const TXDCTL: u32 = 0x3828;
/// Thresholds count descriptors, and each descriptor is written back when it is completed; bit 22 must be set on the
/// 82574 and later.
pub(crate) const TXDCTL_EACH: u32 = 1 << 24 | 1 << 22 | 1 << 16;
/// Counters, cleared by reading: CRC errors, receive errors, missed frames.
pub(crate) const DAMAGED: [u32; 3] = [0x4000, 0x400C, 0x4010];
/// Multicast table.
pub(crate) const MTA: u32 = 0x5200;
/// MAC address, lower four bytes.
pub(crate) const RAL: u32 = 0x5400;
/// MAC address, upper two bytes.
pub(crate) const RAH: u32 = 0x5404;
/// The address is valid.
pub(crate) const RAH_AV: u32 = 1 << 31;

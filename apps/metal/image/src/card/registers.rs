//! Registers of Intel's gigabit cards, with the names of the manuals: "PCI/PCI-X Family of Gigabit Ethernet Controllers
//! Software Developer's Manual" (8254x), chapter 13, and "82574 GbE Controller Family Datasheet", chapter 10.

use core::ptr::NonNull;

use super::CardError;
use crate::paging::map_device;

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

//! PCI bus, through configuration mechanism 1.

use alloc::vec::Vec;

use virtio_drivers::transport::pci::bus::{
    BarInfo, Command, ConfigurationAccess, DeviceFunction, DeviceFunctionInfo, HeaderType, PciRoot,
};

use crate::port::{inl, outl};

/// One function of a device.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// Bus, device and function number.
    pub(crate) at: DeviceFunction,
    /// Vendor, device and class.
    pub(crate) is: DeviceFunctionInfo,
}

/// All functions on the first bus and behind its bridges. `all`: also on buses without a bridge, which takes a second
/// on an emulated processor.
pub(crate) fn functions(all: bool) -> Vec<Function> {
    let mut found = Found { root: root(), functions: Vec::new(), visited: [false; BUSES] };
    found.visit(0);
    if all {
        (0..=u8::MAX).for_each(|bus| found.visit(bus));
    }
    found.functions
}

/// Enables port and memory access and bus mastering of a device; its interrupts stay off.
pub(crate) fn enable(at: DeviceFunction) {
    let mut root = root();
    let (_, command) = root.get_status_command(at);
    root.set_command(
        at,
        command
            | Command::IO_SPACE
            | Command::MEMORY_SPACE
            | Command::BUS_MASTER
            | Command::INTERRUPT_DISABLE,
    );
}

/// Address and size of a memory BAR that the firmware assigned.
pub(crate) fn memory_bar(at: DeviceFunction, index: u8) -> Option<(u64, u64)> {
    match root().bar_info(at, index).ok()?? {
        BarInfo::Memory { address, size, .. } if address != 0 => Some((address, size)),
        BarInfo::Memory { .. } | BarInfo::IO { .. } => None,
    }
}

/// Address of a port BAR that the firmware assigned.
pub(crate) fn port_bar(at: DeviceFunction, index: u8) -> Option<u16> {
    match root().bar_info(at, index).ok()?? {
        BarInfo::IO { address, .. } if address != 0 => u16::try_from(address).ok(),
        BarInfo::IO { .. } | BarInfo::Memory { .. } => None,
    }
}

/// Configuration access for virtio-drivers.
pub(crate) fn root() -> PciRoot<Ports> {
    PciRoot::new(Ports)
}

/// Configuration mechanism 1 (PCI Local Bus Specification 3.0, 3.2.2.3.2): an address port and a data port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports;

impl ConfigurationAccess for Ports {
    fn read_word(&self, at: DeviceFunction, register_offset: u8) -> u32 {
        outl(ADDRESS, address(at, register_offset));
        inl(DATA)
    }

    fn write_word(&mut self, at: DeviceFunction, register_offset: u8, data: u32) {
        outl(ADDRESS, address(at, register_offset));
        outl(DATA, data);
    }

    unsafe fn unsafe_clone(&self) -> Self {
        *self
    }
}

struct Found {
    root: PciRoot<Ports>,
    functions: Vec<Function>,
    visited: [bool; BUSES],
}

impl Found {
    fn visit(&mut self, bus: u8) {
        if core::mem::replace(&mut self.visited[usize::from(bus)], true) {
            return;
        }
        let on_bus: Vec<_> = self.root.enumerate_bus(bus).collect();
        for (at, is) in on_bus {
            let is_bridge = matches!(is.header_type, HeaderType::PciPciBridge);
            self.functions.push(Function { at, is });
            if is_bridge {
                let secondary = (self.root_word(at, BUS_NUMBERS) >> 8) as u8;
                // Zero: the firmware assigned no bus to this bridge.
                if secondary != 0 {
                    self.visit(secondary);
                }
            }
        }
    }

    fn root_word(&self, at: DeviceFunction, register_offset: u8) -> u32 {
        Ports.read_word(at, register_offset)
    }
}

fn address(at: DeviceFunction, register_offset: u8) -> u32 {
    1 << 31
        | u32::from(at.bus) << 16
        | u32::from(at.device) << 11
        | u32::from(at.function) << 8
        | u32::from(register_offset & 0xFC)
}

const BUSES: usize = 256;
const ADDRESS: u16 = 0xCF8;
const DATA: u16 = 0xCFC;
/// Primary, secondary and subordinate bus of a bridge.
const BUS_NUMBERS: u8 = 0x18;

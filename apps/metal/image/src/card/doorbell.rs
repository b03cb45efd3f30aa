//! A virtio device whose doorbell rings once for many frames.
//!
//! virtio-drivers notifies the device for every buffer. Here that is only noted; [`Doorbell::ring`] does it.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use virtio_drivers::transport::pci::PciTransport;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{PhysAddr, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The way to a device; its clones are the same way.
#[derive(Clone)]
pub(crate) struct Doorbell(Rc<Shared>);

struct Shared {
    transport: RefCell<PciTransport>,
    /// A bit for each queue that is to be notified.
    noted: Cell<u32>,
    features: Cell<u64>,
}

impl Doorbell {
    /// Around the device's own transport.
    pub(crate) fn new(transport: PciTransport) -> Self {
        Self(Rc::new(Shared {
            transport: RefCell::new(transport),
            noted: Cell::new(0),
            features: Cell::new(0),
        }))
    }

    /// Notifies the device of a queue, if anything was noted for it.
    pub(crate) fn ring(&self, queue: u16) {
        let (noted, bit) = (self.0.noted.get(), 1 << queue);
        if noted & bit != 0 {
            self.0.noted.set(noted & !bit);
            self.0.transport.borrow_mut().notify(queue);
        }
    }

    /// True where driver and device agreed on a feature, named by its bit.
    pub(crate) fn has_feature(&self, bit: u32) -> bool {
        self.0.features.get() & (1 << bit) != 0
    }
}

impl Transport for Doorbell {
    fn device_type(&self) -> DeviceType {
        self.0.transport.borrow().device_type()
    }

    fn read_device_features(&mut self) -> u64 {
        // Without event indices: with them, virtio-drivers 0.13 loses a notification when the index wraps. Without indirect
        // descriptors: every frame is one buffer.
        self.0.transport.borrow_mut().read_device_features() & !(RING_EVENT_IDX | RING_INDIRECT_DESC)
    }

    fn write_driver_features(&mut self, driver_features: u64) {
        self.0.features.set(driver_features);
        self.0.transport.borrow_mut().write_driver_features(driver_features);
    }

    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.0.transport.borrow_mut().max_queue_size(queue)
    }

    fn notify(&mut self, queue: u16) {
        self.0.noted.set(self.0.noted.get() | 1 << queue);
    }

    fn get_status(&self) -> DeviceStatus {
        self.0.transport.borrow().get_status()
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.0.transport.borrow_mut().set_status(status);
    }

    fn set_guest_page_size(&mut self, guest_page_size: u32) {
        self.0.transport.borrow_mut().set_guest_page_size(guest_page_size);
    }

    fn requires_legacy_layout(&self) -> bool {
        self.0.transport.borrow().requires_legacy_layout()
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        self.0.transport.borrow_mut().queue_set(queue, size, descriptors, driver_area, device_area);
    }

    fn queue_unset(&mut self, queue: u16) {
        self.0.transport.borrow_mut().queue_unset(queue);
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.0.transport.borrow_mut().queue_used(queue)
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        self.0.transport.borrow_mut().ack_interrupt()
    }

    fn read_config_generation(&self) -> u32 {
        self.0.transport.borrow().read_config_generation()
    }

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T> {
        self.0.transport.borrow().read_config_space(offset)
    }

    fn write_config_space<T: IntoBytes + Immutable>(&mut self, offset: usize, value: T) -> Result<()> {
        self.0.transport.borrow_mut().write_config_space(offset, value)
    }
}

const RING_INDIRECT_DESC: u64 = 1 << 28;
const RING_EVENT_IDX: u64 = 1 << 29;

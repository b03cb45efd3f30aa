//! virtio transport that notifies the device once for many frames.
//!
//! virtio-drivers notifies the device for every buffer. This transport records the notification; [`Doorbell::ring`]
//! sends it.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use virtio_drivers::transport::pci::PciTransport;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{PhysAddr, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Shared transport of a device.
#[derive(Clone)]
pub(crate) struct Doorbell(Rc<Shared>);

struct Shared {
    transport: RefCell<PciTransport>,
    /// One bit for each queue with a pending notification.
    pending: Cell<u32>,
    features: Cell<u64>,
}

impl Doorbell {
    /// Wraps the device's transport.
    pub(crate) fn new(transport: PciTransport) -> Self {
        Self(Rc::new(Shared {
            transport: RefCell::new(transport),
            pending: Cell::new(0),
            features: Cell::new(0),
        }))
    }

    /// Notifies the device of a queue if a notification is pending.
    pub(crate) fn ring(&self, queue: u16) {
        let (pending, bit) = (self.0.pending.get(), 1 << queue);
        if pending & bit != 0 {
            self.0.pending.set(pending & !bit);
            self.0.transport.borrow_mut().notify(queue);
        }
    }

    /// True if a feature was negotiated, by its bit number.
    pub(crate) fn has_feature(&self, bit: u32) -> bool {
        self.0.features.get() & (1 << bit) != 0
    }
}

impl Transport for Doorbell {
    fn device_type(&self) -> DeviceType {
        self.0.transport.borrow().device_type()
    }

    fn read_device_features(&mut self) -> u64 {
        // Event indices are disabled because virtio-drivers 0.13 loses a notification when the index wraps; indirect
        // descriptors because every frame is one buffer.
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
        self.0.pending.set(self.0.pending.get() | 1 << queue);
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

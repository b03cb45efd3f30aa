//! virtio-net (OASIS Virtio 1.2, 5.1), the network card of virtual machines. virtio transport that notifies the device once
//! for many frames.
//!
//! virtio-drivers notifies the device for every buffer. This transport records the notification; [`Doorbell::ring`]
//! sends it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;

use ringway_ethernet::{Card, CardCounters, FRAME_BYTES_MAX};
use virtio_drivers::PhysAddr;
use virtio_drivers::device::net::VirtIONetRaw;
use virtio_drivers::transport::pci::PciTransport;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Buffers, Identity};
use super::{CardError, FRAME_BYTES_MIN};
use crate::pci::{self, Function};

/// A virtio-net device with one queue in each direction.
pub struct VirtioNet {
    device: Box<VirtIONetRaw<Identity, Doorbell, QUEUE>>,
    doorbell: Doorbell,
    counters: CardCounters,
    receive_buffers: Buffers,
    /// For each descriptor that the device owns: its buffer.
    receiving: Box<[u16; QUEUE]>,
    /// Buffers returned since the last notification.
    given_back: usize,
    send_buffers: Buffers,
    /// For each descriptor that the device owns: its buffer and length.
    sending: Box<[Sending; QUEUE]>,
    free: Vec<u16>,
    /// Frames written since the last notification.
    unflushed: usize,
    /// Length of the header before each frame.
    header_bytes: usize,
}

impl VirtioNet {
    /// Resets the device and gives it its buffers.
    pub(crate) fn start(function: &Function) -> Result<Self, CardError> {
        pci::enable(function.at);
        let transport =
            PciTransport::new::<Identity, _>(&mut pci::root(), function.at).map_err(|_| CardError::Bus)?;
        let doorbell = Doorbell::new(transport);
        let mut device = Box::new(VirtIONetRaw::new(doorbell.clone()).map_err(|_| CardError::Start)?);
        device.disable_interrupts();
        let mut send_buffers = Buffers::new(QUEUE).ok_or(CardError::Memory)?;
        let mut header_bytes = 0;
        for index in 0..QUEUE {
            // SAFETY: the device does not have this buffer yet.
            let buffer = unsafe { send_buffers.get_mut(index) };
            header_bytes = device.fill_buffer_header(buffer).map_err(|_| CardError::Start)?;
        }
        let mut card = Self {
            device,
            doorbell,
            counters: CardCounters::default(),
            receive_buffers: Buffers::new(QUEUE).ok_or(CardError::Memory)?,
            receiving: Box::new([0; QUEUE]),
            given_back: 0,
            send_buffers,
            sending: Box::new([Sending::default(); QUEUE]),
            free: (0..QUEUE as u16).collect(),
            unflushed: 0,
            header_bytes,
        };
        for index in 0..QUEUE {
            if !card.give_back(index) {
                return Err(CardError::Start);
            }
        }
        card.doorbell.ring(RECEIVE);
        Ok(card)
    }

    /// Gives a receive buffer to the device.
    fn give_back(&mut self, index: usize) -> bool {
        // SAFETY: the device does not own this buffer, and it is not used until `receive_complete`.
        let token = unsafe {
            let buffer = self.receive_buffers.get_mut(index);
            self.device.receive_begin(buffer)
        };
        let Some(slot) = token.ok().and_then(|token| self.receiving.get_mut(usize::from(token))) else {
            return false;
        };
        *slot = index as u16;
        self.given_back += 1;
        true
    }

    /// Next buffer with a frame, and the frame's range; invalid frames are counted and their buffers returned.
    fn next_received(&mut self) -> Option<(usize, Range<usize>)> {
        while let Some(token) = self.device.poll_receive() {
            let index = usize::from(*self.receiving.get(usize::from(token))?);
            // SAFETY: the token belongs to this buffer, which the device has released.
            let received = unsafe {
                let buffer = self.receive_buffers.get_mut(index);
                self.device.receive_complete(token, buffer)
            };
            match received {
                Ok((header, bytes)) if (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&bytes) => {
                    return Some((index, header..header + bytes));
                }
                Ok(_) | Err(_) => {
                    self.counters.damaged += 1;
                    self.give_back(index);
                }
            }
        }
        None
    }

    fn notify_send(&mut self) {
        self.unflushed = 0;
        self.doorbell.ring(SEND);
    }

    /// Takes back the buffers of sent frames.
    fn reclaim(&mut self) {
        while let Some(token) = self.device.poll_transmit() {
            let Some(&Sending { buffer, bytes }) = self.sending.get(usize::from(token)) else { return };
            // SAFETY: the token belongs to this buffer, which the device has released.
            let completed = unsafe {
                let sent = &self.send_buffers.get(usize::from(buffer))[..usize::from(bytes)];
                self.device.transmit_complete(token, sent)
            };
            if completed.is_err() {
                return;
            }
            self.free.push(buffer);
        }
    }
}

impl Card for VirtioNet {
    fn address(&self) -> [u8; 6] {
        self.device.mac_address()
    }

    fn is_up(&mut self) -> bool {
        // Without the feature the link is always up.
        !self.doorbell.has_feature(FEATURE_STATUS)
            || self.doorbell.read_config_space::<u16>(CONFIG_STATUS).is_ok_and(|status| status & LINK_UP != 0)
    }

    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let Some((index, range)) = self.next_received() else {
            self.given_back = 0;
            self.doorbell.ring(RECEIVE);
            return None;
        };
        self.counters.received += 1;
        // SAFETY: the device has released this buffer, and gets it back below.
        let taken = take(unsafe { &self.receive_buffers.get(index)[range] });
        self.give_back(index);
        if self.given_back >= NOTIFY_AFTER {
            self.given_back = 0;
            self.doorbell.ring(RECEIVE);
        }
        Some(taken)
    }

    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if self.free.is_empty() {
            self.notify_send();
            self.reclaim();
        }
        let buffer = match self.free.pop() {
            Some(buffer) if bytes <= FRAME_BYTES_MAX => buffer,
            Some(buffer) => {
                self.free.push(buffer);
                self.counters.not_sent += 1;
                return false;
            }
            None => {
                self.counters.not_sent += 1;
                return false;
            }
        };
        let all = self.header_bytes + bytes;
        // SAFETY: the device does not own a free buffer; after `transmit_begin` it is not used until `reclaim`.
        let token = unsafe {
            let room = &mut self.send_buffers.get_mut(usize::from(buffer))[..all];
            fill(&mut room[self.header_bytes..]);
            self.device.transmit_begin(room)
        };
        let Some(sending) = token.ok().and_then(|token| self.sending.get_mut(usize::from(token))) else {
            self.counters.not_sent += 1;
            return false;
        };
        *sending = Sending { buffer, bytes: all as u16 };
        self.counters.sent += 1;
        self.unflushed += 1;
        if self.unflushed >= NOTIFY_AFTER {
            self.notify_send();
        }
        true
    }

    fn flush(&mut self) {
        self.notify_send();
        self.reclaim();
    }

    fn counters(&self) -> CardCounters {
        self.counters
    }
}

/// A send buffer that the device owns.
#[derive(Clone, Copy, Default)]
struct Sending {
    buffer: u16,
    bytes: u16,
}

/// Descriptors of each queue; QEMU's default.
const QUEUE: usize = 256;
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// The device is notified after this many buffers, or when there is nothing more to receive, or at the end of a burst.
const NOTIFY_AFTER: usize = 64;

/// VIRTIO_NET_F_STATUS.
const FEATURE_STATUS: u32 = 16;
/// Offset of the status in the device's configuration space.
const CONFIG_STATUS: usize = 6;
const LINK_UP: u16 = 1;

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

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> virtio_drivers::Result<T> {
        self.0.transport.borrow().read_config_space(offset)
    }

    fn write_config_space<T: IntoBytes + Immutable>(
        &mut self,
        offset: usize,
        value: T,
    ) -> virtio_drivers::Result<()> {
        self.0.transport.borrow_mut().write_config_space(offset, value)
    }
}

const RING_INDIRECT_DESC: u64 = 1 << 28;
const RING_EVENT_IDX: u64 = 1 << 29;

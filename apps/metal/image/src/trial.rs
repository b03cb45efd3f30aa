//! A trial of the cards: takes an address by DHCP, answers ARP and ICMP echo, and sends back what comes to UDP port 5060 (or
//! `echo=PORT` of the command line).

use alloc::vec;
use alloc::vec::Vec;

use ringway_ethernet::{Card, FRAME_BYTES_MAX};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{dhcpv4, udp};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

use crate::card::AnyCard;
use crate::keyboard::Keyboard;
use crate::machine::Hardware;
use crate::serial::Serial;
use crate::{clock, heap, say};

/// Runs for good.
pub(crate) fn run(mut hardware: Hardware) -> ! {
    let address = EthernetAddress(hardware.card.address());
    let mut config = Config::new(HardwareAddress::Ethernet(address));
    config.random_seed =
        hardware.chance.map_or(0, |(seed, _)| seed.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
    let mut device = Adapter { card: &mut hardware.card };
    let mut interface = Interface::new(config, &mut device, now());
    let buffer = |bytes| udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 512], vec![0; bytes]);
    let mut echo = udp::Socket::new(buffer(1 << 20), buffer(1 << 20));
    let mut dhcp = dhcpv4::Socket::new();
    let mut retry = dhcpv4::RetryConfig::default();
    retry.discover_timeout = Duration::from_millis(500);
    dhcp.set_retry_config(retry);
    let port = hardware.boot.value("echo").and_then(|port| port.parse().ok()).unwrap_or(5060);
    if let Err(error) = echo.bind(port) {
        panic!("port {port} cannot be bound: {error}");
    }
    let mut sockets = SocketSet::new(vec![]);
    let (dhcp, echo) = (sockets.add(dhcp), sockets.add(echo));
    loop {
        interface.poll(now(), &mut device, &mut sockets);
        device.card.flush();
        match sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll() {
            Some(dhcpv4::Event::Configured(lease)) => {
                say!("dhcp: {} after {} ms", lease.address, clock::nanos_since_reset() / 1_000_000);
                interface.update_ip_addrs(|addresses| {
                    addresses.clear();
                    // There is room for one: the list was just emptied.
                    let _ = addresses.push(IpCidr::Ipv4(lease.address));
                });
                if let Some(router) = lease.router {
                    let _ = interface.routes_mut().add_default_ipv4_route(router);
                }
                let heap = heap::counters();
                say!(
                    "heap: {} bytes, {} free, {} at most, {} failures",
                    heap.size,
                    heap.free,
                    heap.peak,
                    heap.failures
                );
            }
            Some(dhcpv4::Event::Deconfigured) => interface.update_ip_addrs(|addresses| addresses.clear()),
            None => {}
        }
        if let Some(byte) = Serial.read() {
            say!("serial port: {byte:#04x}");
        }
        if let Some(code) = Keyboard.read() {
            say!("keyboard: {code:#04x}, frames on {}: {:?}", hardware.card_name, device.card.counters());
        }
        let echo = sockets.get_mut::<udp::Socket<'_>>(echo);
        while echo.can_recv() && echo.can_send() {
            let Ok((bytes, from)) = echo.recv().map(|(bytes, from)| (bytes.to_vec(), from)) else { break };
            let _ = echo.send_slice(&bytes, from.endpoint);
        }
    }
}

fn now() -> Instant {
    Instant::from_millis(clock::now().as_millis() as i64)
}

struct Adapter<'c> {
    card: &'c mut AnyCard,
}

struct Received(Vec<u8>);

struct Sending<'c>(&'c mut AnyCard);

impl Device for Adapter<'_> {
    type RxToken<'t>
        = Received
    where
        Self: 't;
    type TxToken<'t>
        = Sending<'t>
    where
        Self: 't;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let frame = self.card.receive(<[u8]>::to_vec)?;
        Some((Received(frame), Sending(self.card)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(self.card))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES_MAX;
        capabilities.checksum.udp = Checksum::Both;
        capabilities
    }
}

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, fill: F) -> R {
        let mut frame = vec![0; bytes];
        let result = fill(&mut frame);
        self.0.send(bytes, |room| room.copy_from_slice(&frame));
        result
    }
}

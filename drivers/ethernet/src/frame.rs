//! Frames: what came, without a copy; and a datagram written straight into a card's room.

use crate::FRAME_BYTES_MAX;
use crate::checksum::Sum;
use core::net::{Ipv4Addr, SocketAddrV4};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket,
};

/// What a frame is, as far as it decides who takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived<'f> {
    /// A whole UDP datagram for one of our ports, its checksums right.
    Datagram { from: SocketAddrV4, port: u16, bytes: &'f [u8] },
    /// ARP that says which hardware address an IP address has, from a sender that asked us or answers us.
    Neighbour { address: Ipv4Addr, hardware: EthernetAddress },
    /// From a DHCP server, to an address that may not be ours yet.
    Dhcp,
    /// Something for the stack: fragments, TCP, ICMP, DNS, ARP for others.
    Other,
    /// Not for us: another station's, or a packet to another address or to everybody.
    Foreign,
    /// Damaged: lengths or checksums are wrong.
    Damaged,
}

/// What we are on this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) hardware: EthernetAddress,
    /// `None`: no address yet.
    pub(crate) address: Option<Ipv4Addr>,
    /// The first and the last address of the link, which no station has.
    pub(crate) all: Option<[Ipv4Addr; 2]>,
}

/// Looks at a frame. `is_ours` says whether datagrams to a port are taken here.
pub(crate) fn look<'f>(frame: &'f [u8], own: Own, is_ours: impl Fn(u16) -> bool) -> Arrived<'f> {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return Arrived::Damaged };
    let to = ethernet.dst_addr();
    if to != own.hardware && !to.is_broadcast() && to.is_unicast() {
        return Arrived::Foreign;
    }
    match ethernet.ethertype() {
        EthernetProtocol::Arp => look_at_arp(ethernet.payload(), own),
        EthernetProtocol::Ipv4 if to == own.hardware => look_at_ip(ethernet.payload(), own, is_ours),
        EthernetProtocol::Ipv4 => look_at_broadcast(ethernet.payload(), own),
        EthernetProtocol::Ipv6 | EthernetProtocol::Unknown(_) => Arrived::Foreign,
    }
}

/// DHCP may answer so. RFC 1122 §3.3.6: what is sent to everyone on the link but to one address is for nobody. §3.2.2.6: an echo
/// request to everybody need not be answered, and whoever sends one may be after somebody else.
fn look_at_broadcast(payload: &[u8], own: Own) -> Arrived<'_> {
    match Ipv4Packet::new_checked(payload) {
        Ok(packet) if own.address.is_none() => kind_before_address(&packet),
        Ok(packet) if own.address != Some(packet.dst_addr()) && is_from_dhcp(&packet) => Arrived::Dhcp,
        Ok(_) => Arrived::Foreign,
        Err(_) => Arrived::Damaged,
    }
}

fn look_at_ip<'f>(payload: &'f [u8], own: Own, is_ours: impl Fn(u16) -> bool) -> Arrived<'f> {
    let Ok(packet) = Ipv4Packet::new_checked(payload) else { return Arrived::Damaged };
    let Some(address) = own.address else { return kind_before_address(&packet) };
    if packet.version() != 4 || !packet.verify_checksum() {
        return Arrived::Damaged;
    }
    let (source, destination) = (packet.src_addr(), packet.dst_addr());
    // RFC 1122 §3.2.1.3: nobody sends from these.
    if !is_station(source) || source == address || own.all.is_some_and(|all| all.contains(&source)) {
        return Arrived::Damaged;
    }
    let is_udp = packet.next_header() == IpProtocol::Udp;
    if is_udp && is_from_dhcp(&packet) {
        return Arrived::Dhcp;
    }
    if destination != address {
        return Arrived::Foreign;
    }
    if !is_udp || packet.more_frags() || packet.frag_offset() != 0 {
        return Arrived::Other;
    }
    let Ok(datagram) = UdpPacket::new_checked(packet.payload()) else { return Arrived::Damaged };
    let port = datagram.dst_port();
    if !is_ours(port) {
        return Arrived::Other;
    }
    let summed = || packet.payload().get(..usize::from(datagram.len())).unwrap_or_default();
    let is_whole = || Sum::udp(source, destination, datagram.len()).with(summed()).is_right();
    if datagram.checksum() != 0 && !is_whole() {
        return Arrived::Damaged;
    }
    // It cannot be answered.
    if datagram.src_port() == 0 {
        return Arrived::Damaged;
    }
    Arrived::Datagram {
        from: SocketAddrV4::new(source, datagram.src_port()),
        port,
        bytes: datagram.payload(),
    }
}

/// Without an address there is nothing but DHCP, fragments of it included.
fn kind_before_address<'f>(packet: &Ipv4Packet<&[u8]>) -> Arrived<'f> {
    if is_from_dhcp(packet) { Arrived::Dhcp } else { Arrived::Other }
}

/// RFC 2131 §4.1: true for a datagram from a server's port to a client's, and for its first fragment. One that ends before its
/// ports is none that anybody sends, and counts as one.
fn is_from_dhcp(packet: &Ipv4Packet<&[u8]>) -> bool {
    packet.next_header() == IpProtocol::Udp
        && packet.frag_offset() == 0
        && packet.payload().get(..PORTS_BYTES).is_none_or(|ports| ports == [0, DHCP_SERVER, 0, DHCP_CLIENT])
}

/// True for a frame of ours with a question to a DHCP server.
pub(crate) fn is_to_dhcp(frame: &[u8]) -> bool {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return false };
    let packet = Ipv4Packet::new_checked(ethernet.payload());
    ethernet.ethertype() == EthernetProtocol::Ipv4
        && packet.is_ok_and(|packet| {
            packet.next_header() == IpProtocol::Udp
                && packet.payload().get(..PORTS_BYTES) == Some(&[0, DHCP_CLIENT, 0, DHCP_SERVER])
        })
}

fn look_at_arp<'f>(payload: &'f [u8], own: Own) -> Arrived<'f> {
    let packet = ArpPacket::new_checked(payload);
    let Ok(ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: hardware,
        source_protocol_addr: address,
        target_protocol_addr: target,
        ..
    }) = packet.and_then(|packet| ArpRepr::parse(&packet))
    else {
        return Arrived::Damaged;
    };
    let is_for_us =
        own.address == Some(target) && matches!(operation, ArpOperation::Request | ArpOperation::Reply);
    if is_for_us && hardware.is_unicast() && hardware != own.hardware && is_station(address) {
        Arrived::Neighbour { address, hardware }
    } else {
        Arrived::Other
    }
}

/// True for an address that one machine can have.
fn is_station(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast() || address.is_loopback())
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'p> {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) payload: &'p [u8],
}

impl Datagram<'_> {
    /// The bytes of its one frame; `None`: it needs fragments.
    pub(crate) fn frame_bytes(&self) -> Option<usize> {
        Some(HEADERS_BYTES + self.payload.len()).filter(|bytes| *bytes <= FRAME_BYTES_MAX)
    }

    /// Writes its one frame into `room`, which is as long as [`Datagram::frame_bytes`] says.
    pub(crate) fn write(&self, room: &mut [u8], own: EthernetAddress, next_hop: EthernetAddress, ident: u16) {
        write_ethernet(room, own, next_hop, EthernetProtocol::Ipv4);
        let Some(packet) = room.get_mut(ETHERNET_BYTES..) else { return };
        self.write_ip(packet, UDP_BYTES + self.payload.len(), Part { ident, offset: 0, is_last: true });
        if let Some(datagram) = packet.get_mut(IP_BYTES..) {
            self.write_udp(datagram);
        }
    }

    /// Writes the datagram that [`Datagram::fragments`] cuts, with its checksum over all.
    pub(crate) fn write_whole(&self, room: &mut alloc::vec::Vec<u8>) {
        room.clear();
        room.resize(UDP_BYTES + self.payload.len(), 0);
        self.write_udp(room);
    }

    /// Cuts what [`Datagram::write_whole`] wrote into fragments (RFC 791 §3.2): offset, bytes and whether it is the last.
    pub(crate) fn fragments(whole: &[u8]) -> impl Iterator<Item = (u16, &[u8], bool)> {
        let count = whole.len().div_ceil(FRAGMENT_BYTES);
        whole.chunks(FRAGMENT_BYTES).enumerate().map(move |(number, bytes)| {
            // A datagram is below 65,536 bytes.
            ((number * FRAGMENT_BYTES) as u16, bytes, number + 1 == count)
        })
    }

    /// Writes one fragment's frame.
    pub(crate) fn write_fragment(
        &self,
        room: &mut [u8],
        (own, next_hop): (EthernetAddress, EthernetAddress),
        bytes: &[u8],
        part: Part,
    ) {
        write_ethernet(room, own, next_hop, EthernetProtocol::Ipv4);
        let Some(packet) = room.get_mut(ETHERNET_BYTES..) else { return };
        self.write_ip(packet, bytes.len(), part);
        if let Some(to) = packet.get_mut(IP_BYTES..IP_BYTES + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }

    fn write_ip(&self, room: &mut [u8], payload_len: usize, part: Part) {
        let repr = Ipv4Repr {
            src_addr: *self.from.ip(),
            dst_addr: *self.to.ip(),
            next_header: IpProtocol::Udp,
            payload_len,
            hop_limit: HOP_LIMIT,
        };
        let mut packet = Ipv4Packet::new_unchecked(room);
        repr.emit(&mut packet, &ChecksumCapabilities::ignored());
        packet.set_ident(part.ident);
        packet.set_dont_frag(false);
        packet.set_more_frags(!part.is_last);
        packet.set_frag_offset(part.offset);
        packet.fill_checksum();
    }

    fn write_udp(&self, room: &mut [u8]) {
        // Below 65,536: longer ones are refused before.
        let bytes = (UDP_BYTES + self.payload.len()) as u16;
        let mut header = [0; UDP_BYTES];
        let mut datagram = UdpPacket::new_unchecked(&mut header[..]);
        datagram.set_src_port(self.from.port());
        datagram.set_dst_port(self.to.port());
        datagram.set_len(bytes);
        let sum = Sum::udp(*self.from.ip(), *self.to.ip(), bytes).with(&header).with(self.payload);
        let [first, second] = sum.udp_checksum();
        header[6..].copy_from_slice(&[first, second]);
        if let Some((head, rest)) = room.split_at_mut_checked(UDP_BYTES)
            && rest.len() == self.payload.len()
        {
            head.copy_from_slice(&header);
            rest.copy_from_slice(self.payload);
        }
    }
}

/// Which part of a packet a fragment is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) ident: u16,
    pub(crate) offset: u16,
    pub(crate) is_last: bool,
}

/// Writes the question who has `target` into `room` of [`ARP_FRAME_BYTES`].
pub(crate) fn write_arp_request(room: &mut [u8], own: EthernetAddress, address: Ipv4Addr, target: Ipv4Addr) {
    room.fill(0);
    write_ethernet(room, own, EthernetAddress::BROADCAST, EthernetProtocol::Arp);
    let Some(payload) = room.get_mut(ETHERNET_BYTES..) else { return };
    let repr = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: own,
        source_protocol_addr: address,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: target,
    };
    repr.emit(&mut ArpPacket::new_unchecked(payload));
}

fn write_ethernet(room: &mut [u8], from: EthernetAddress, to: EthernetAddress, ethertype: EthernetProtocol) {
    let repr = EthernetRepr { src_addr: from, dst_addr: to, ethertype };
    repr.emit(&mut EthernetFrame::new_unchecked(room));
}

/// RFC 2131 §4.1.
const DHCP_SERVER: u8 = 67;
const DHCP_CLIENT: u8 = 68;

/// The two ports at the beginning of a datagram.
const PORTS_BYTES: usize = 4;

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;

/// An ARP packet for Ethernet and IPv4, behind its header.
pub(crate) const ARP_FRAME_BYTES: usize = ETHERNET_BYTES + 28;

/// What a fragment carries: as much as fits, in whole units of 8 bytes (RFC 791 §3.2).
const FRAGMENT_BYTES: usize = (FRAME_BYTES_MAX - ETHERNET_BYTES - IP_BYTES) / 8 * 8;

/// The room for a fragment's frame besides its bytes.
pub(crate) const FRAGMENT_HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES;

/// The longest payload of a datagram: 65,535 bytes of packet less its headers.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65_535 - IP_BYTES - UDP_BYTES;

/// RFC 1700's recommendation for the time to live.
const HOP_LIMIT: u8 = 64;

//! Valid frames for the machine, for a check to modify, and a parser for the machine's frames.

use std::net::{Ipv4Addr, SocketAddrV4};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4Packet,
    Icmpv4Repr, IpAddress, IpProtocol, Ipv4Packet, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber, UdpPacket,
    UdpRepr,
};

/// Address of the machine.
pub(super) const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Hardware address of QEMU's first card.
pub(super) const MACHINE_HARDWARE: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
/// The host at our end: DHCP, TFTP, gateway, and a phone.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Hardware address of the host.
pub(super) const HOST_HARDWARE: [u8; 6] = [2, 0x77, 0, 0, 0, 1];
/// Network mask.
pub(super) const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 0, 0);
/// Broadcast address of the network.
pub(super) const EVERYBODY: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 255);
/// Ethernet broadcast address.
pub(super) const ALL_CARDS: [u8; 6] = [0xff; 6];

/// Content of a frame from the machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received<'f> {
    /// ARP request for an address.
    WhoHas(Ipv4Addr),
    Datagram {
        from: SocketAddrV4,
        to: SocketAddrV4,
        bytes: &'f [u8],
    },
    /// ICMP echo reply.
    Echo {
        to: Ipv4Addr,
        number: u16,
        bytes: &'f [u8],
    },
    /// SYN-ACK for a connection to this address.
    Accepted(SocketAddrV4),
    Other,
}

/// Parses a frame; a damaged one is `Other`.
pub(super) fn read(frame: &[u8]) -> Received<'_> {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return Received::Other };
    match ethernet.ethertype() {
        EthernetProtocol::Arp => read_arp(ethernet.payload()),
        EthernetProtocol::Ipv4 => read_ip(ethernet.payload()).unwrap_or(Received::Other),
        EthernetProtocol::Ipv6 | EthernetProtocol::Unknown(_) => Received::Other,
    }
}

fn read_arp(payload: &[u8]) -> Received<'_> {
    let repr = ArpPacket::new_checked(payload).and_then(|packet| ArpRepr::parse(&packet));
    match repr {
        Ok(ArpRepr::EthernetIpv4 { operation: ArpOperation::Request, target_protocol_addr, .. }) => {
            Received::WhoHas(target_protocol_addr)
        }
        _ => Received::Other,
    }
}

fn read_ip(payload: &[u8]) -> Option<Received<'_>> {
    let packet = Ipv4Packet::new_checked(payload).ok().filter(Ipv4Packet::verify_checksum)?;
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    match packet.next_header() {
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
            if !datagram.verify_checksum(&from.into(), &to.into()) {
                return None;
            }
            Some(Received::Datagram {
                from: SocketAddrV4::new(from, datagram.src_port()),
                to: SocketAddrV4::new(to, datagram.dst_port()),
                bytes: datagram.payload(),
            })
        }
        IpProtocol::Icmp => {
            let echo = Icmpv4Packet::new_checked(packet.payload()).ok()?;
            match Icmpv4Repr::parse(&echo, &ChecksumCapabilities::default()).ok()? {
                Icmpv4Repr::EchoReply { seq_no, data, .. } => {
                    Some(Received::Echo { to, number: seq_no, bytes: data })
                }
                _ => None,
            }
        }
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload()).ok()?;
            let is_taken =
                segment.syn() && segment.ack() && segment.verify_checksum(&from.into(), &to.into());
            is_taken.then(|| Received::Accepted(SocketAddrV4::new(to, segment.dst_port())))
        }
        _ => None,
    }
}

/// A frame with this payload.
pub(super) fn frame(to: [u8; 6], from: [u8; 6], kind: EthernetProtocol, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0, 0], payload].concat();
    EthernetFrame::new_unchecked(&mut frame).set_ethertype(kind);
    frame
}

/// The packet in a frame from the host's card to the machine's.
pub(super) fn to_machine(packet: &[u8]) -> Vec<u8> {
    frame(MACHINE_HARDWARE, HOST_HARDWARE, EthernetProtocol::Ipv4, packet)
}

/// An ARP packet from `address` at the card `hardware`, for `target`.
pub(super) fn arp(
    operation: ArpOperation,
    (address, hardware): (Ipv4Addr, [u8; 6]),
    target: Ipv4Addr,
) -> Vec<u8> {
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: EthernetAddress(hardware),
        source_protocol_addr: address,
        target_hardware_addr: EthernetAddress(MACHINE_HARDWARE),
        target_protocol_addr: target,
    };
    let mut payload = vec![0; repr.buffer_len()];
    repr.emit(&mut ArpPacket::new_unchecked(&mut payload));
    let to = if operation == ArpOperation::Request { ALL_CARDS } else { MACHINE_HARDWARE };
    frame(to, hardware, EthernetProtocol::Arp, &payload)
}

/// An IPv4 packet (RFC 791 §3.1) without fragmentation.
pub(super) fn ip(from: Ipv4Addr, to: Ipv4Addr, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    fragment((from, to), protocol, 0, (0, false), payload)
}

/// A fragment with its packet identifier, offset in bytes and more-fragments flag.
pub(super) fn fragment(
    (from, to): (Ipv4Addr, Ipv4Addr),
    protocol: IpProtocol,
    ident: u16,
    (offset, has_more): (u16, bool),
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; IP_BYTES + payload.len()];
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
    packet.set_version(4);
    packet.set_header_len(IP_BYTES as u8);
    packet.set_total_len(length);
    packet.set_ident(ident);
    packet.set_more_frags(has_more);
    packet.set_frag_offset(offset);
    packet.set_hop_limit(64);
    packet.set_next_header(protocol);
    packet.set_src_addr(from);
    packet.set_dst_addr(to);
    packet.payload_mut().copy_from_slice(payload);
    packet.fill_checksum();
    bytes
}

/// A UDP datagram (RFC 768) with its checksum.
pub(super) fn udp(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let repr = UdpRepr { src_port: from.port(), dst_port: to.port() };
    let mut bytes = vec![0; repr.header_len() + payload.len()];
    repr.emit(
        &mut UdpPacket::new_unchecked(&mut bytes),
        &IpAddress::Ipv4(*from.ip()),
        &IpAddress::Ipv4(*to.ip()),
        payload.len(),
        |room| room.copy_from_slice(payload),
        &ChecksumCapabilities::default(),
    );
    bytes
}

/// A UDP datagram to the machine, in its frame.
pub(super) fn datagram(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    to_machine(&ip(*from.ip(), *to.ip(), IpProtocol::Udp, &udp(from, to, payload)))
}

/// An ICMP echo request (RFC 792).
pub(super) fn echo(number: u16, payload: &[u8]) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoRequest { ident: 0x77, seq_no: number, data: payload };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &ChecksumCapabilities::default());
    bytes
}

/// A SYN to the machine's SIP port (RFC 9293 §3.5).
pub(super) fn syn(from: SocketAddrV4) -> Vec<u8> {
    let repr = TcpRepr {
        src_port: from.port(),
        dst_port: SIP_PORT,
        control: TcpControl::Syn,
        seq_number: TcpSeqNumber(1),
        ack_number: None,
        window_len: 1024,
        window_scale: None,
        // With an option, so that the padding of short frames cannot complete a truncated segment.
        max_seg_size: Some(1460),
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(
        &mut TcpPacket::new_unchecked(&mut bytes),
        &IpAddress::Ipv4(*from.ip()),
        &IpAddress::Ipv4(MACHINE),
        &ChecksumCapabilities::default(),
    );
    bytes
}

/// SIP port of the machine.
pub(super) const SIP_PORT: u16 = 5060;

/// Length of an IPv4 header without options.
pub(super) const IP_BYTES: usize = 20;

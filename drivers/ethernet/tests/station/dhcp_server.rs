//! A DHCP server that offers one address, and can refuse it again.
#![allow(dead_code, reason = "not every test needs all of it")]

use crate::cable::{OWN, OWN_HARDWARE, PEER, PEER_HARDWARE};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress,
    EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};
use std::net::Ipv4Addr;

/// A DHCP server that offers one address.
pub(crate) struct Server {
    pub(crate) offers: Ipv4Addr,
    pub(crate) refuses: bool,
    pub(crate) extra: Vec<(u8, Vec<u8>)>,
    pub(crate) seen: Vec<DhcpMessageType>,
    /// The last question.
    pub(crate) asked: Vec<u8>,
}

impl Server {
    pub(crate) fn new(offers: Ipv4Addr) -> Self {
        Self { offers, refuses: false, extra: Vec::new(), seen: Vec::new(), asked: Vec::new() }
    }

    /// The answer to a frame, if it is for a DHCP server or asks where that is.
    pub(crate) fn answer(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if let Some(reply) = arp_reply(frame) {
            return Some(reply);
        }
        let asked = dhcp_of(frame)?;
        self.asked = frame.to_vec();
        let packet = DhcpPacket::new_checked(asked).unwrap();
        let request = DhcpRepr::parse(&packet).unwrap();
        self.seen.push(request.message_type);
        let message_type = match request.message_type {
            DhcpMessageType::Discover => DhcpMessageType::Offer,
            DhcpMessageType::Request if self.refuses => DhcpMessageType::Nak,
            DhcpMessageType::Request => DhcpMessageType::Ack,
            _ => return None,
        };
        let extra: Vec<_> = self.extra.iter().map(|(kind, data)| DhcpOption { kind: *kind, data }).collect();
        let reply = DhcpRepr {
            message_type,
            your_ip: self.offers,
            server_ip: PEER,
            router: Some(PEER),
            subnet_mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
            server_identifier: Some(PEER),
            lease_duration: Some(600),
            dns_servers: Some(smoltcp_dns()),
            additional_options: &extra,
            ..request
        };
        Some(frame_of(&reply))
    }
}

/// A renewal goes to the server alone, which is asked for first.
fn arp_reply(frame: &[u8]) -> Option<Vec<u8>> {
    if frame[12..14] != [8, 6] || frame[38..42] != PEER.octets() {
        return None;
    }
    let mut reply = frame.to_vec();
    let repr = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(PEER_HARDWARE),
        source_protocol_addr: PEER,
        target_hardware_addr: EthernetAddress(OWN_HARDWARE),
        target_protocol_addr: OWN,
    };
    reply[..6].copy_from_slice(&OWN_HARDWARE);
    repr.emit(&mut ArpPacket::new_unchecked(&mut reply[14..]));
    Some(reply)
}

fn smoltcp_dns() -> heapless::Vec<Ipv4Addr, 3> {
    heapless::Vec::from_slice(&[PEER]).unwrap()
}

fn dhcp_of(frame: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
    (datagram.dst_port() == 67).then(|| datagram.payload())
}

fn frame_of(reply: &DhcpRepr<'_>) -> Vec<u8> {
    let length = reply.buffer_len();
    let mut frame = vec![0; 14 + 20 + 8 + length];
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(PEER_HARDWARE),
        dst_addr: EthernetAddress(OWN_HARDWARE),
        ethertype: EthernetProtocol::Ipv4,
    };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let ip = Ipv4Repr {
        src_addr: PEER,
        dst_addr: Ipv4Addr::BROADCAST,
        next_header: IpProtocol::Udp,
        payload_len: 8 + length,
        hop_limit: 64,
    };
    let checksums = ChecksumCapabilities::default();
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut frame[14..]), &checksums);
    let udp = UdpRepr { src_port: 67, dst_port: 68 };
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut frame[34..]),
        &PEER.into(),
        &Ipv4Addr::BROADCAST.into(),
        length,
        |room| reply.emit(&mut DhcpPacket::new_unchecked(room)).unwrap(),
        &checksums,
    );
    frame
}

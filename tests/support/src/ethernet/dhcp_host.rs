//! DHCP server on a link.

use crate::dhcp::{DhcpServer, Offer};
use crate::ethernet::cable::{OWN, OWN_HARDWARE, PEER, PEER_HARDWARE};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};
use std::net::Ipv4Addr;

/// Host at [`PEER`] as a DHCP server.
pub struct DhcpHost {
    /// DHCP server.
    pub dhcp: DhcpServer,
    /// Frame with the client's last message.
    pub asked: Vec<u8>,
}

impl DhcpHost {
    /// Creates a server that offers `address` for ten minutes, with itself as gateway and name server.
    pub fn new(address: Ipv4Addr) -> Self {
        let mask = Ipv4Addr::new(255, 255, 255, 0);
        let offer =
            Offer { address, hardware: OWN_HARDWARE, server: PEER, mask, dns: Some(PEER), lease_s: 600 };
        Self { dhcp: DhcpServer::new(offer), asked: Vec::new() }
    }

    /// Answers a frame for a DHCP server, or an ARP request for its hardware address.
    pub fn answer(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if let Some(reply) = arp_reply(frame) {
            return Some(reply);
        }
        let asked = dhcp_of(frame)?;
        self.asked = frame.to_vec();
        self.dhcp.answer(asked).pop().map(|reply| frame_of(&reply))
    }
}

/// A client that renews its lease requests the server's hardware address first.
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

fn dhcp_of(frame: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
    (datagram.dst_port() == 67).then(|| datagram.payload())
}

fn frame_of(reply: &[u8]) -> Vec<u8> {
    let length = reply.len();
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
        |room| room.copy_from_slice(reply),
        &checksums,
    );
    frame
}

//! DHCP: leases, refusals, silence.

use crate::harness::{Link, OWN, OWN_HARDWARE, PEER, PEER_HARDWARE};
use ringway_ethernet::{Change, Lease};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress,
    EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};
use std::net::Ipv4Addr;
use std::time::Duration;

/// A DHCP server that offers one address.
struct Server {
    offers: Ipv4Addr,
    refuses: bool,
    extra: Vec<(u8, Vec<u8>)>,
    seen: Vec<DhcpMessageType>,
}

impl Server {
    fn new(offers: Ipv4Addr) -> Self {
        Self { offers, refuses: false, extra: Vec::new(), seen: Vec::new() }
    }

    fn answer(&mut self, link: &mut Link) {
        for frame in link.sent() {
            if let Some(reply) = arp_reply(&frame) {
                link.to_station.borrow_mut().push_back(reply);
            }
            let Some(asked) = dhcp_of(&frame) else { continue };
            let packet = DhcpPacket::new_checked(asked).unwrap();
            let request = DhcpRepr::parse(&packet).unwrap();
            self.seen.push(request.message_type);
            let message_type = match request.message_type {
                DhcpMessageType::Discover => DhcpMessageType::Offer,
                DhcpMessageType::Request if self.refuses => DhcpMessageType::Nak,
                DhcpMessageType::Request => DhcpMessageType::Ack,
                _ => continue,
            };
            let extra: Vec<_> =
                self.extra.iter().map(|(kind, data)| DhcpOption { kind: *kind, data }).collect();
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
            link.to_station.borrow_mut().push_back(frame_of(&reply));
        }
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

fn run(link: &mut Link, server: &mut Server, milliseconds: u32) -> Vec<Change> {
    let mut changes = Vec::new();
    for _ in 0..milliseconds {
        link.pass(Duration::from_millis(1));
        server.answer(link);
        while let Some(change) = link.station.take_change() {
            if let Change::Leased(lease) = &change {
                link.station.set_lease(Some(lease.clone()));
            }
            changes.push(change);
        }
    }
    changes
}

#[test]
fn a_lease_brings_address_gateway_name_server_and_boot_server() {
    let mut link = Link::bare();
    let mut server = Server::new(OWN);
    server.extra = vec![(66, b"192.0.2.9".to_vec()), (67, b"users.csv\0".to_vec())];
    link.station.start_dhcp();
    let changes = run(&mut link, &mut server, 10);
    let Some(Change::Leased(lease)) = changes.last() else { panic!("{changes:?}") };
    let expected = Lease {
        gateway: Some(PEER),
        name_servers: vec![PEER],
        boot_server: Some(Ipv4Addr::new(192, 0, 2, 9)),
        boot_file: Some("users.csv".to_owned()),
        dhcp_server: Some(PEER),
        duration: Some(Duration::from_secs(600)),
        ..Lease::fixed(OWN, 24, None).unwrap()
    };
    assert_eq!(*lease, expected);
    run(&mut link, &mut server, 310_000);
    assert!(server.seen.len() >= 3, "renewed after half of the time: {:?}", server.seen);
}

#[test]
fn the_next_server_stands_in_for_option_66() {
    let mut link = Link::bare();
    let mut server = Server::new(OWN);
    link.station.start_dhcp();
    let changes = run(&mut link, &mut server, 10);
    let Some(Change::Leased(lease)) = changes.last() else { panic!("{changes:?}") };
    assert_eq!((lease.boot_server, &lease.boot_file), (Some(PEER), &None));
}

#[test]
fn silence_is_asked_again_every_second_and_a_late_server_is_heard() {
    let mut link = Link::bare();
    link.station.start_dhcp();
    for _ in 0..5 {
        link.pass(Duration::from_secs(1));
    }
    assert!((4..=6).contains(&link.sent().len()));
    let changes = run(&mut link, &mut Server::new(OWN), 2000);
    assert!(matches!(changes.last(), Some(Change::Leased(_))), "{changes:?}");
}

#[test]
fn a_refusal_begins_anew() {
    let mut link = Link::bare();
    let mut server = Server::new(OWN);
    server.refuses = true;
    link.station.start_dhcp();
    run(&mut link, &mut server, 3000);
    assert!(server.seen.iter().filter(|kind| **kind == DhcpMessageType::Discover).count() >= 2);
    server.refuses = false;
    let changes = run(&mut link, &mut server, 3000);
    assert!(matches!(changes.last(), Some(Change::Leased(_))), "{changes:?}");
}

#[test]
fn an_address_that_nobody_can_have_is_not_taken() {
    for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 255)] {
        let mut link = Link::bare();
        link.station.start_dhcp();
        let changes = run(&mut link, &mut Server::new(address), 50);
        assert!(!changes.iter().any(|change| matches!(change, Change::Leased(_))), "{address}");
    }
}

#[test]
fn a_lease_that_is_not_renewed_is_lost() {
    let mut link = Link::bare();
    link.station.start_dhcp();
    run(&mut link, &mut Server::new(OWN), 10);
    let mut lost = false;
    for _ in 0..700 {
        link.pass(Duration::from_secs(1));
        lost |= link.station.take_change() == Some(Change::Lost);
    }
    assert!(lost);
}

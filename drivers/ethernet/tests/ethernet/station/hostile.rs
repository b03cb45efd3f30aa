//! Frames that an attacker on the same link can send.

use crate::station::harness::{Link, OWN, OWN_HARDWARE, PEER};
use ringway_sansio::{Rng, Seed};
use ringway_test_support::ethernet::cable::PEER_HARDWARE;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet,
    Ipv4Repr,
};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Frames that a host sends for a datagram, a fragmented datagram, a connection and a message on it.
fn honest_frames() -> Vec<Vec<u8>> {
    let mut link = Link::new();
    let mut host = link.host();
    let (udp, tcp) = (host.udp(4000), host.connect(4001));
    host.send(udp, b"hello");
    host.send(udp, &[b'x'; 3000]);
    let mut frames = Vec::new();
    for step in 0..20 {
        host.poll(link.now);
        frames.extend(link.to_station.borrow().iter().cloned());
        link.pass(Duration::from_millis(1));
        if step == 10 {
            host.tcp(tcp).send_slice(b"line\n").unwrap();
        }
    }
    assert!(frames.len() >= 8, "{} frames", frames.len());
    frames
}

fn still_answers(link: &mut Link) {
    link.to_station.borrow_mut().clear();
    link.from_station.borrow_mut().clear();
    let mut host = link.host();
    let socket = host.udp(4999);
    host.send(socket, b"still there");
    link.talk(&mut host, 10);
    assert_eq!(host.received(socket).unwrap().0, b"still there");
}

#[test]
fn frames_cut_at_every_length_are_survived() {
    let mut link = Link::new();
    for frame in honest_frames() {
        for length in 0..frame.len() {
            link.to_station.borrow_mut().push_back(frame[..length].to_vec());
            link.turn();
        }
    }
    still_answers(&mut link);
}

#[test]
fn frames_with_changed_bytes_are_survived() {
    let frames = honest_frames();
    let mut rng = Rng::new(&Seed::from_number(5));
    let mut link = Link::new();
    for _ in 0..20_000 {
        let mut frame = frames[rng.below(frames.len() as u64) as usize].clone();
        for _ in 0..=rng.below(3) {
            let place = rng.below(frame.len() as u64) as usize;
            frame[place] = rng.next_u64() as u8;
        }
        link.to_station.borrow_mut().push_back(frame);
        link.turn();
        link.from_station.borrow_mut().clear();
    }
    assert!(link.station.counters().frames_damaged > 1000);
    still_answers(&mut link);
}

#[test]
fn a_flood_of_arp_is_survived() {
    let mut link = Link::new();
    for number in 0..10_000_u32 {
        let mut frame = vec![0; 42];
        frame[..6].copy_from_slice(&OWN_HARDWARE);
        frame[6..12].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
        frame[12..14].copy_from_slice(&[8, 6]);
        let repr = ArpRepr::EthernetIpv4 {
            operation: if number % 2 == 0 { ArpOperation::Request } else { ArpOperation::Reply },
            source_hardware_addr: EthernetAddress([2, 9, 9, 9, (number >> 8) as u8, number as u8]),
            source_protocol_addr: Ipv4Addr::from(u32::from(OWN) & !0xff | number & 0xff),
            target_hardware_addr: EthernetAddress(OWN_HARDWARE),
            target_protocol_addr: OWN,
        };
        repr.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
        link.to_station.borrow_mut().push_back(frame);
        link.turn();
    }
    assert_eq!(link.station.neighbours_len(), 253, "not the network, not all of it, not us");
    still_answers(&mut link);
}

#[test]
fn frames_for_others_and_from_invalid_addresses_are_not_answered() {
    let frames = honest_frames();
    let datagram = frames.iter().find(|frame| frame[12..14] == [8, 0] && frame[23] == 17).unwrap();
    let mut link = Link::new();
    let mut foreign = datagram.clone();
    foreign[5] = 9;
    link.to_station.borrow_mut().push_back(foreign);
    link.turn();
    assert_eq!(link.station.counters().frames_foreign, 1);
    // The same datagram in a broadcast frame, and from our own address.
    let mut broadcast = datagram.clone();
    broadcast[..6].copy_from_slice(&[0xff; 6]);
    link.to_station.borrow_mut().push_back(broadcast);
    let mut own = datagram.clone();
    own[26..30].copy_from_slice(&OWN.octets());
    link.to_station.borrow_mut().push_back(own);
    link.turn();
    assert!(link.node().messages.is_empty());
    still_answers(&mut link);
}

#[test]
fn incomplete_handshakes_do_not_block_others_for_long() {
    let syn = honest_frames().into_iter().find(|frame| frame[12..14] == [8, 0] && frame[23] == 6).unwrap();
    let mut link = Link::new();
    for port in 0..200_u16 {
        let mut frame = syn.clone();
        // Another source port; the sequence number is changed so that the checksum stays valid.
        let old = u16::from_be_bytes([frame[34], frame[35]]);
        let low = u16::from_be_bytes([frame[40], frame[41]]);
        frame[34..36].copy_from_slice(&old.wrapping_add(port).to_be_bytes());
        frame[40..42].copy_from_slice(&low.wrapping_sub(port).to_be_bytes());
        link.to_station.borrow_mut().push_back(frame);
        link.turn();
    }
    let mut host = link.host();
    link.from_station.borrow_mut().clear();
    let socket = host.connect(7000);
    link.talk(&mut host, 8000);
    host.tcp(socket).send_slice(b"in\n").unwrap();
    link.talk(&mut host, 100);
    assert_eq!(host.read(socket), "in\n");
}

/// Frame with an ICMP echo request from the peer's MAC address to the station's.
fn echo_request(from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 1, data: b"echo" };
    let ip = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Icmp,
        payload_len: echo.buffer_len(),
        hop_limit: 64,
    };
    let mut frame = [&OWN_HARDWARE[..], &PEER_HARDWARE, &[8, 0], &vec![0; 20 + echo.buffer_len()]].concat();
    let checksums = ChecksumCapabilities::default();
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut frame[14..]), &checksums);
    echo.emit(&mut Icmpv4Packet::new_unchecked(&mut frame[34..]), &checksums);
    frame
}

/// Number of frames that the station sends in reply once it has the peer's MAC address.
fn answers(link: &mut Link, frame: Vec<u8>) -> usize {
    let mut host = link.host();
    let socket = host.udp(4998);
    host.send(socket, b"known");
    link.talk(&mut host, 5);
    link.from_station.borrow_mut().clear();
    link.to_station.borrow_mut().push_back(frame);
    link.pass(Duration::from_millis(1));
    link.sent().len()
}

#[test]
fn broadcast_echo_requests_and_those_from_invalid_addresses_are_not_answered() {
    let everybody = Ipv4Addr::new(192, 0, 2, 255);
    let mut link = Link::new();
    assert_eq!(answers(&mut link, echo_request(PEER, OWN)), 1);
    for to in [everybody, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
        let mut frame = echo_request(PEER, to);
        assert_eq!(answers(&mut link, frame.clone()), 0, "to {to}");
        frame[..6].copy_from_slice(&[0xff; 6]);
        assert_eq!(answers(&mut link, frame), 0, "to {to}");
    }
    let nobody = Ipv4Addr::new(192, 0, 2, 0);
    for from in [nobody, everybody, Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, OWN] {
        assert_eq!(answers(&mut link, echo_request(from, OWN)), 0, "from {from}");
    }
}

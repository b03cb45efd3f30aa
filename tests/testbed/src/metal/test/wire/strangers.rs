//! Invalid frames: the machine must keep running, answer OPTIONS, and not answer these frames.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result, bail};
use smoltcp::wire::{ArpOperation, EthernetProtocol, IpProtocol, Ipv4Packet};

use super::super::screen::on_page;
use super::CabledMachine;
use super::frames::{self, ALL_CARDS, EVERYBODY, HOST, HOST_HARDWARE, IP_BYTES, MACHINE, MACHINE_HARDWARE};
use super::host::{DHCP_CLIENT, DHCP_SERVER, Host, OTHER_PHONE, machine, phone};
use crate::interop::{Scenario, Stage};
use crate::machine::{Card, Machine, Medium};

pub(super) fn checks() -> Vec<Scenario> {
    let on = |(name, card): (&str, Card)| {
        let body = move |stage: &Stage| every_frame(stage, card);
        Scenario::new(format!("wire/frames-{name}"), body)
    };
    let cards = [("virtio", Card::Virtio), ("e1000", Card::E1000), ("e1000e", Card::E1000e)];
    let mut all: Vec<Scenario> = cards.into_iter().map(on).collect();
    all.push(Scenario::new("wire/arp-flood", arp_flood));
    all.push(Scenario::new("wire/icmp", icmp));
    all
}

fn serving(stage: &Stage, card: Card) -> Result<CabledMachine> {
    let machine = Machine::new(Medium::Kernel).with_card(card);
    let mut machine = CabledMachine::start(&machine, stage, "auth=off", |_| {})?;
    machine.until_said("ready ")?;
    machine.answers("its start")?;
    Ok(machine)
}

/// ARP from 20,000 stations, some of which claim the machine's or the host's address: the table fills up to
/// its limit, and a phone without an entry is served too.
fn arp_flood(stage: &Stage) -> Result<()> {
    let mut machine = serving(stage, Card::Virtio)?;
    for number in 0..STATIONS {
        let [_, _, high, low] = number.to_be_bytes();
        let address = match number % 50 {
            0 => MACHINE,
            1 => HOST,
            _ => Ipv4Addr::new(10, 77, 100 + high, low),
        };
        let (operation, target) = match number % 3 {
            0 => (ArpOperation::Request, MACHINE),
            1 => (ArpOperation::Reply, MACHINE),
            _ => (ArpOperation::Request, address),
        };
        let hardware = [2, 0x99, 0, 0, high, low];
        machine.host.cable.send(&frames::arp(operation, (address, hardware), target))?;
        if number % 1000 == 999 {
            machine.host.take_all()?;
            machine.answers(&format!("{} frames of ARP", number + 1))?;
        }
    }
    machine.host.expect_answer(OTHER_PHONE).context("from a phone that found no room in the table")?;
    // Maximum, current number, and number of rejected entries.
    let is_full = |figures: &[u32]| matches!(figures, [1024, 1024, refused, ..] if *refused > 0);
    let figures = limit(&mut machine, "stations of this link", is_full)?;
    println!("          20,000 stations: at most, known now, times there was no room: {figures:?}");
    machine.answers("all of it")
}

/// Figures of a limit on the machine's page, once they satisfy `is_so`; a page that is being drawn, or an
/// older one, may have others.
fn limit(machine: &mut CabledMachine, name: &str, is_so: impl Fn(&[u32]) -> bool) -> Result<Vec<u32>> {
    machine.running.type_keys(" ")?;
    on_page(&machine.running, "the pages", |page| page.contains("Limits").then_some(()))?;
    machine.running.type_keys("3")?;
    on_page(&machine.running, &format!("{name}, and figures that are right"), |page| {
        let row = page.lines().find_map(|row| row.trim_start().strip_prefix(name))?;
        let figures = row.split_whitespace().map_while(|figure| figure.replace(',', "").parse().ok());
        Some(figures.collect()).filter(|figures: &Vec<u32>| is_so(figures))
    })
}

/// Sends groups of frames, and OPTIONS after each.
fn every_frame(stage: &Stage, card: Card) -> Result<()> {
    let mut machine = serving(stage, card)?;
    whole(&mut machine)?;
    for (what, group) in GROUPS {
        let unanswerable = group(&mut machine.host).with_context(|| what.to_owned())?;
        machine.answers(what)?;
        machine.host.take_all()?;
        expect_silence(&machine.host, &unanswerable).with_context(|| what.to_owned())?;
    }
    let are_many = |figures: &[u32]| figures.first().is_some_and(|damaged| *damaged >= DAMAGED_MIN);
    let damaged = limit(&mut machine, "frames damaged, by our checks", are_many)?;
    println!("          frames found damaged: {damaged:?}");
    Ok(())
}

/// Checks that a valid datagram, connection and echo request are answered, so that the checks below would
/// notice answers.
fn whole(machine: &mut CabledMachine) -> Result<()> {
    let host = &mut machine.host;
    let from = SocketAddrV4::new(HOST, HONEST_PORT);
    host.cable.send(&frames::to_machine(&frames::ip(HOST, MACHINE, IpProtocol::Tcp, &frames::syn(from))))?;
    host.cable.send(&frames::to_machine(&frames::ip(
        HOST,
        MACHINE,
        IpProtocol::Icmp,
        &frames::echo(1, b"x"),
    )))?;
    let (number, pieces) = options_in_fragments(host);
    for piece in pieces.iter().rev() {
        host.cable.send(piece)?;
    }
    let is_answered = |host: &Host| {
        host.statuses.contains_key(&number) && host.accepted.contains(&from) && !host.echoes.is_empty()
    };
    if !host.turn_until(crate::process::PATIENCE, is_answered)? {
        bail!("one of these is not answered: OPTIONS in fragments, a connection, an echo request");
    }
    host.echoes.clear();
    machine.answers("fragments, a connection, an echo request")
}

/// Checks that none of these requests is answered, no connection accepted and no echo sent, and that the
/// machine sends no ARP request for an invalid address.
fn expect_silence(host: &Host, unanswerable: &[u32]) -> Result<()> {
    if let Some(number) = unanswerable.iter().find(|number| host.statuses.contains_key(number)) {
        let index = unanswerable.iter().position(|other| other == number).unwrap_or_default();
        bail!("request {} of {} is answered", index + 1, unanswerable.len());
    }
    // Unacknowledged segments are retransmitted to the owner of the honest connection.
    if let Some(by) = host.accepted.iter().find(|by| by.port() != HONEST_PORT) {
        bail!("a connection of {by} is taken");
    }
    if let Some((to, number, _)) = host.echoes.first() {
        bail!("the echo request {number} is answered to {to}");
    }
    match host.unknown_addresses.first() {
        Some(address) => bail!("the machine looks for {address}"),
        None => Ok(()),
    }
}

/// Sends frames; returns the numbers of requests that must not be answered.
type Group = fn(&mut Host) -> Result<Vec<u32>>;

const GROUPS: [(&str, Group); 8] = [
    ("truncated frames", cut),
    ("oversized frames", too_long),
    ("invalid IP headers", invalid_ip),
    ("invalid UDP lengths", invalid_udp),
    ("wrong checksums", checksums),
    ("frames with an invalid source address", senders),
    ("noise", noise),
    ("fragments", fragments),
];

/// Frames of each kind, truncated after every byte.
fn cut(host: &mut Host) -> Result<Vec<u32>> {
    let (number, request) = host.options();
    let (from_dhcp, to_dhcp) =
        (SocketAddrV4::new(HOST, DHCP_SERVER), SocketAddrV4::new(MACHINE, DHCP_CLIENT));
    let packet = |protocol, payload: &[u8]| frames::to_machine(&frames::ip(HOST, MACHINE, protocol, payload));
    let frames = [
        frames::arp(ArpOperation::Request, (HOST, HOST_HARDWARE), MACHINE),
        frames::datagram(phone(HOST), machine(), request.as_bytes()),
        frames::datagram(from_dhcp, to_dhcp, &[2; 300]),
        packet(IpProtocol::Tcp, &frames::syn(SocketAddrV4::new(HOST, 7002))),
        packet(IpProtocol::Icmp, &frames::echo(2, &[0xee; 30])),
    ];
    for frame in &frames {
        for bytes in 1..frame.len() {
            host.cable.send(frame.get(..bytes).unwrap_or_default())?;
        }
    }
    Ok(vec![number])
}

/// Frames longer than the maximum of Ethernet (IEEE 802.3), up to QEMU's limit.
fn too_long(host: &mut Host) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for bytes in
        [1515, 1516, 1518, 1519, 1522, 1523, 1600, 2000, 2047, 2048, 2049, 4096, 9000, 16_383, 65_000]
    {
        let (number, request) = host.options();
        let mut frame = frames::datagram(phone(HOST), machine(), request.as_bytes());
        frame.resize(bytes, 0);
        host.cable.send(&frame)?;
        numbers.push(number);
        let long = frames::datagram(phone(HOST), machine(), &vec![b'x'; bytes - 42]);
        host.cable.send(&long)?;
    }
    Ok(numbers)
}

/// Versions, header lengths, total lengths and protocols, each with a valid checksum.
fn invalid_ip(host: &mut Host) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut with = |change: &dyn Fn(&mut Vec<u8>)| {
        let (number, request) = host.options();
        let datagram = frames::udp(phone(HOST), machine(), request.as_bytes());
        let mut packet = frames::ip(HOST, MACHINE, IpProtocol::Udp, &datagram);
        change(&mut packet);
        Ipv4Packet::new_unchecked(&mut packet).fill_checksum();
        numbers.push(number);
        host.cable.send(&frames::to_machine(&packet))
    };
    for high in (0..16).filter(|version| *version != 4) {
        with(&|packet| set(packet, 0, high << 4 | 5))?;
    }
    for words in (0..16).filter(|words| *words != 5) {
        with(&|packet| set(packet, 0, 4 << 4 | words))?;
    }
    for length in [0, 1, 19, 20, 27, 28, 29, 100, 1500, 0x7fff, 0xffff] {
        with(&|packet| set_u16(packet, 2, length))?;
    }
    for protocol in (0..=255).filter(|protocol| *protocol != u8::from(IpProtocol::Udp)) {
        with(&|packet| set(packet, 9, protocol))?;
    }
    Ok(numbers)
}

/// Lengths below that of a header or above that of the packet.
fn invalid_udp(host: &mut Host) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let whole = host.options().1.len() as u16 + 8;
    for length in [0, 1, 7, 8, 9, whole - 1, whole + 1, whole + 8, 1500, 0x7fff, 0xffff] {
        let (number, request) = host.options();
        let mut datagram = frames::udp(phone(HOST), machine(), request.as_bytes());
        set_u16(&mut datagram, 4, length);
        for has_checksum in [true, false] {
            if !has_checksum {
                set_u16(&mut datagram, 6, 0);
            }
            host.cable.send(&frames::to_machine(&frames::ip(HOST, MACHINE, IpProtocol::Udp, &datagram)))?;
        }
        // Without a checksum a shorter datagram is another valid one, and may be answered.
        if !(8..whole).contains(&length) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Checksums with one flipped bit.
fn checksums(host: &mut Host) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for bit in 0..16 {
        let wrong = |bytes: &mut [u8], at: usize| {
            if let Some(byte) = bytes.get_mut(at + bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        };
        let (number, request) = host.options();
        let whole = frames::datagram(phone(HOST), machine(), request.as_bytes());
        for at in [10, IP_BYTES + 6] {
            let mut frame = whole.clone();
            wrong(&mut frame, ETHERNET_BYTES + at);
            host.cable.send(&frame)?;
        }
        let mut segment = frames::syn(SocketAddrV4::new(HOST, 7003));
        wrong(&mut segment, 16);
        host.cable.send(&frames::to_machine(&frames::ip(HOST, MACHINE, IpProtocol::Tcp, &segment)))?;
        let mut echo = frames::echo(3, b"wrong");
        wrong(&mut echo, 2);
        host.cable.send(&frames::to_machine(&frames::ip(HOST, MACHINE, IpProtocol::Icmp, &echo)))?;
        numbers.push(number);
    }
    Ok(numbers)
}

/// Invalid source addresses (RFC 1122 §3.2.1.3), and broadcast frames to a unicast address.
fn senders(host: &mut Host) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for sender in NOBODY {
        let (number, request) = host.options();
        let datagram = frames::udp(phone(sender), machine(), request.as_bytes());
        let segment = frames::syn(phone(sender));
        for (protocol, payload) in [
            (IpProtocol::Udp, datagram),
            (IpProtocol::Tcp, segment),
            (IpProtocol::Icmp, frames::echo(4, b"nobody")),
        ] {
            let packet = frames::ip(sender, MACHINE, protocol, &payload);
            host.cable.send(&frames::to_machine(&packet))?;
            // In two fragments, which another part of the machine handles.
            for piece in pieces(sender, protocol, 0x4000, &payload, 8) {
                host.cable.send(&frames::to_machine(&piece))?;
            }
        }
        numbers.push(number);
    }
    let (number, request) = host.options();
    let datagram = frames::udp(phone(HOST), machine(), request.as_bytes());
    let packet = frames::ip(HOST, MACHINE, IpProtocol::Udp, &datagram);
    for card in [ALL_CARDS, [1, 0, 0x5e, 0, 0, 1], [0; 6]] {
        host.cable.send(&frames::frame(card, HOST_HARDWARE, EthernetProtocol::Ipv4, &packet))?;
    }
    numbers.push(number);
    Ok(numbers)
}

/// Random frames, and valid ones with a few modified bytes.
fn noise(host: &mut Host) -> Result<Vec<u32>> {
    let mut rng = Rng(SEED);
    let request = host.options().1;
    let packet = |protocol, payload: &[u8]| frames::to_machine(&frames::ip(HOST, MACHINE, protocol, payload));
    let good = [
        frames::arp(ArpOperation::Reply, (OTHER_PHONE, HOST_HARDWARE), MACHINE),
        frames::datagram(phone(HOST), machine(), request.as_bytes()),
        packet(IpProtocol::Tcp, &frames::syn(SocketAddrV4::new(HOST, HONEST_PORT))),
        packet(IpProtocol::Icmp, &frames::echo(5, b"noise")),
        frames::datagram(SocketAddrV4::new(HOST, 53), SocketAddrV4::new(MACHINE, 49_500), &[0x81; 60]),
    ];
    for number in 0..NOISE {
        let mut frame = if number % 2 == 0 {
            let bytes = 14 + rng.below(1501);
            let mut frame: Vec<u8> = (0..bytes).map(|_| rng.next() as u8).collect();
            let kind: [u8; 2] = if rng.below(4) == 0 { [8, 6] } else { [8, 0] };
            frame.splice(..14, [&MACHINE_HARDWARE[..], &HOST_HARDWARE, &kind].concat());
            frame
        } else {
            good.get(rng.below(good.len())).cloned().unwrap_or_default()
        };
        for _ in 0..=rng.below(3) {
            let index = rng.below(frame.len());
            set(&mut frame, index, rng.next() as u8);
        }
        host.cable.send(&frame)?;
    }
    // A byte without effect may have been modified: answers are not an error.
    host.announce(HOST)?;
    host.expect_answer(HOST)?;
    host.echoes.clear();
    host.unknown_addresses.clear();
    Ok(Vec::new())
}

/// Fragments (RFC 791 §3.2) that overlap, that exceed the maximum packet, and that are never completed.
fn fragments(host: &mut Host) -> Result<Vec<u32>> {
    let (number, request) = host.options();
    let datagram = frames::udp(phone(HOST), machine(), request.as_bytes());
    let ends = (HOST, MACHINE);
    let mut send = |ident, index, payload: &[u8], protocol| {
        host.cable.send(&frames::to_machine(&frames::fragment(ends, protocol, ident, index, payload)))
    };
    for (ident, protocol) in (1..).zip([IpProtocol::Udp, IpProtocol::Tcp, IpProtocol::Icmp, IpProtocol::Igmp])
    {
        let (first, rest) = datagram.split_at(200);
        send(ident, (0, true), first, protocol)?;
        // Inside of a received fragment, across its end with other bytes, empty, and not a multiple of 8.
        send(ident, (8, true), first.get(8..64).unwrap_or_default(), protocol)?;
        send(ident, (160, true), &[b'y'; 80], protocol)?;
        send(ident, (240, true), &[], protocol)?;
        send(ident, (240, true), rest.get(40..47).unwrap_or_default(), protocol)?;
        // Two ends, and an end beyond the maximum packet.
        send(ident, (160, false), &[b'z'; 16], protocol)?;
        send(ident, (65_528, false), &[b'z'; 1400], protocol)?;
        send(ident, (65_528, true), &[b'z'; 1400], protocol)?;
    }
    for ident in 100..100 + UNENDED {
        send(ident, (0, true), &[b'u'; 1400], IpProtocol::Udp)?;
        send(ident, (2800, ident % 2 == 0), &[b'u'; 1400], IpProtocol::Udp)?;
    }
    Ok(vec![number])
}

/// Checks that echo requests are answered unchanged, and those to broadcast addresses are not, so that the
/// machine cannot be used to amplify.
fn icmp(stage: &Stage) -> Result<()> {
    let mut machine = serving(stage, Card::Virtio)?;
    let host = &mut machine.host;
    for (number, bytes) in (1..).zip([0, 1, 8, 56, 1000, 1472]) {
        let payload: Vec<u8> = (0..bytes).map(|index: usize| index as u8).collect();
        let echo = frames::echo(number, &payload);
        host.cable.send(&frames::to_machine(&frames::ip(HOST, MACHINE, IpProtocol::Icmp, &echo)))?;
        let answer = (HOST, number, payload);
        if !host.turn_until(super::super::ANSWER_TIME, |host| host.echoes.contains(&answer))? {
            bail!("an echo request of {bytes} bytes is not answered with the same");
        }
    }
    host.echoes.clear();
    for to in [Ipv4Addr::BROADCAST, EVERYBODY, Ipv4Addr::new(10, 77, 0, 0), Ipv4Addr::new(224, 0, 0, 1)] {
        for card in [ALL_CARDS, MACHINE_HARDWARE, [1, 0, 0x5e, 0, 0, 1]] {
            let packet = frames::ip(HOST, to, IpProtocol::Icmp, &frames::echo(100, b"everybody"));
            host.cable.send(&frames::frame(card, HOST_HARDWARE, EthernetProtocol::Ipv4, &packet))?;
        }
    }
    machine.answers("echo requests")?;
    expect_silence(&machine.host, &[])
}

/// OPTIONS in two fragments, and its number.
fn options_in_fragments(host: &mut Host) -> (u32, Vec<Vec<u8>>) {
    let (number, request) = host.options();
    let datagram = frames::udp(phone(HOST), machine(), request.as_bytes());
    let pieces = pieces(HOST, IpProtocol::Udp, 0x77, &datagram, 200);
    (number, pieces.iter().map(|piece| frames::to_machine(piece)).collect())
}

/// A packet in two fragments, the first with `first` bytes, a multiple of 8.
fn pieces(from: Ipv4Addr, protocol: IpProtocol, ident: u16, payload: &[u8], first: u16) -> [Vec<u8>; 2] {
    let (head, rest) = payload.split_at(usize::from(first).min(payload.len()));
    let piece = |index, part: &[u8]| frames::fragment((from, MACHINE), protocol, ident, index, part);
    [piece((0, true), head), piece((first, false), rest)]
}

fn set(bytes: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value;
    }
}

fn set_u16(bytes: &mut [u8], at: usize, value: u16) {
    let [high, low] = value.to_be_bytes();
    set(bytes, at, high);
    set(bytes, at + 1, low);
}

/// Random numbers that are the same in every run (SplitMix64, by Sebastiano Vigna).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A random number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Addresses that no host can have.
const NOBODY: [Ipv4Addr; 7] = [
    Ipv4Addr::BROADCAST,
    EVERYBODY,
    Ipv4Addr::new(10, 77, 0, 0),
    Ipv4Addr::new(224, 0, 0, 1),
    Ipv4Addr::LOCALHOST,
    Ipv4Addr::UNSPECIFIED,
    MACHINE,
];

const STATIONS: u32 = 20_000;
const NOISE: u32 = 4000;
const SEED: u64 = 4475;
/// Number of packets that are never completed.
const UNENDED: u16 = 1000;

/// Minimum number of frames that the machine must count as damaged. A card pads the shortest and drops the
/// longest.
const DAMAGED_MIN: u32 = 3000;
/// Source port of the connections that may be accepted.
const HONEST_PORT: u16 = 7001;
const ETHERNET_BYTES: usize = 14;

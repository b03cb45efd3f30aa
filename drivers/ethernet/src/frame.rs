//! Interface to a network card; parsing of received frames without a copy, writing of datagrams directly into the
//! card's buffer, and the Internet checksum (RFC 1071), computed eight bytes at a time.

use core::net::{Ipv4Addr, SocketAddrV4};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol,
    Ipv4Packet, UdpPacket,
};

/// A network card that sends and receives frames in its own buffers.
///
/// A frame is an Ethernet II frame without preamble and frame check sequence, 14 to [`FRAME_BYTES_MAX`] bytes. No
/// method blocks.
pub trait Card {
    /// MAC address.
    fn address(&self) -> [u8; 6];

    /// True while the link is up.
    fn is_up(&mut self) -> bool;

    /// Takes the next received frame. `take` reads it in the card's buffer, which the card reuses afterwards. `None`:
    /// no frame was received.
    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R>;

    /// Sends a frame of `bytes` bytes, at most [`FRAME_BYTES_MAX`]. `fill` writes it into the card's buffer, whose
    /// previous content is unspecified. False: the send ring is full; `fill` was not called and the frame is lost.
    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool;

    /// Notifies the card of the frames from [`Card::send`]; called once after a burst.
    fn flush(&mut self);

    /// Current counters.
    fn counters(&self) -> CardCounters;
}

/// Counters of a card since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardCounters {
    /// Frames received.
    pub received: u64,
    /// Frames handed to the card for sending.
    pub sent: u64,
    /// Frames not sent because the ring was full.
    pub not_sent: u64,
    /// Frames that the card dropped or found damaged, if it reports them.
    pub damaged: u64,
}

/// Classification of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind<'f> {
    /// Complete UDP datagram for one of the served ports, with valid checksums.
    Datagram { from: SocketAddrV4, port: u16, bytes: &'f [u8] },
    /// ARP request or reply to this station, with the sender's MAC address.
    Neighbour { address: Ipv4Addr, hardware: EthernetAddress },
    /// Packet from a DHCP server; its destination may not be our address yet.
    Dhcp,
    /// Frame for smoltcp: fragments, TCP, ICMP, DNS, ARP between other stations.
    Other,
    /// Frame for another station, or broadcast.
    Foreign,
    /// Wrong lengths or checksums, or an invalid source.
    Damaged,
}

/// Addresses of this station on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkAddresses {
    pub(crate) hardware: EthernetAddress,
    /// `None`: not configured yet.
    pub(crate) address: Option<Ipv4Addr>,
    /// Network address and broadcast address.
    pub(crate) all: Option<[Ipv4Addr; 2]>,
}

/// Classifies a frame. `is_served` is true for the UDP ports that are served.
pub(crate) fn classify<'f>(
    frame: &'f [u8],
    own: LinkAddresses,
    is_served: impl Fn(u16) -> bool,
) -> FrameKind<'f> {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return FrameKind::Damaged };
    let to = ethernet.dst_addr();
    if to != own.hardware && !to.is_broadcast() && to.is_unicast() {
        return FrameKind::Foreign;
    }
    match ethernet.ethertype() {
        EthernetProtocol::Arp => classify_arp(ethernet.payload(), own),
        EthernetProtocol::Ipv4 if to == own.hardware => classify_ip(ethernet.payload(), own, is_served),
        EthernetProtocol::Ipv4 => classify_broadcast(ethernet.payload(), own),
        EthernetProtocol::Ipv6 | EthernetProtocol::Unknown(_) => FrameKind::Foreign,
    }
}

/// Only DHCP replies are accepted as broadcast. A link-layer broadcast to an IP unicast address is discarded (RFC 1122
/// §3.3.6). Broadcast echo requests need not be answered (§3.2.2.6) and would serve for amplification.
fn classify_broadcast(payload: &[u8], own: LinkAddresses) -> FrameKind<'_> {
    match Ipv4Packet::new_checked(payload) {
        Ok(packet) if own.address.is_none() => classify_unconfigured(&packet),
        Ok(packet) if own.address != Some(packet.dst_addr()) && is_from_dhcp(&packet) => FrameKind::Dhcp,
        Ok(_) => FrameKind::Foreign,
        Err(_) => FrameKind::Damaged,
    }
}

fn classify_ip<'f>(payload: &'f [u8], own: LinkAddresses, is_served: impl Fn(u16) -> bool) -> FrameKind<'f> {
    let Ok(packet) = Ipv4Packet::new_checked(payload) else { return FrameKind::Damaged };
    let Some(address) = own.address else { return classify_unconfigured(&packet) };
    if packet.version() != 4 || !packet.verify_checksum() {
        return FrameKind::Damaged;
    }
    let (source, destination) = (packet.src_addr(), packet.dst_addr());
    // RFC 1122 §3.2.1.3: invalid as source addresses.
    if !is_host_address(source) || source == address || own.all.is_some_and(|all| all.contains(&source)) {
        return FrameKind::Damaged;
    }
    let is_udp = packet.next_header() == IpProtocol::Udp;
    if is_udp && is_from_dhcp(&packet) {
        return FrameKind::Dhcp;
    }
    if destination != address {
        return FrameKind::Foreign;
    }
    if !is_udp || packet.more_frags() || packet.frag_offset() != 0 {
        return FrameKind::Other;
    }
    let Ok(datagram) = UdpPacket::new_checked(packet.payload()) else { return FrameKind::Damaged };
    let port = datagram.dst_port();
    if !is_served(port) {
        return FrameKind::Other;
    }
    let summed = || packet.payload().get(..usize::from(datagram.len())).unwrap_or_default();
    let is_whole = || Sum::udp(source, destination, datagram.len()).with(summed()).is_right();
    if datagram.checksum() != 0 && !is_whole() {
        return FrameKind::Damaged;
    }
    // A datagram from port 0 cannot be answered.
    if datagram.src_port() == 0 {
        return FrameKind::Damaged;
    }
    FrameKind::Datagram {
        from: SocketAddrV4::new(source, datagram.src_port()),
        port,
        bytes: datagram.payload(),
    }
}

/// Without an address only DHCP is classified; everything else goes to smoltcp.
fn classify_unconfigured<'f>(packet: &Ipv4Packet<&[u8]>) -> FrameKind<'f> {
    if is_from_dhcp(packet) { FrameKind::Dhcp } else { FrameKind::Other }
}

/// True for a datagram from the DHCP server port to the client port (RFC 2131 §4.1), including its first fragment. A
/// datagram that ends before its ports counts as one.
fn is_from_dhcp(packet: &Ipv4Packet<&[u8]>) -> bool {
    packet.next_header() == IpProtocol::Udp
        && packet.frag_offset() == 0
        && packet.payload().get(..PORTS_BYTES).is_none_or(|ports| ports == [0, DHCP_SERVER, 0, DHCP_CLIENT])
}

/// True for a sent frame that carries a DHCP request.
pub(crate) fn is_to_dhcp(frame: &[u8]) -> bool {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return false };
    let packet = Ipv4Packet::new_checked(ethernet.payload());
    ethernet.ethertype() == EthernetProtocol::Ipv4
        && packet.is_ok_and(|packet| {
            packet.next_header() == IpProtocol::Udp
                && packet.payload().get(..PORTS_BYTES) == Some(&[0, DHCP_CLIENT, 0, DHCP_SERVER])
        })
}

fn classify_arp<'f>(payload: &'f [u8], own: LinkAddresses) -> FrameKind<'f> {
    let packet = ArpPacket::new_checked(payload);
    let Ok(ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: hardware,
        source_protocol_addr: address,
        target_protocol_addr: target,
        ..
    }) = packet.and_then(|packet| ArpRepr::parse(&packet))
    else {
        return FrameKind::Damaged;
    };
    let is_for_us =
        own.address == Some(target) && matches!(operation, ArpOperation::Request | ArpOperation::Reply);
    if is_for_us && hardware.is_unicast() && hardware != own.hardware && is_host_address(address) {
        FrameKind::Neighbour { address, hardware }
    } else {
        FrameKind::Other
    }
}

/// True for an address that a single host can have.
fn is_host_address(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast() || address.is_loopback())
}

/// UDP datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'p> {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) payload: &'p [u8],
}

impl Datagram<'_> {
    /// Length of its frame; `None`: it must be fragmented.
    pub(crate) fn frame_bytes(&self) -> Option<usize> {
        Some(HEADERS_BYTES + self.payload.len()).filter(|bytes| *bytes <= FRAME_BYTES_MAX)
    }

    /// Writes its frame into `room`, whose length is [`Datagram::frame_bytes`].
    pub(crate) fn write(&self, room: &mut [u8], own: EthernetAddress, next_hop: EthernetAddress, ident: u16) {
        write_ethernet(room, own, next_hop, EthernetProtocol::Ipv4);
        let Some(packet) = room.get_mut(ETHERNET_BYTES..) else { return };
        self.write_ip(packet, UDP_BYTES + self.payload.len(), Part { ident, offset: 0, is_last: true });
        if let Some(datagram) = packet.get_mut(IP_BYTES..) {
            self.write_udp(datagram);
        }
    }

    /// Writes the unfragmented UDP datagram with its checksum, as input for [`Datagram::fragments`].
    pub(crate) fn write_whole(&self, room: &mut alloc::vec::Vec<u8>) {
        room.clear();
        room.resize(UDP_BYTES + self.payload.len(), 0);
        self.write_udp(room);
    }

    /// Splits the result of [`Datagram::write_whole`] into fragments (RFC 791 §3.2): offset, bytes, and true for the
    /// last one.
    pub(crate) fn fragments(whole: &[u8]) -> impl Iterator<Item = (u16, &[u8], bool)> {
        let count = whole.len().div_ceil(FRAGMENT_BYTES);
        whole.chunks(FRAGMENT_BYTES).enumerate().map(move |(number, bytes)| {
            // A datagram is below 65,536 bytes.
            ((number * FRAGMENT_BYTES) as u16, bytes, number + 1 == count)
        })
    }

    /// Writes the frame of one fragment.
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
        // No overflow: longer payloads are refused before.
        let [len_high, len_low] = ((IP_BYTES + payload_len) as u16).to_be_bytes();
        let [ident_high, ident_low] = part.ident.to_be_bytes();
        let more = if part.is_last { 0 } else { MORE_FRAGMENTS };
        let [offset_high, offset_low] = (more | (part.offset / 8)).to_be_bytes();
        let mut header = [
            [VERSION_4_WITHOUT_OPTIONS, 0, len_high, len_low],
            [ident_high, ident_low, offset_high, offset_low],
            [HOP_LIMIT, IpProtocol::Udp.into(), 0, 0],
            self.from.ip().octets(),
            self.to.ip().octets(),
        ];
        let [first, second] = Sum::default().with_words(header).ip_checksum();
        header[2] = [HOP_LIMIT, IpProtocol::Udp.into(), first, second];
        write_words(room, header);
    }

    fn write_udp(&self, room: &mut [u8]) {
        // No overflow: longer payloads are refused before.
        let bytes = (UDP_BYTES + self.payload.len()) as u16;
        let ([from_high, from_low], [to_high, to_low]) =
            (self.from.port().to_be_bytes(), self.to.port().to_be_bytes());
        let [len_high, len_low] = bytes.to_be_bytes();
        let ports = [from_high, from_low, to_high, to_low];
        let sum = Sum::udp(*self.from.ip(), *self.to.ip(), bytes);
        let sum = sum.with_words([ports, [len_high, len_low, 0, 0]]).with(self.payload);
        let [first, second] = sum.udp_checksum();
        if let Some((head, rest)) = room.split_at_mut_checked(UDP_BYTES)
            && rest.len() == self.payload.len()
        {
            write_words(head, [ports, [len_high, len_low, first, second]]);
            rest.copy_from_slice(self.payload);
        }
    }
}

/// Position of a fragment in its packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) ident: u16,
    pub(crate) offset: u16,
    pub(crate) is_last: bool,
}

/// Writes an ARP request for `target` into `room` of [`ARP_FRAME_BYTES`].
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
    let Some((destination, rest)) = room.split_first_chunk_mut() else { return };
    let Some((source, rest)) = rest.split_first_chunk_mut() else { return };
    let Some((kind, _)) = rest.split_first_chunk_mut() else { return };
    (*destination, *source, *kind) = (to.0, from.0, u16::from(ethertype).to_be_bytes());
}

/// Writes a header at the start of `room`, four bytes at a time.
fn write_words<const N: usize>(room: &mut [u8], words: [[u8; 4]; N]) {
    let (places, _) = room.as_chunks_mut();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word;
    }
}

/// RFC 2131 §4.1.
const DHCP_SERVER: u8 = 67;
const DHCP_CLIENT: u8 = 68;

const PORTS_BYTES: usize = 4;

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;

/// Length of an ARP frame for Ethernet and IPv4.
pub(crate) const ARP_FRAME_BYTES: usize = ETHERNET_BYTES + 28;

/// Payload of a fragment: a multiple of 8 bytes (RFC 791 §3.2).
const FRAGMENT_BYTES: usize = (FRAME_BYTES_MAX - ETHERNET_BYTES - IP_BYTES) / 8 * 8;

/// Length of a fragment's headers.
pub(crate) const FRAGMENT_HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES;

/// Maximum payload of a datagram: 65,535 bytes minus the IP and UDP headers.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65_535 - IP_BYTES - UDP_BYTES;

/// First byte of an IPv4 header of five words.
const VERSION_4_WITHOUT_OPTIONS: u8 = 0x45;

/// Flag of a fragment that is not the last one (RFC 791 §3.1).
const MORE_FRAGMENTS: u16 = 0x2000;

/// Recommended default time to live (RFC 1700).
const HOP_LIMIT: u8 = 64;

/// Sum of 16-bit words in ones' complement, not yet folded, in native byte order; RFC 1071 §2 (B) permits any byte
/// order.
#[derive(Clone, Copy, Debug, Default)]
struct Sum(u64);

impl Sum {
    /// Sum of the pseudo-header of a UDP datagram of `bytes` bytes (RFC 768).
    pub(crate) fn udp(from: Ipv4Addr, to: Ipv4Addr, bytes: u16) -> Self {
        const UDP: u8 = 17;
        let [high, low] = bytes.to_be_bytes();
        Self::default().with_words([from.octets(), to.octets(), [0, UDP, high, low]])
    }

    /// Adds a header, four bytes at a time.
    fn with_words<const N: usize>(self, words: [[u8; 4]; N]) -> Self {
        Self(words.into_iter().fold(self.0, |sum, word| add(sum, u64::from(u32::from_ne_bytes(word)))))
    }

    /// Adds bytes. Only the last call may have an odd number of bytes; it is padded with a zero.
    pub(crate) fn with(self, bytes: &[u8]) -> Self {
        let (pairs, rest) = bytes.as_chunks::<16>();
        let mut sum = self.0;
        for pair in pairs {
            let pair = u128::from_ne_bytes(*pair);
            sum = add(add(sum, pair as u64), (pair >> 64) as u64);
        }
        let mut last = [0; 16];
        if let Some(room) = last.get_mut(..rest.len()) {
            room.copy_from_slice(rest);
        }
        let last = u128::from_ne_bytes(last);
        Self(add(add(sum, last as u64), (last >> 64) as u64))
    }

    /// The sum folded to 16 bits.
    const fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    /// True if the sum over the data and its checksum is valid.
    pub(crate) const fn is_right(self) -> bool {
        self.folded() == 0xffff
    }

    /// Checksum of the summed header (RFC 791 §3.1).
    const fn ip_checksum(self) -> [u8; 2] {
        (!self.folded()).to_ne_bytes()
    }

    /// UDP checksum of the summed data: never zero, because zero means "no checksum" (RFC 768).
    const fn udp_checksum(self) -> [u8; 2] {
        match !self.folded() {
            0 => [0xff; 2],
            checksum => checksum.to_ne_bytes(),
        }
    }
}

/// End-around carry of ones' complement addition.
#[inline(always)]
const fn add(sum: u64, word: u64) -> u64 {
    let (sum, has_carry) = sum.overflowing_add(word);
    sum + has_carry as u64
}

/// Maximum length of a frame in bytes: 1,500 after the 14-byte header (IEEE 802.3).
pub const FRAME_BYTES_MAX: usize = 1514;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{EthernetRepr, Ipv4Repr, UdpPacket, UdpRepr};

    #[test]
    fn headers_equal_those_of_smoltcp() {
        let (from, to) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 255));
        let (own, next_hop) = (EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 0xfe]));
        for len in [0, 1, 255, 1400] {
            let payload = &[0xa5; 1400][..len];
            let datagram =
                Datagram { from: SocketAddrV4::new(from, 5060), to: SocketAddrV4::new(to, 65_535), payload };
            for (ident, offset, is_last) in [(0, 0, true), (0xabcd, 0, false), (0xffff, 65_528, true)] {
                let mut theirs = alloc::vec![0; HEADERS_BYTES + len];
                let ethernet =
                    EthernetRepr { src_addr: own, dst_addr: next_hop, ethertype: EthernetProtocol::Ipv4 };
                ethernet.emit(&mut EthernetFrame::new_unchecked(&mut theirs[..]));
                let repr = Ipv4Repr {
                    src_addr: from,
                    dst_addr: to,
                    next_header: IpProtocol::Udp,
                    payload_len: UDP_BYTES + len,
                    hop_limit: HOP_LIMIT,
                };
                let mut packet = Ipv4Packet::new_unchecked(&mut theirs[ETHERNET_BYTES..]);
                repr.emit(&mut packet, &ChecksumCapabilities::ignored());
                packet.set_ident(ident);
                packet.set_dont_frag(false);
                packet.set_more_frags(!is_last);
                packet.set_frag_offset(offset);
                packet.fill_checksum();
                let udp = UdpRepr { src_port: 5060, dst_port: 65_535 };
                udp.emit(
                    &mut UdpPacket::new_unchecked(&mut theirs[ETHERNET_BYTES + IP_BYTES..]),
                    &from.into(),
                    &to.into(),
                    len,
                    |room| room.copy_from_slice(payload),
                    &ChecksumCapabilities::default(),
                );
                let mut ours = alloc::vec![0xee; HEADERS_BYTES + len];
                if (offset, is_last) == (0, true) {
                    datagram.write(&mut ours, own, next_hop, ident);
                } else {
                    let mut whole = alloc::vec::Vec::new();
                    datagram.write_whole(&mut whole);
                    let part = Part { ident, offset, is_last };
                    datagram.write_fragment(&mut ours, (own, next_hop), &whole, part);
                }
                assert_eq!(ours, theirs, "{len} {ident} {offset} {is_last}");
            }
        }
    }

    const FROM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const TO: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 255);

    /// Datagrams of every length with random bytes, and with bytes that produce the most carries.
    #[test]
    fn the_checksum_equals_that_of_smoltcp() {
        let mut state = 1_u64;
        for len in 8..200_usize {
            for fill in [None, Some(0), Some(0xff)] {
                let mut next = || {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    fill.unwrap_or((state >> 33) as u8)
                };
                let mut bytes: Vec<u8> = (0..len).map(|_| next()).collect();
                bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                let mut packet = UdpPacket::new_unchecked(&mut bytes[..]);
                packet.fill_checksum(&FROM.into(), &TO.into());
                let sum = |bytes: &[u8]| Sum::udp(FROM, TO, len as u16).with(bytes);
                assert!(sum(&bytes).is_right(), "{len}");
                let theirs = [bytes[6], bytes[7]];
                bytes[6..8].fill(0);
                assert_eq!(sum(&bytes).udp_checksum(), theirs, "{len}");
                bytes[0] ^= 0x10;
                bytes[6..8].copy_from_slice(&theirs);
                assert!(!sum(&bytes).is_right(), "{len}");
            }
        }
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_ones() {
        // The pseudo-header and this datagram have a sum of 0xffff.
        let sum = Sum::udp(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, 8);
        let missing = !sum.folded();
        assert_eq!(sum.with(&missing.to_ne_bytes()).udp_checksum(), [0xff; 2]);
    }
}

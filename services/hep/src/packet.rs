//! HEP3 packets: "Encapsulation Protocol" of the HEP working group, revision 13.
//!
//! A packet is `HEP3`, its length in 16 bits, and chunks: vendor (0), type, length, value. Numbers are in network order.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A captured message and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Source; of the same address family as the destination.
    pub source: SocketAddr,
    /// Destination.
    pub destination: SocketAddr,
    /// Protocol that carried the message.
    pub protocol: TransportProtocol,
    /// Time since the epoch.
    pub time: Duration,
    /// SIP message. At most [`PAYLOAD_BYTES_MAX`] bytes.
    pub payload: &'a [u8],
}

/// Writer of packets: everything before the payload, as it is for each packet of one capture agent.
#[derive(Clone)]
pub struct PacketWriter {
    ipv4: Vec<u8>,
    ipv6: Vec<u8>,
}

/// Protocol under SIP, by its number (IANA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportProtocol {
    /// TCP; also under TLS and WebSocket.
    Tcp,
    /// UDP; also under DTLS.
    Udp,
}

/// Error of a payload or a password that does not fit into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl PacketWriter {
    /// Prepares the packets of an agent. `capture_id`: its number; `password`: key for the collector; empty: none.
    ///
    /// # Errors
    /// The password has more than [`PASSWORD_BYTES_MAX`] bytes.
    pub fn new(capture_id: u32, password: &[u8]) -> Result<Self, TooLong> {
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(TooLong);
        }
        let head = |family, addresses: &dyn Fn(&mut Vec<u8>)| {
            let mut out = b"HEP3\0\0".to_vec();
            chunk(&mut out, Chunk::Family, &[family]);
            chunk(&mut out, Chunk::Protocol, &[0]);
            addresses(&mut out);
            chunk(&mut out, Chunk::SourcePort, &[0; 2]);
            chunk(&mut out, Chunk::DestinationPort, &[0; 2]);
            chunk(&mut out, Chunk::Seconds, &[0; 4]);
            chunk(&mut out, Chunk::Microseconds, &[0; 4]);
            chunk(&mut out, Chunk::PayloadType, &[PAYLOAD_SIP]);
            chunk(&mut out, Chunk::CaptureId, &capture_id.to_be_bytes());
            if !password.is_empty() {
                chunk(&mut out, Chunk::Key, password);
            }
            chunk(&mut out, Chunk::Payload, b"");
            out
        };
        let ipv4 = head(FAMILY_IPV4, &|out| {
            chunk(out, Chunk::SourceIpv4, &[0; 4]);
            chunk(out, Chunk::DestinationIpv4, &[0; 4]);
        });
        let ipv6 = head(FAMILY_IPV6, &|out| {
            chunk(out, Chunk::SourceIpv6, &[0; 16]);
            chunk(out, Chunk::DestinationIpv6, &[0; 16]);
        });
        Ok(Self { ipv4, ipv6 })
    }

    /// Appends a packet, or nothing.
    ///
    /// # Errors
    /// The payload is too long.
    pub fn write(&self, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let payload = packet.payload;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(TooLong);
        }
        let start = out.len();
        let head = match (packet.source.ip(), packet.destination.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) => &self.ipv4,
            _ => &self.ipv6,
        };
        out.reserve(head.len() + payload.len());
        out.extend_from_slice(head);
        if let Some(written) = out.get_mut(start..) {
            fill(written, packet);
        }
        out.extend_from_slice(payload);
        Ok(())
    }
}

/// Writes the values of a packet over the zeros of its head, whose chunks have fixed positions.
fn fill(head: &mut [u8], packet: &Packet<'_>) {
    let len = (head.len() + packet.payload.len()) as u16;
    let payload_len = (CHUNK_HEADER + packet.payload.len()) as u16;
    let protocol = match packet.protocol {
        TransportProtocol::Tcp => 6,
        TransportProtocol::Udp => 17,
    };
    put(head, 4, len.to_be_bytes());
    put(head, PROTOCOL_AT, [protocol]);
    let ports_at = match (packet.source.ip(), packet.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            put(head, ADDRESSES_AT, source.octets());
            put(head, ADDRESSES_AT + CHUNK_HEADER + 4, destination.octets());
            ADDRESSES_AT + 2 * (CHUNK_HEADER + 4)
        }
        (source, destination) => {
            put(head, ADDRESSES_AT, octets(source));
            put(head, ADDRESSES_AT + CHUNK_HEADER + 16, octets(destination));
            ADDRESSES_AT + 2 * (CHUNK_HEADER + 16)
        }
    };
    put(head, ports_at, packet.source.port().to_be_bytes());
    put(head, ports_at + 8, packet.destination.port().to_be_bytes());
    // 32 bits of seconds last until 2106.
    put(head, ports_at + 16, (packet.time.as_secs() as u32).to_be_bytes());
    put(head, ports_at + 26, packet.time.subsec_micros().to_be_bytes());
    let payload_len_at = head.len().saturating_sub(2);
    put(head, payload_len_at, payload_len.to_be_bytes());
}

fn put<const N: usize>(head: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = head.get_mut(at..at + N) {
        field.copy_from_slice(&value);
    }
}

/// Length of the packet at the start of these bytes; `None` if it is not complete.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let &[high, low] = bytes.get(4..6)? else { return None };
    let len = usize::from(u16::from_be_bytes([high, low]));
    (len >= 6 && len <= bytes.len()).then_some(len)
}

#[derive(Clone, Copy)]
enum Chunk {
    Family = 1,
    Protocol = 2,
    SourceIpv4 = 3,
    DestinationIpv4 = 4,
    SourceIpv6 = 5,
    DestinationIpv6 = 6,
    SourcePort = 7,
    DestinationPort = 8,
    Seconds = 9,
    Microseconds = 10,
    PayloadType = 11,
    CaptureId = 12,
    Key = 14,
    Payload = 15,
}

fn chunk(out: &mut Vec<u8>, kind: Chunk, value: &[u8]) {
    let [kind_high, kind_low] = (kind as u16).to_be_bytes();
    let [len_high, len_low] = ((CHUNK_HEADER + value.len()) as u16).to_be_bytes();
    out.extend_from_slice(&[0, 0, kind_high, kind_low, len_high, len_low]);
    out.extend_from_slice(value);
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Maximum length of a captured message. A packet of it fits into a datagram.
pub const PAYLOAD_BYTES_MAX: usize = 65_000;
/// Maximum length of the key.
pub const PASSWORD_BYTES_MAX: usize = 128;

const CHUNK_HEADER: usize = 6;
/// Positions of the values of the second and third chunk; the first follows six bytes of the header and has one byte.
const PROTOCOL_AT: usize = 6 + 7 + CHUNK_HEADER;
const ADDRESSES_AT: usize = PROTOCOL_AT + 1 + CHUNK_HEADER;
const FAMILY_IPV4: u8 = 2;
/// `AF_INET6` of Linux, as the specification has it.
const FAMILY_IPV6: u8 = 10;
const PAYLOAD_SIP: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet<'a>(source: &str, destination: &str, payload: &'a [u8]) -> Packet<'a> {
        Packet {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: TransportProtocol::Udp,
            time: Duration::new(0x6543_2100, 7_000),
            payload,
        }
    }

    fn writer(password: &[u8]) -> PacketWriter {
        PacketWriter::new(2001, password).unwrap()
    }

    #[test]
    fn a_packet_has_the_bytes_of_the_specification() {
        let mut out = b"before".to_vec();
        writer(b"").write(&packet("192.0.2.1:5060", "192.0.2.20:5080", b"OPTIONS"), &mut out).unwrap();
        let expected: &[&[u8]] = &[
            b"beforeHEP3\x00\x6a",
            b"\0\0\0\x01\0\x07\x02",
            b"\0\0\0\x02\0\x07\x11",
            b"\0\0\0\x03\0\x0a\xc0\x00\x02\x01",
            b"\0\0\0\x04\0\x0a\xc0\x00\x02\x14",
            b"\0\0\0\x07\0\x08\x13\xc4",
            b"\0\0\0\x08\0\x08\x13\xd8",
            b"\0\0\0\x09\0\x0a\x65\x43\x21\x00",
            b"\0\0\0\x0a\0\x0a\0\0\0\x07",
            b"\0\0\0\x0b\0\x07\x01",
            b"\0\0\0\x0c\0\x0a\0\0\x07\xd1",
            b"\0\0\0\x0f\0\x0dOPTIONS",
        ];
        assert_eq!(out, expected.concat());
        assert_eq!(length(&out[6..]), Some(0x6a));
    }

    #[test]
    fn an_ipv6_packet_with_a_key() {
        let mut out = Vec::new();
        let packet = packet("[2001:db8::1]:5060", "[2001:db8::2]:5060", b"x");
        writer(b"key").write(&Packet { protocol: TransportProtocol::Tcp, ..packet }, &mut out).unwrap();
        assert!(
            out.starts_with(b"HEP3\0\x85\0\0\0\x01\0\x07\x0a\0\0\0\x02\0\x07\x06\0\0\0\x05\0\x16\x20\x01")
        );
        let ports = b"\x01\0\0\0\x06\0\x16\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x07\0\x08\x13\xc4\0\0\0\x08\0\x08\x13\xc4";
        assert!(out.windows(ports.len()).any(|found| found == ports));
        assert!(out.ends_with(b"\0\0\0\x0e\0\x09key\0\0\0\x0f\0\x07x"));
        assert_eq!(length(&out), Some(out.len()));
    }

    #[test]
    fn the_longest_message_fits_into_a_datagram_and_a_longer_one_into_nothing() {
        let payload = vec![b'x'; PAYLOAD_BYTES_MAX + 1];
        let mut out = Vec::new();
        let keyed = writer(&[b'k'; PASSWORD_BYTES_MAX]);
        keyed.write(&packet("[::1]:1", "[::1]:2", &payload[1..]), &mut out).unwrap();
        assert!(out.len() <= 65_507 && length(&out) == Some(out.len()), "{}", out.len());
        assert_eq!(keyed.write(&packet("[::1]:1", "[::1]:2", &payload), &mut out), Err(TooLong));
        assert!(PacketWriter::new(1, &[b'k'; PASSWORD_BYTES_MAX + 1]).is_err());
        assert_eq!(length(&out), Some(out.len()), "nothing was appended");
        assert_eq!(length(b"HEP3\0"), None);
        assert_eq!(length(b"HEP3\0\0"), None);
    }
}

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
    /// Number of the capture agent.
    pub capture_id: u32,
    /// Key for the collector; empty: none. At most [`PASSWORD_BYTES_MAX`] bytes.
    pub password: &'a [u8],
    /// SIP message. At most [`PAYLOAD_BYTES_MAX`] bytes.
    pub payload: &'a [u8],
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

impl Packet<'_> {
    /// Appends the packet, or nothing.
    ///
    /// # Errors
    /// The payload or the password is too long.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        if self.payload.len() > PAYLOAD_BYTES_MAX || self.password.len() > PASSWORD_BYTES_MAX {
            return Err(TooLong);
        }
        let start = out.len();
        out.reserve(OVERHEAD_MAX + self.password.len() + self.payload.len());
        out.extend_from_slice(b"HEP3\0\0");
        let (family, protocol) = (
            if self.source.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 },
            match self.protocol {
                TransportProtocol::Tcp => 6,
                TransportProtocol::Udp => 17,
            },
        );
        chunk(out, Chunk::Family, &[family]);
        chunk(out, Chunk::Protocol, &[protocol]);
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                chunk(out, Chunk::SourceIpv4, &source.octets());
                chunk(out, Chunk::DestinationIpv4, &destination.octets());
            }
            (source, destination) => {
                chunk(out, Chunk::SourceIpv6, &octets(source));
                chunk(out, Chunk::DestinationIpv6, &octets(destination));
            }
        }
        chunk(out, Chunk::SourcePort, &self.source.port().to_be_bytes());
        chunk(out, Chunk::DestinationPort, &self.destination.port().to_be_bytes());
        // 32 bits of seconds last until 2106.
        chunk(out, Chunk::Seconds, &(self.time.as_secs() as u32).to_be_bytes());
        chunk(out, Chunk::Microseconds, &self.time.subsec_micros().to_be_bytes());
        chunk(out, Chunk::PayloadType, &[PAYLOAD_SIP]);
        chunk(out, Chunk::CaptureId, &self.capture_id.to_be_bytes());
        if !self.password.is_empty() {
            chunk(out, Chunk::Key, self.password);
        }
        chunk(out, Chunk::Payload, self.payload);
        let len = (out.len() - start) as u16;
        if let Some(field) = out.get_mut(start + 4..start + 6) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        Ok(())
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
/// Bytes of the header and of all chunks without key and payload, IPv6.
const OVERHEAD_MAX: usize = 160;
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
            capture_id: 2001,
            password: b"",
            payload,
        }
    }

    #[test]
    fn a_packet_has_the_bytes_of_the_specification() {
        let mut out = b"before".to_vec();
        packet("192.0.2.1:5060", "192.0.2.20:5080", b"OPTIONS").write(&mut out).unwrap();
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
        Packet { password: b"key", protocol: TransportProtocol::Tcp, ..packet }.write(&mut out).unwrap();
        assert!(
            out.starts_with(b"HEP3\0\x85\0\0\0\x01\0\x07\x0a\0\0\0\x02\0\x07\x06\0\0\0\x05\0\x16\x20\x01")
        );
        assert!(out.ends_with(b"\0\0\0\x0e\0\x09key\0\0\0\x0f\0\x07x"));
        assert_eq!(length(&out), Some(out.len()));
    }

    #[test]
    fn the_longest_message_fits_into_a_datagram_and_a_longer_one_into_nothing() {
        let payload = vec![b'x'; PAYLOAD_BYTES_MAX + 1];
        let mut out = Vec::new();
        let longest = packet("[::1]:1", "[::1]:2", &payload[1..]);
        Packet { password: &[b'k'; PASSWORD_BYTES_MAX], ..longest }.write(&mut out).unwrap();
        assert!(out.len() <= 65_507 && length(&out) == Some(out.len()), "{}", out.len());
        assert_eq!(packet("[::1]:1", "[::1]:2", &payload).write(&mut out), Err(TooLong));
        let key = [b'k'; PASSWORD_BYTES_MAX + 1];
        let keyed = Packet { password: &key, ..packet("[::1]:1", "[::1]:2", b"") };
        assert_eq!(keyed.write(&mut out), Err(TooLong));
        assert_eq!(length(&out), Some(out.len()), "nothing was appended");
        assert_eq!(length(b"HEP3\0"), None);
        assert_eq!(length(b"HEP3\0\0"), None);
    }
}

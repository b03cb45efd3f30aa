//! Header of the PROXY protocol, version 2 (HAProxy's proxy-protocol.txt §2.2), with which a proxy in front says whose
//! connection it passes on.
//!
//! ```text
//! signature (12) | version, command (1) | family, protocol (1) | length (2) | addresses (12 or 36) | TLVs
//!                                                                           '------- length -----------'
//! ```
//! The text form, version 1, is refused. TLVs are skipped with the rest of the length and nothing of them is used: also a
//! checksum (`PP2_TYPE_CRC32C`) is not verified, because TCP has one, and who can write a header can write its checksum.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use ringway_sansio::Flow;

/// Reader of the header at the start of a connection, before all layers.
///
/// The caller passes bytes as they arrive. It needs no allocation: the TLVs are counted, and not kept.
///
/// ```
/// use ringway_stream::{ProxiedPeer, ProxyHeader};
///
/// let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6\x33\x64\x09\xc0\0\x02\x0a\xc0\0\x13\xc4";
/// let mut reader = ProxyHeader::new();
/// assert_eq!(reader.receive(&header[..20]), Ok(None));
/// assert_eq!(reader.missing(), 8);
/// let bytes = [&header[20..], b"OPTIONS"].concat();
/// let peer = ProxiedPeer::Client("198.51.100.9:49152".parse().unwrap());
/// assert_eq!(reader.receive(&bytes), Ok(Some((peer, &b"OPTIONS"[..]))));
/// ```
#[derive(Clone, Debug)]
pub struct ProxyHeader {
    kept: [u8; KEPT_BYTES],
    received: usize,
}

/// Peer of a connection that a header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxiedPeer {
    /// The proxy itself, as for its health checks: command LOCAL.
    Proxy,
    /// The proxy's client, in [canonical](Flow::canonical) form: command PROXY.
    Client(SocketAddr),
}

/// Reason to close a connection because of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// The first bytes are other ones than the signature: no header, or one of version 1.
    #[error("no header of version 2 of the PROXY protocol")]
    Signature,
    /// The signature is followed by another version than 2.
    #[error("another version than 2")]
    Version,
    /// Neither LOCAL nor PROXY.
    #[error("unknown command")]
    Command,
    /// Command PROXY without a TCP connection over IPv4 or IPv6, or with fewer bytes than its addresses have.
    #[error("no addresses of a TCP connection")]
    Family,
    /// Longer than [`ProxyHeader::BYTES_MAX`].
    #[error("longer than {} bytes", ProxyHeader::BYTES_MAX)]
    TooLong,
    /// The client's address is none that a host can connect from.
    #[error("unspecified, multicast or broadcast address")]
    Address,
}

impl ProxyHeader {
    /// Maximum length of a header in bytes. The specification has every receiver accept 536; the certificate of a TLS client takes more.
    pub const BYTES_MAX: usize = 4096;

    /// Creates a reader that has received nothing.
    pub const fn new() -> Self {
        Self { kept: [0; KEPT_BYTES], received: 0 }
    }

    /// Handles received bytes. Returns the peer and the bytes behind the header when it is complete; then the reader has
    /// ended.
    ///
    /// # Errors
    /// The connection must be closed: at the first byte that no valid header has.
    pub fn receive<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(ProxiedPeer, &'b [u8])>, ProxyHeaderError> {
        let mut rest = bytes;
        loop {
            let (taken, left) = rest.split_at(self.missing().min(rest.len()));
            if let Some(free) = self.kept.get_mut(self.received..) {
                free.iter_mut().zip(taken).for_each(|(to, from)| *to = *from);
            }
            self.received += taken.len();
            rest = left;
            self.check()?;
            if self.missing() == 0 {
                return self.peer().map(|peer| Some((peer, rest)));
            }
            if rest.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Number of bytes that can be read without one behind the header: the rest of its fixed part, then all that its length
    /// names. 0: the header is complete.
    pub fn missing(&self) -> usize {
        self.bytes().unwrap_or(FIXED_BYTES) - self.received
    }

    /// True if the peer has sent nothing yet.
    pub const fn is_empty(&self) -> bool {
        self.received == 0
    }

    /// Length of the header; `None` before its fixed part is complete.
    fn bytes(&self) -> Option<usize> {
        let [.., high, low] = self.fixed();
        (self.received >= FIXED_BYTES).then(|| FIXED_BYTES + usize::from(u16::from_be_bytes([high, low])))
    }

    /// Checks the bytes that have arrived.
    fn check(&self) -> Result<(), ProxyHeaderError> {
        let arrived = self.received.min(SIGNATURE.len());
        if self.kept.get(..arrived) != SIGNATURE.get(..arrived) {
            return Err(ProxyHeaderError::Signature);
        }
        let [.., version_and_command, family, _, _] = self.fixed();
        if self.received > SIGNATURE.len() {
            if version_and_command >> 4 != 2 {
                return Err(ProxyHeaderError::Version);
            }
            if version_and_command & 0xf > PROXY {
                return Err(ProxyHeaderError::Command);
            }
        }
        let Some(bytes) = self.bytes() else { return Ok(()) };
        if bytes > Self::BYTES_MAX {
            return Err(ProxyHeaderError::TooLong);
        }
        let needed = match (version_and_command & 0xf, family) {
            (LOCAL, _) => 0,
            (_, TCP_OVER_IPV4) => 12,
            (_, TCP_OVER_IPV6) => 36,
            _ => return Err(ProxyHeaderError::Family),
        };
        if bytes < FIXED_BYTES + needed { Err(ProxyHeaderError::Family) } else { Ok(()) }
    }

    /// Peer of a complete and checked header. The destination is not used.
    fn peer(&self) -> Result<ProxiedPeer, ProxyHeaderError> {
        let [.., version_and_command, family, _, _] = self.fixed();
        if version_and_command & 0xf == LOCAL {
            return Ok(ProxiedPeer::Proxy);
        }
        let addresses = self.kept.get(FIXED_BYTES..).unwrap_or_default();
        let read = match family {
            TCP_OVER_IPV4 => {
                let (ip, port) = (addresses.first_chunk::<4>(), addresses.get(8..10));
                ip.map(|ip| IpAddr::V4(Ipv4Addr::from(*ip))).zip(port)
            }
            _ => {
                let (ip, port) = (addresses.first_chunk::<16>(), addresses.get(32..34));
                ip.map(|ip| IpAddr::V6(Ipv6Addr::from(*ip))).zip(port)
            }
        };
        let Some((ip, &[high, low])) = read else { return Err(ProxyHeaderError::Family) };
        let client = Flow::canonical(SocketAddr::new(ip, u16::from_be_bytes([high, low])));
        match client.ip() {
            ip if ip.is_unspecified() || ip.is_multicast() => Err(ProxyHeaderError::Address),
            IpAddr::V4(Ipv4Addr::BROADCAST) => Err(ProxyHeaderError::Address),
            _ => Ok(ProxiedPeer::Client(client)),
        }
    }

    /// The fixed part; zeros where nothing has arrived.
    fn fixed(&self) -> [u8; FIXED_BYTES] {
        self.kept.first_chunk().copied().unwrap_or_default()
    }
}

impl Default for ProxyHeader {
    fn default() -> Self {
        Self::new()
    }
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and protocol, length.
const FIXED_BYTES: usize = 16;

/// The fixed part and the addresses of IPv6.
const KEPT_BYTES: usize = FIXED_BYTES + 36;

const LOCAL: u8 = 0;
const PROXY: u8 = 1;

/// `AF_INET` and `STREAM`.
const TCP_OVER_IPV4: u8 = 0x11;

/// `AF_INET6` and `STREAM`.
const TCP_OVER_IPV6: u8 = 0x21;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use std::format;

    const IPV4: [u8; 12] = [198, 51, 100, 9, 192, 0, 2, 10, 0xc0, 0x00, 0x13, 0xc4];

    /// A header with this command byte, family byte, and bytes behind the length.
    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, body].concat()
    }

    fn ipv6(ip: &str, port: u16) -> Vec<u8> {
        let ip: Ipv6Addr = ip.parse().unwrap();
        [&ip.octets()[..], &[0; 16], &port.to_be_bytes(), &[0, 80]].concat()
    }

    fn client(text: &str) -> ProxiedPeer {
        ProxiedPeer::Client(text.parse().unwrap())
    }

    /// Result of all bytes at once.
    fn read(bytes: &[u8]) -> Result<Option<(ProxiedPeer, Vec<u8>)>, ProxyHeaderError> {
        let read = ProxyHeader::new().receive(bytes);
        read.map(|complete| complete.map(|(peer, rest)| (peer, rest.to_vec())))
    }

    /// Headers that are accepted, with their peer.
    fn accepted() -> Vec<(Vec<u8>, ProxiedPeer)> {
        let tlvs = [&IPV4[..], &[0x03, 0, 4, 1, 2, 3, 4], &[0xee, 0xff, 0xff, 0]].concat();
        let longest = [&IPV4[..], &[0xaa; ProxyHeader::BYTES_MAX - FIXED_BYTES - 12]].concat();
        Vec::from([
            (header(0x21, 0x11, &IPV4), client("198.51.100.9:49152")),
            (header(0x21, 0x11, &tlvs), client("198.51.100.9:49152")),
            (header(0x21, 0x11, &longest), client("198.51.100.9:49152")),
            (header(0x21, 0x21, &ipv6("2001:db8::9", 5061)), client("[2001:db8::9]:5061")),
            (header(0x21, 0x21, &ipv6("::ffff:192.0.2.1", 1)), client("192.0.2.1:1")),
            (header(0x21, 0x21, &ipv6("::1", 7)), client("[::1]:7")),
            (header(0x20, 0x00, &[]), ProxiedPeer::Proxy),
            (header(0x20, 0x11, &IPV4), ProxiedPeer::Proxy),
            (header(0x20, 0xff, &[1, 2, 3]), ProxiedPeer::Proxy),
        ])
    }

    #[test]
    fn a_header_is_read_in_any_split_and_what_follows_is_left() {
        let message = b"OPTIONS sip:a SIP/2.0\r\n";
        for (header, peer) in accepted() {
            assert_eq!(read(&header), Ok(Some((peer, Vec::new()))), "{header:?}");
            let bytes = [&header[..], message].concat();
            // In two parts, split at each byte, also in the message.
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                let mut reader = ProxyHeader::new();
                let complete = match reader.receive(first).unwrap() {
                    Some((peer, rest)) => Some((peer, [rest, second].concat())),
                    None => {
                        assert!(at < header.len() && reader.missing() > 0, "{at}");
                        reader.receive(second).unwrap().map(|(peer, rest)| (peer, rest.to_vec()))
                    }
                };
                assert_eq!(complete, Some((peer, message.to_vec())), "{at}");
            }
            // In parts of each size.
            for size in 1..=header.len() {
                let mut reader = ProxyHeader::new();
                let complete = bytes.chunks(size).find_map(|part| reader.receive(part).unwrap());
                let (read, rest) = complete.unwrap();
                assert_eq!((read, rest), (peer, &bytes[header.len()..header.len() + rest.len()]), "{size}");
            }
        }
    }

    #[test]
    fn who_reads_what_is_missing_reads_no_byte_behind_the_header() {
        for (header, peer) in accepted() {
            let (mut reader, mut at, mut reads) = (ProxyHeader::new(), 0, 0);
            let complete = loop {
                let missing = reader.missing();
                assert!(missing > 0 && at + missing <= header.len());
                let part = &header[at..at + missing];
                (at, reads) = (at + missing, reads + 1);
                if let Some(complete) = reader.receive(part).unwrap() {
                    break complete;
                }
            };
            assert_eq!((complete, at), ((peer, &[][..]), header.len()));
            assert!(reads <= 2, "the fixed part, then the rest");
        }
    }

    #[test]
    fn a_truncated_header_is_no_header() {
        for (header, _) in accepted() {
            for end in 0..header.len() {
                assert_eq!(read(&header[..end]), Ok(None), "{end}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused_at_its_first_wrong_byte() {
        use ProxyHeaderError::{Address, Command, Family, Signature, TooLong, Version};
        let long = [&IPV4[..], &[0; ProxyHeader::BYTES_MAX - FIXED_BYTES - 11]].concat();
        let of_ipv4 = |source: [u8; 4]| [&source[..], &IPV4[4..]].concat();
        let refused: [(Vec<u8>, ProxyHeaderError, usize); 24] = [
            (b"PROXY TCP4 198.51.100.9 192.0.2.10 49152 5060\r\n".to_vec(), Signature, 1),
            (b"REGISTER sip:example.org SIP/2.0\r\n".to_vec(), Signature, 1),
            (b"\x16\x03\x01\x02\0\x01\0".to_vec(), Signature, 1),
            (b"\r\n\r\nOPTIONS".to_vec(), Signature, 5),
            (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), Signature, 12),
            (b"\0".to_vec(), Signature, 1),
            (header(0x11, 0x11, &IPV4), Version, 13),
            (header(0x01, 0x11, &IPV4), Version, 13),
            (header(0x31, 0x11, &IPV4), Version, 13),
            (header(0x22, 0x11, &IPV4), Command, 13),
            (header(0x2f, 0x11, &IPV4), Command, 13),
            (header(0x21, 0x00, &IPV4), Family, 16),
            (header(0x21, 0x00, &[]), Family, 16),
            (header(0x21, 0x12, &IPV4), Family, 16),
            (header(0x21, 0x10, &IPV4), Family, 16),
            (header(0x21, 0x31, &[0; 216]), Family, 16),
            (header(0x21, 0x41, &IPV4), Family, 16),
            (header(0x21, 0x11, &IPV4[..11]), Family, 16),
            (header(0x21, 0x21, &ipv6("2001:db8::9", 1)[..35]), Family, 16),
            (header(0x21, 0x21, &IPV4), Family, 16),
            (header(0x21, 0x11, &long), TooLong, 16),
            (header(0x20, 0x00, &[0; 0xffff]), TooLong, 16),
            (header(0x21, 0x11, &of_ipv4([224, 0, 1, 75])), Address, 28),
            (header(0x21, 0x21, &ipv6("::", 1)), Address, 52),
        ];
        for (bytes, why, at) in refused {
            let shown = &bytes[..bytes.len().min(52)];
            let mut reader = ProxyHeader::new();
            let first = bytes.iter().position(|byte| reader.receive(&[*byte]).is_err());
            assert_eq!(first, Some(at - 1), "{shown:?}");
            assert_eq!(read(&bytes), Err(why), "{shown:?}");
        }
        for source in [[0; 4], [255; 4]] {
            assert_eq!(read(&header(0x21, 0x11, &of_ipv4(source))), Err(Address));
        }
    }

    #[test]
    fn no_bytes_make_it_read_more_than_the_limit() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let mut ends = [0; 3];
        for _ in 0..20_000 {
            let mut bytes =
                header(0x20 | next() & 1, [0x11, 0x21, 0x11, next()][usize::from(next() & 3)], &[]);
            bytes[14..].copy_from_slice(&[next() & next() & next() & 0x1f, next()]);
            bytes.extend((0..8300).map(|_| next()));
            let mut reader = ProxyHeader::new();
            match reader.receive(&bytes) {
                Ok(Some((_, rest))) => {
                    assert!(bytes.len() - rest.len() <= ProxyHeader::BYTES_MAX, "{:?}", &bytes[..16]);
                    ends[0] += 1;
                }
                Ok(None) => ends[1] += 1,
                Err(_) => ends[2] += 1,
            }
        }
        assert!(ends[0] > 1000 && ends[1] == 0 && ends[2] > 1000, "{ends:?}");
    }

    #[test]
    fn an_error_says_what_is_wrong() {
        assert!(format!("{}", ProxyHeaderError::TooLong).contains("4096"));
    }
}

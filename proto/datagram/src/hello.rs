//! The ClientHello that begins an association: records of a datagram (RFC 6347 §4.1), the answer that demands a cookie
//! (§4.2.1), and cookies, which prove a client's address without state.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::{Instant, Seed};
use sha2::Sha256;

/// A complete ClientHello that is alone in its datagram. Nothing of it is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// Sequence number of its record.
    pub record_sequence: u64,
    /// Number of the handshake message: 0 for the first ClientHello, 1 for the one after a HelloVerifyRequest.
    pub message_sequence: u16,
    /// Cookie; empty in a first ClientHello.
    pub cookie: &'a [u8],
    /// Version and random.
    head: &'a [u8],
    cipher_suites: &'a [u8],
    compression_methods: &'a [u8],
    extensions: &'a [u8],
    /// Compression methods and extensions with their lengths, as on the wire.
    tail: &'a [u8],
}

/// Reason why a datagram is not a ClientHello that can begin an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHello {
    /// It is something else, or malformed.
    Malformed,
    /// It is a fragment of a ClientHello: to join fragments needs state.
    Fragmented,
    /// The client has no DTLS 1.2.
    Version,
}

impl<'a> ClientHello<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    /// The datagram is not one complete ClientHello.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, NotHello> {
        let mut records = Records::of(datagram);
        let record = records.next().ok_or(NotHello::Malformed)?;
        // RFC 6347 §4.2.2 permits more; no client sends more before it has a cookie.
        if record.content_type != ContentType::Handshake || record.epoch != 0 || !records.rest().is_empty() {
            return Err(NotHello::Malformed);
        }
        let mut message = Reader { rest: record.payload };
        let [kind] = message.array()?;
        let length = message.number(3)?;
        let message_sequence = message.number(2)? as u16;
        let (offset, fragment) = (message.number(3)?, message.number(3)?);
        if kind != CLIENT_HELLO {
            return Err(NotHello::Malformed);
        }
        if offset != 0 || fragment != length {
            return Err(NotHello::Fragmented);
        }
        if message.rest.len() != length {
            return Err(NotHello::Malformed);
        }
        let head = message.take(HEAD_BYTES)?;
        // No session is resumed, and who takes the ID for something else reads all behind it as something else.
        let session_id = message.vector(1)?;
        let cookie = message.vector(1)?;
        let cipher_suites = message.vector(2)?;
        let tail = message.rest;
        let compression_methods = message.vector(1)?;
        let extensions = if message.rest.is_empty() { &[][..] } else { message.vector(2)? };
        let is_valid = message.rest.is_empty()
            && session_id.is_empty()
            && !cipher_suites.is_empty()
            && cipher_suites.len().is_multiple_of(2)
            && !compression_methods.is_empty()
            && are_sound_extensions(extensions);
        if !is_valid {
            return Err(NotHello::Malformed);
        }
        match head {
            [0xfe, 0xfd, ..] => {}
            [0xfe, 0xff, ..] => return Err(NotHello::Version),
            _ => return Err(NotHello::Malformed),
        }
        Ok(Self {
            record_sequence: record.sequence,
            message_sequence,
            cookie,
            head,
            cipher_suites,
            compression_methods,
            extensions,
            tail,
        })
    }

    /// Fields that must be the same in the ClientHello with a cookie (RFC 6347 §4.2.1): version and random, cipher suites,
    /// compression methods; the session ID is empty.
    const fn parameters(&self) -> [&'a [u8]; 3] {
        [self.head, self.cipher_suites, self.compression_methods]
    }

    /// Host name that the client asks for (RFC 6066 §3).
    pub fn server_name(&self) -> Option<&'a str> {
        let mut extensions = Reader { rest: self.extensions };
        while let Ok(kind) = extensions.number(2) {
            let mut extension = Reader { rest: extensions.vector(2).ok()? };
            if kind != SERVER_NAME {
                continue;
            }
            let mut names = Reader { rest: extension.vector(2).ok()? };
            let [HOST_NAME] = names.array().ok()? else { return None };
            return core::str::from_utf8(names.vector(2).ok()?).ok();
        }
        None
    }

    /// Appends the datagram of the ClientHello that came before this one: without a cookie, with the numbers 0.
    pub fn write_first(&self, out: &mut Vec<u8>) {
        let length = HEAD_BYTES + 1 + 1 + 2 + self.cipher_suites.len() + self.tail.len();
        write_headers(out, [0xfe, 0xfd], 0, CLIENT_HELLO, 0, length);
        out.extend_from_slice(self.head);
        // Session ID and cookie: empty.
        out.push(0);
        out.push(0);
        out.extend_from_slice(&(self.cipher_suites.len() as u16).to_be_bytes());
        out.extend_from_slice(self.cipher_suites);
        out.extend_from_slice(self.tail);
    }
}

/// Appends the HelloVerifyRequest that answers a first ClientHello.
///
/// RFC 6347 §4.2.1: its version is that of DTLS 1.0, and its record has the sequence number of the ClientHello's.
pub fn write_hello_verify_request(hello: &ClientHello<'_>, cookie: &[u8; COOKIE_BYTES], out: &mut Vec<u8>) {
    let dtls_1_0 = [0xfe, 0xff];
    let (kind, message_sequence) = (HELLO_VERIFY_REQUEST, hello.message_sequence);
    write_headers(out, dtls_1_0, hello.record_sequence, kind, message_sequence, 3 + COOKIE_BYTES);
    out.extend_from_slice(&dtls_1_0);
    out.push(COOKIE_BYTES as u8);
    out.extend_from_slice(cookie);
}

/// Length of a cookie in bytes.
pub const COOKIE_BYTES: usize = 20;

/// Length of the datagram of a HelloVerifyRequest in bytes: shorter than any ClientHello.
pub const HELLO_VERIFY_REQUEST_BYTES: usize = RECORD_HEADER_BYTES + MESSAGE_HEADER_BYTES + 3 + COOKIE_BYTES;

/// Headers of a record with one unfragmented handshake message of `length` bytes.
fn write_headers(
    out: &mut Vec<u8>,
    version: [u8; 2],
    record_sequence: u64,
    kind: u8,
    message_sequence: u16,
    length: usize,
) {
    out.push(22);
    out.extend_from_slice(&version);
    out.extend_from_slice(&record_sequence.to_be_bytes());
    out.extend_from_slice(&((length + MESSAGE_HEADER_BYTES) as u16).to_be_bytes());
    let [_, length @ ..] = (length as u32).to_be_bytes();
    out.push(kind);
    out.extend_from_slice(&length);
    out.extend_from_slice(&message_sequence.to_be_bytes());
    out.extend_from_slice(&[0; 3]);
    out.extend_from_slice(&length);
}

/// True for complete extensions, each type once (RFC 5246 §7.4.1.4), whose lists are as long as they say. Who reads a list
/// beyond its extension reads all others again for each.
fn are_sound_extensions(extensions: &[u8]) -> bool {
    let mut kinds = [0; EXTENSIONS_MAX];
    let mut count = 0;
    let mut reader = Reader { rest: extensions };
    while !reader.rest.is_empty() {
        let Ok(kind) = reader.number(2) else { return false };
        let Ok(body) = reader.vector(2) else { return false };
        let mut list = Reader { rest: body };
        let is_list = match kind {
            SUPPORTED_GROUPS | SIGNATURE_ALGORITHMS | USE_SRTP => list.vector(2).is_ok(),
            EC_POINT_FORMATS => list.vector(1).is_ok(),
            _ => true,
        };
        let is_new = kinds.get(..count).is_some_and(|before| !before.contains(&kind));
        let Some(slot) = kinds.get_mut(count).filter(|_| is_list && is_new) else { return false };
        *slot = kind;
        count += 1;
    }
    true
}

/// Rest of a message that is being read.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], NotHello> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(NotHello::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotHello> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(NotHello::Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Number of up to three bytes.
    fn number(&mut self, bytes: usize) -> Result<usize, NotHello> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Bytes after their number, which has `bytes` bytes itself.
    fn vector(&mut self, bytes: usize) -> Result<&'a [u8], NotHello> {
        let length = self.number(bytes)?;
        self.take(length)
    }
}

/// Maximum number of extensions; browsers send 15.
const EXTENSIONS_MAX: usize = 64;

/// Extensions whose content is a list (RFC 8422, RFC 5246 §7.4.1.4.1, RFC 5764 §4.1.1).
const SUPPORTED_GROUPS: usize = 10;
const EC_POINT_FORMATS: usize = 11;
const SIGNATURE_ALGORITHMS: usize = 13;
const USE_SRTP: usize = 14;

/// Handshake types (RFC 6347 §4.3.2).
const CLIENT_HELLO: u8 = 1;
const HELLO_VERIFY_REQUEST: u8 = 3;

/// Length of the header of a handshake message in bytes.
const MESSAGE_HEADER_BYTES: usize = 12;

/// Version and random.
const HEAD_BYTES: usize = 34;

/// RFC 6066 §3.
const SERVER_NAME: usize = 0;
const HOST_NAME: u8 = 0;

/// Makes and checks cookies: HMAC-SHA256 of the client's address and its ClientHello's parameters, truncated to
/// [`COOKIE_BYTES`].
///
/// The key is another one in each period of 60 seconds: a part of the seed. A cookie is good in its period and in the
/// next. So there is nothing to store and nothing to lock.
#[derive(Clone, Copy, Debug)]
pub struct Cookies {
    seed: Seed,
}

/// Judgement of a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It has no cookie; this is the one to answer with.
    NoCookie([u8; COOKIE_BYTES]),
    /// Its cookie is the one that its address got for its parameters.
    Proven,
    /// Its cookie is another one, or an expired one.
    WrongCookie,
}

impl Cookies {
    /// Cookies of a server. The seed must be unpredictable.
    pub const fn new(seed: Seed) -> Self {
        Self { seed }
    }

    /// Judges a ClientHello from `remote`.
    pub fn judge(&self, now: Instant, remote: SocketAddr, hello: &ClientHello<'_>) -> Judged {
        let period = now.as_secs() / PERIOD_S;
        if hello.cookie.is_empty() {
            let tag = self.mac(period, remote, hello).finalize().into_bytes();
            let mut cookie = [0; COOKIE_BYTES];
            cookie.copy_from_slice(&tag[..COOKIE_BYTES]);
            return Judged::NoCookie(cookie);
        }
        // The length is checked first: a shorter cookie would be a shorter tag.
        let is_right = hello.cookie.len() == COOKIE_BYTES
            && [period, period.wrapping_sub(1)]
                .into_iter()
                .any(|period| self.mac(period, remote, hello).verify_truncated_left(hello.cookie).is_ok());
        if is_right { Judged::Proven } else { Judged::WrongCookie }
    }

    fn mac(&self, period: u64, remote: SocketAddr, hello: &ClientHello<'_>) -> Hmac<Sha256> {
        // HMAC pads a short key with zeros to the hash's block (RFC 2104 §2); done here, it cannot fail.
        let mut block = [0; 64];
        block[..32].copy_from_slice(self.seed.part(period).bytes());
        let mut mac = Hmac::<Sha256>::new(&block.into());
        match remote.ip() {
            IpAddr::V4(v4) => mac.update(&v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => mac.update(&v6.octets()),
        }
        mac.update(&remote.port().to_be_bytes());
        for part in hello.parameters() {
            mac.update(&(part.len() as u16).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

/// Time in seconds for which a key is used.
const PERIOD_S: u64 = 60;

/// Content type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// ChangeCipherSpec.
    ChangeCipherSpec,
    /// Alert.
    Alert,
    /// Handshake message, or a fragment of one.
    Handshake,
    /// Application data.
    ApplicationData,
    /// A content type that DTLS 1.2 does not have.
    Other(u8),
}

/// Header of a record, and its payload, which may be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Content type.
    pub content_type: ContentType,
    /// Version as on the wire: 254, 253 for DTLS 1.2.
    pub version: [u8; 2],
    /// Number of the cipher state; 0 is unencrypted.
    pub epoch: u16,
    /// Sequence number, 48 bits.
    pub sequence: u64,
    /// Payload.
    pub payload: &'a [u8],
}

/// Iterator over the records of a datagram. It ends at the first that is not complete.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Records of a datagram.
    pub const fn of(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    /// Bytes after the last record that was returned.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (header, after) = self.rest.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let [kind, major, minor, numbers @ .., high, low] = header;
        let (payload, rest) = after.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        self.rest = rest;
        // 16 bits of epoch, 48 of sequence number.
        let number = numbers.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some(Record {
            content_type: ContentType::of(*kind),
            version: [*major, *minor],
            epoch: (number >> 48) as u16,
            sequence: number & SEQUENCE_MAX,
            payload,
        })
    }
}

impl ContentType {
    const fn of(number: u8) -> Self {
        match number {
            20 => Self::ChangeCipherSpec,
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::ApplicationData,
            other => Self::Other(other),
        }
    }
}

/// Length of a record's header in bytes.
const RECORD_HEADER_BYTES: usize = 13;

/// Largest sequence number.
const SEQUENCE_MAX: u64 = (1 << 48) - 1;

//! DHCP server (RFC 2131) for one client, with faults on request. It writes its packets byte by byte, because no library
//! writes most of them.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Configuration that the server offers to a client.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The client's address.
    pub address: Ipv4Addr,
    /// The client's hardware address.
    pub hardware: [u8; 6],
    /// The server, which is the gateway and the next server too.
    pub server: Ipv4Addr,
    /// Mask of the network.
    pub mask: Ipv4Addr,
    /// Name server.
    pub dns: Option<Ipv4Addr>,
    /// Duration of the lease in seconds.
    pub lease_s: u32,
}

impl Offer {
    /// Broadcast address of the network, which no client can have.
    fn broadcast(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask.to_bits())
    }
}

/// DHCP server for one client.
pub struct DhcpServer {
    /// Offer when no fault below applies.
    pub offer: Offer,
    /// Further options: code and value.
    pub extra: Vec<(u8, Vec<u8>)>,
    /// Every REQUEST gets a NAK.
    pub refuses: bool,
    /// Number of DISCOVERs that get no answer.
    pub deaf_for: u32,
    /// Answers to the first REQUESTs, one each; then all get an address.
    pub first_answers: VecDeque<Answer>,
    /// Number of answers that are preceded by invalid packets.
    pub nonsense: u32,
    /// Kinds of the received messages (RFC 2132 §9.6).
    pub seen: Vec<u8>,
    /// Number of the last transaction.
    transaction: Vec<u8>,
}

/// Answer to a REQUEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// DHCPNAK.
    Nak,
    /// DHCPACK with this address.
    Address(Ipv4Addr),
    /// DHCPACK with this mask.
    Mask(Ipv4Addr),
    /// DHCPACK with this lease in seconds.
    Lease(u32),
    /// DHCPACK without a lease.
    NoLease,
}

impl DhcpServer {
    /// Creates a server without faults.
    pub fn new(offer: Offer) -> Self {
        Self {
            offer,
            extra: Vec::new(),
            refuses: false,
            deaf_for: 0,
            first_answers: VecDeque::new(),
            nonsense: 0,
            seen: Vec::new(),
            transaction: Vec::new(),
        }
    }

    /// Number of received DISCOVERs.
    pub fn discovers(&self) -> u32 {
        self.count(DISCOVER)
    }

    fn count(&self, kind: u8) -> u32 {
        self.seen.iter().filter(|seen| **seen == kind).count() as u32
    }

    /// Answers a packet.
    pub fn answer(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let (Some(kind), Some(transaction)) = (kind_of(packet), packet.get(TRANSACTION)) else {
            return Vec::new();
        };
        let mut answer = Packet::offer(&self.offer, transaction);
        answer.options.extend_from_slice(&self.extra);
        self.transaction = transaction.to_vec();
        self.seen.push(kind);
        match kind {
            DISCOVER if self.discovers() <= self.deaf_for => return Vec::new(),
            DISCOVER => {}
            REQUEST if self.refuses => answer.spoil(Some(Answer::Nak)),
            REQUEST => answer.spoil(self.first_answers.pop_front()),
            _ => return Vec::new(),
        }
        let mut all = Vec::new();
        if self.nonsense > 0 {
            self.nonsense -= 1;
            all = nonsense(&self.offer, &answer);
        }
        all.push(answer.bytes());
        all
    }

    /// Answers of another server to the client's last message: a NAK, and another address.
    pub fn stray_answers(&self) -> [Vec<u8>; 2] {
        [Answer::Nak, Answer::Address(self.offer.broadcast())].map(|answer| {
            let mut packet = Packet::offer(&self.offer, &self.transaction);
            packet.spoil(Some(answer));
            packet.bytes()
        })
    }
}

/// Packet of the server (RFC 2131 §2).
#[derive(Clone)]
struct Packet {
    transaction: Vec<u8>,
    address: Ipv4Addr,
    server: Ipv4Addr,
    hardware: [u8; 6],
    options: Vec<(u8, Vec<u8>)>,
    /// Bytes after the options.
    end: Vec<u8>,
}

impl Packet {
    /// The offer itself.
    fn offer(offer: &Offer, transaction: &[u8]) -> Self {
        let address = |address: Ipv4Addr| address.octets().to_vec();
        let mut options = vec![
            (KIND, vec![OFFER]),
            (SERVER, address(offer.server)),
            (LEASE, offer.lease_s.to_be_bytes().to_vec()),
            (MASK_OPTION, address(offer.mask)),
            (ROUTER, address(offer.server)),
        ];
        options.extend(offer.dns.map(|dns| (DNS, address(dns))));
        Self {
            transaction: transaction.to_vec(),
            address: offer.address,
            server: offer.server,
            hardware: offer.hardware,
            options,
            end: vec![END],
        }
    }

    /// Turns the packet into the answer to a REQUEST.
    fn spoil(&mut self, answer: Option<Answer>) {
        self.set(KIND, vec![ACK]);
        match answer {
            None => {}
            Some(Answer::Nak) => {
                self.set(KIND, vec![NAK]);
                self.address = Ipv4Addr::UNSPECIFIED;
            }
            Some(Answer::Address(address)) => self.address = address,
            Some(Answer::Mask(mask)) => self.set(MASK_OPTION, mask.octets().to_vec()),
            Some(Answer::Lease(seconds)) => self.set(LEASE, seconds.to_be_bytes().to_vec()),
            Some(Answer::NoLease) => self.options.retain(|(code, _)| *code != LEASE),
        }
    }

    fn set(&mut self, code: u8, value: Vec<u8>) {
        self.options
            .iter_mut()
            .filter(|option| option.0 == code)
            .for_each(|option| option.1.clone_from(&value));
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2, 1, 6, 0];
        bytes.extend_from_slice(&self.transaction);
        // Seconds, flags, the client's address before.
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&self.address.octets());
        bytes.extend_from_slice(&self.server.octets());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.hardware);
        // The rest of the hardware address, the server's name, the file.
        bytes.extend_from_slice(&[0; 10 + 64 + 128]);
        bytes.extend_from_slice(&COOKIE);
        for (code, value) in &self.options {
            bytes.extend_from_slice(&[*code, u8::try_from(value.len()).unwrap_or(u8::MAX)]);
            bytes.extend_from_slice(value);
        }
        bytes.extend_from_slice(&self.end);
        bytes
    }
}

/// Packets like `right` that a client must ignore: of another transaction or client, with invalid addresses or options,
/// and truncated ones.
fn nonsense(offer: &Offer, right: &Packet) -> Vec<Vec<u8>> {
    let changed = |change: &dyn Fn(&mut Packet)| {
        // With an invalid address, so that a test notices if it is used.
        let mut packet = Packet { address: offer.broadcast(), ..right.clone() };
        change(&mut packet);
        packet.bytes()
    };
    let mut all = vec![
        changed(&|packet| packet.transaction = vec![0xde, 0xad, 0xbe, 0xef]),
        changed(&|packet| packet.hardware = [2, 9, 9, 9, 9, 9]),
        changed(&|packet| packet.end = vec![0x0c, 200, b'x', END]),
        changed(&|packet| packet.end = vec![SERVER, 0, END]),
        changed(&|packet| packet.end = vec![MASK_OPTION]),
        changed(&|packet| packet.options.clear()),
        changed(&|packet| packet.end = vec![0; 1000]),
        changed(&|packet| packet.end = [[55, 255].as_slice(), &[1; 255]].concat().repeat(4)),
    ];
    for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
        all.push(changed(&|packet| packet.address = address));
    }
    for code in [KIND, SERVER, LEASE, MASK_OPTION] {
        for bytes in [0, 1, 3, 5, 255] {
            all.push(changed(&|packet| packet.set(code, vec![255; bytes])));
        }
    }
    let whole = changed(&|_| {});
    all.extend((0..whole.len()).step_by(3).filter_map(|length| whole.get(..length)).map(<[u8]>::to_vec));
    all
}

/// Kind of a client's message.
fn kind_of(packet: &[u8]) -> Option<u8> {
    let mut options = packet.get(OPTIONS..)?;
    while let [code, length, rest @ ..] = options {
        if *code == KIND {
            return rest.first().copied();
        }
        options = rest.get(usize::from(*length)..)?;
    }
    None
}

/// Position of the transaction's number.
const TRANSACTION: std::ops::Range<usize> = 4..8;
/// Position of the options, after [`COOKIE`].
const OPTIONS: usize = 240;
/// RFC 2131 §3.
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// RFC 2132: options.
const MASK_OPTION: u8 = 1;
const ROUTER: u8 = 3;
const DNS: u8 = 6;
const LEASE: u8 = 51;
const KIND: u8 = 53;
const SERVER: u8 = 54;
const END: u8 = 255;

/// RFC 2132 §9.6: kinds of messages.
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;
const NAK: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: Offer = Offer {
        address: Ipv4Addr::new(10, 77, 0, 2),
        hardware: [2; 6],
        server: Ipv4Addr::new(10, 77, 0, 1),
        mask: Ipv4Addr::new(255, 255, 0, 0),
        dns: None,
        lease_s: 3600,
    };

    fn asked(kind: u8) -> Vec<u8> {
        let mut packet = Packet::offer(&OFFERED, &[1, 2, 3, 4]);
        packet.set(KIND, vec![kind]);
        packet.bytes()
    }

    #[test]
    fn answers_come_in_their_order() {
        let mut server = DhcpServer {
            deaf_for: 1,
            first_answers: [Answer::Nak, Answer::Lease(2)].into(),
            ..DhcpServer::new(OFFERED)
        };
        assert!(server.answer(&asked(DISCOVER)).is_empty());
        let mut kinds = |kind| server.answer(&asked(kind)).iter().map(|packet| kind_of(packet)).collect();
        let expected: [(u8, Vec<Option<u8>>); 3] =
            [(DISCOVER, vec![Some(OFFER)]), (REQUEST, vec![Some(NAK)]), (REQUEST, vec![Some(ACK)])];
        for (kind, answers) in expected {
            let got: Vec<Option<u8>> = kinds(kind);
            assert_eq!(got, answers);
        }
        assert_eq!((server.discovers(), server.count(REQUEST)), (2, 2));
    }

    #[test]
    fn nonsense_is_many_and_differs_from_what_is_right() {
        let right = Packet::offer(&OFFERED, &[1, 2, 3, 4]);
        let all = nonsense(&OFFERED, &right);
        assert!(all.len() > 100 && !all.contains(&right.bytes()));
    }
}

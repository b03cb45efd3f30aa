//! A DHCP server (RFC 2131) for one machine that can be told to misbehave. It writes its packets byte by byte: most of what is
//! tried here is no packet that a library would write.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use super::frames::{EVERYBODY, HOST, MACHINE, MACHINE_HARDWARE, MASK};

/// The server: what it was asked, and how it answers.
#[derive(Default)]
pub(super) struct DhcpServer {
    /// So many DISCOVERs get no answer.
    pub(super) deaf_for: u32,
    /// What the first REQUESTs get, one each; then all get an address.
    pub(super) first_answers: VecDeque<Answer>,
    /// Before so many answers comes everything that is none.
    pub(super) nonsense: u32,
    /// DISCOVERs that came.
    pub(super) discovers: u32,
    /// REQUESTs that came.
    pub(super) requests: u32,
    /// The number of the last transaction.
    transaction: Vec<u8>,
}

/// How a REQUEST is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// No.
    Nak,
    /// With this address.
    Address(Ipv4Addr),
    /// With this mask.
    Mask(Ipv4Addr),
    /// For so many seconds.
    Lease(u32),
    /// Without saying for how long.
    NoLease,
}

impl DhcpServer {
    /// What it answers to a packet.
    pub(super) fn answer(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let (Some(kind), Some(transaction)) = (kind_of(packet), packet.get(TRANSACTION)) else {
            return Vec::new();
        };
        let mut answer = Packet::offer(transaction);
        self.transaction = transaction.to_vec();
        match kind {
            DISCOVER => {
                self.discovers += 1;
                if self.discovers <= self.deaf_for {
                    return Vec::new();
                }
            }
            REQUEST => {
                self.requests += 1;
                answer.spoil(self.first_answers.pop_front());
            }
            _ => return Vec::new(),
        }
        let mut all = Vec::new();
        if self.nonsense > 0 {
            self.nonsense -= 1;
            all = nonsense(&answer);
        }
        all.push(answer.bytes());
        all
    }

    /// What a stranger can say who heard the machine's last question: no, and another address.
    pub(super) fn stray_answers(&self) -> [Vec<u8>; 2] {
        [Answer::Nak, Answer::Address(EVERYBODY)].map(|answer| {
            let mut packet = Packet::offer(&self.transaction);
            packet.spoil(Some(answer));
            packet.bytes()
        })
    }
}

/// What a server writes (RFC 2131 §2).
#[derive(Clone)]
struct Packet {
    transaction: Vec<u8>,
    address: Ipv4Addr,
    hardware: [u8; 6],
    options: Vec<(u8, Vec<u8>)>,
    /// What stands behind the options.
    end: Vec<u8>,
}

impl Packet {
    /// A good one.
    fn offer(transaction: &[u8]) -> Self {
        let address = |address: Ipv4Addr| address.octets().to_vec();
        Self {
            transaction: transaction.to_vec(),
            address: MACHINE,
            hardware: MACHINE_HARDWARE,
            options: vec![
                (KIND, vec![OFFER]),
                (SERVER, address(HOST)),
                (LEASE, LEASE_S.to_be_bytes().to_vec()),
                (MASK_OPTION, address(MASK)),
                (ROUTER, address(HOST)),
            ],
            end: vec![END],
        }
    }

    /// Makes the answer to a REQUEST of it.
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
        bytes.extend_from_slice(&HOST.octets());
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

/// What looks like `right` and must not be taken: not this transaction's, not this machine's, addresses that no machine has,
/// options that lie, and everything cut off.
fn nonsense(right: &Packet) -> Vec<Vec<u8>> {
    let changed = |change: &dyn Fn(&mut Packet)| {
        // With an address that no machine has: what is taken of these is seen.
        let mut packet = Packet { address: EVERYBODY, ..right.clone() };
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

/// The kind of message that a client sent.
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

/// Where the number of the transaction stands.
const TRANSACTION: std::ops::Range<usize> = 4..8;
/// Where the options begin, behind [`COOKIE`].
const OPTIONS: usize = 240;
/// RFC 2131 §3.
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// RFC 2132: options.
const MASK_OPTION: u8 = 1;
const ROUTER: u8 = 3;
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

/// For how long an address is lent.
const LEASE_S: u32 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: u8) -> Vec<u8> {
        let mut packet = Packet::offer(&[1, 2, 3, 4]);
        packet.set(KIND, vec![kind]);
        packet.bytes()
    }

    #[test]
    fn answers_come_in_their_order() {
        let mut server = DhcpServer {
            deaf_for: 1,
            first_answers: [Answer::Nak, Answer::Lease(2)].into(),
            ..DhcpServer::default()
        };
        assert!(server.answer(&asked(DISCOVER)).is_empty());
        let mut kinds = |kind| server.answer(&asked(kind)).iter().map(|packet| kind_of(packet)).collect();
        let expected: [(u8, Vec<Option<u8>>); 3] =
            [(DISCOVER, vec![Some(OFFER)]), (REQUEST, vec![Some(NAK)]), (REQUEST, vec![Some(ACK)])];
        for (kind, answers) in expected {
            let got: Vec<Option<u8>> = kinds(kind);
            assert_eq!(got, answers);
        }
        assert_eq!((server.discovers, server.requests), (2, 2));
    }

    #[test]
    fn nonsense_is_many_and_differs_from_what_is_right() {
        let right = Packet::offer(&[1, 2, 3, 4]);
        let all = nonsense(&right);
        assert!(all.len() > 100 && !all.contains(&right.bytes()));
    }
}
